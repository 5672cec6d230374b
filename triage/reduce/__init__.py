"""The search over programs: the smallest one that still fails the same way."""
