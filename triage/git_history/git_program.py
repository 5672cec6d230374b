"""The one way into git.

A clone may come from anybody. Its settings, hooks and attributes can name programs, so
every command runs with settings that override them. A command that reads a clone is one
of a few that read neither its index nor its attributes, and it reaches no server. What
writes files works in a private clone, whose settings are ours and the user's own.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

_SETTINGS = shlex.split(
    "--no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null "
    "-c log.showSignature=false -c submodule.recurse=false -c gc.auto=0 "
    "-c maintenance.auto=false -c color.ui=never -c core.quotePath=false "
    "-c diff.renames=true"
)
# The commands that read a clone, with the options that keep drivers from starting.
_READING = {
    "cat-file": "",
    "config": "",
    "for-each-ref": "",
    "grep": "--no-textconv",
    "log": "--no-ext-diff --no-textconv",
    "ls-tree": "",
    "merge-base": "",
    "remote": "",
    "rev-list": "",
    "rev-parse": "",
}

# Without optional locks git does not refresh the index. No protocol is allowed, since
# versions of git before 2.45 fetch what a partial clone lacks all the same.
READ_ONLY: Mapping[str, str] = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}
"""The variables of commands that read a clone."""


def reading_command(name: str, *words: str) -> list[str]:
    """Return the command line of a command that reads a clone."""
    return git_command(name, *_READING[name].split(), *words)


def git_command(*words: str) -> list[str]:
    """Return a command line of git. In a clone of somebody else, it may run only what
    `reading_command` returns.
    """
    return ["git", *_SETTINGS, *words]
