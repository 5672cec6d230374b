"""Searches over revisions: one change between two ends, or every change along a
line.
"""
