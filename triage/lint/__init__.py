"""Lint programs before they are compiled, and measure the limit of the affinity
solver.
"""
