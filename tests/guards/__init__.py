"""Guards: what scripts and people rely on, frozen before the program is redesigned.

They start commands with `--format json` or read files that commands write, so that they
do not depend on inner structure. The only exception is `history_adapter`. `python -m
tests.guards.rewrite` writes the golden files anew after a wanted change.
"""
