"""From a failure to what makes it compile: candidates tried, the smallest values found, and what each of them breaks."""
