"""Toolchains: revisions, the package index, the install cache, and sources for
commits.
"""
