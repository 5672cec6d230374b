"""Compare a new toolchain with a baseline over many cases: regressions, fixes, their origin and smallest examples."""
