"""Run other programs: start, limit, read and end them with all their children."""
