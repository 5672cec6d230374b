"""Frozen values that every package shares. Standard library only."""
