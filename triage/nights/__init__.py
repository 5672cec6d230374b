"""The history of nights: stored results of `triage nightly`, the life of each failure, and steps in measured times."""
