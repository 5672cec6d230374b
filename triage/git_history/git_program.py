"""The one way into git.

A clone may come from anybody. Its settings, hooks and attributes can name programs, so
every command runs with settings that override them. A command that reads a clone is one
of a few that read neither its index nor its attributes, and it reaches no server. What
writes files works in a private clone, whose settings are ours and the user's own.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from triage.model.address import without_secrets
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending
from triage.processes.containment import Purpose
from triage.processes.process import StopSignal, run, unlimited

# A server that sends nothing for 30 s has failed. Submodules that are fetched borrow
# objects from those of the user's clone.
_SETTINGS = shlex.split(
    "--no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null "
    "-c log.showSignature=false -c submodule.recurse=false -c gc.auto=0 "
    "-c maintenance.auto=false -c color.ui=never -c core.quotePath=false "
    "-c diff.renames=true -c http.lowSpeedLimit=1 -c http.lowSpeedTime=30 "
    "-c submodule.alternateLocation=superproject "
    "-c submodule.alternateErrorStrategy=info"
)
_ENV = {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1"}
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
READ_ONLY = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
}
"""The variables of commands that read a clone."""


class GitRefused(EnvironmentFailure):
    """A git command failed. The message contains git's message."""


def read_command(name: str, *words: str) -> list[str]:
    """Return the words of a command that reads a clone."""
    return [name, *_READING[name].split(), *words]


def run_git(
    words: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    seconds: float,
    *,
    lines: Sequence[str] = (),
    log: BinaryIO | None = None,
    stop: StopSignal | None = None,
) -> bytes:
    """Return the output of `git WORDS` with `lines` as its standard input. In a clone
    of somebody else, it may run only what `read_command` returns, with `READ_ONLY`.

    Raises GitRefused if the command fails.
    """
    limits, log_note = unlimited(seconds), ""
    if log:
        log.write(f"$ git {' '.join(words)}\n".encode())
        log_note = f" (log: {log.name})"
    output = bytearray()
    execution = run(
        ["git", *_SETTINGS, *words],
        limits,
        folder,
        seal=None,
        purpose=Purpose.GIT,
        env={**_ENV, **env},
        data="".join(f"{line}\n" for line in lines).encode(),
        stop=stop,
        on_stdout=output.extend,
    )
    if execution.ending is Ending.NOT_STARTED:
        raise EnvironmentFailure("there is no git program on the PATH")
    message = without_secrets(execution.stderr.text)
    if log:
        log.write(message.encode())
    if not execution.ok:
        reason = " ".join(message.split())[-400:] or execution.ending_text(limits)
        raise GitRefused(f"git {words[0]} failed in {folder}: {reason}{log_note}")
    return bytes(output)
