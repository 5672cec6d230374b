"""Compare a new toolchain with a baseline over many cases: regressions, fixes and their
origin.
"""
