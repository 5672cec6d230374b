"""The one place that runs compilers, diagnoses what they did and records it."""
