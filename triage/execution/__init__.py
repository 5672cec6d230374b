"""Compile cases under limits, cache what happened, and judge it."""
