"""Any compiler that is run by a command: from a package of the index with what it depends on, or in a folder."""

from triage.compilers.command.adapter import Command

__all__ = ["Command"]
