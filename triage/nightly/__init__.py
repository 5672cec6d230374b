"""Many cases on a new compiler against a baseline: what changed, grouped by failure, each traced to its release."""
