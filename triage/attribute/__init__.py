"""Compare the IR of two compilers over one case: the phase, the first pass after which
it differs, its source.
"""
