"""The command line: every command parses, calls one workflow, renders, and ends with
the exit code that it promises.
"""

from triage.cli.app import main

__all__ = ["main"]
