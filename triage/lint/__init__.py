"""Lint of programs before they are compiled, with the rules of their compiler family."""
