"""Passes over plain text and printed SSA."""
