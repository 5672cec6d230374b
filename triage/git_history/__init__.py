"""The first-parent history of a git repository: its commits in order, and the positions
of names, tags and dates.
"""
