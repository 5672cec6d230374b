"""Guards: what scripts and people rely on, frozen before the program is redesigned.

They start commands with `--format json` or read files that commands write, so that they
do not depend on inner structure. The only exception is `history_adapter`. With
TRIAGE_REWRITE_GOLDEN=1, the tests write the golden files anew, after a wanted change.
"""
