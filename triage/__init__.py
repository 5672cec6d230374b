"""Triage of compiler regressions: compile, classify, bisect and report on real released
compilers.
"""
