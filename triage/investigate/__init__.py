"""Investigate the new failures of a night: culprit, divergence, remedies, reproducer and issue draft of each cluster."""
