"""Triage of compiler regressions: compile, classify, bisect and report on real released
compilers.
"""

import os

# Pydantic looks for plugins in every installed package, which takes a tenth of a start.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
