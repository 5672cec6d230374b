"""Run as a program by the Python that a Triton wheel is for, with the standard library
and nothing else of triage.
"""
