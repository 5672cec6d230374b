"""Passes over plain text, for inputs that nothing here can read."""
