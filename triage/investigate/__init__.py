"""Investigate a failure: where it comes from, which pass makes it, what works around
it, and its smallest program. For one case of `triage why`, and for the clusters of a
night.
"""
