"""A compile that is repeated without triage: what a family needs to write its command, and the command."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from triage.model.case import Case

RULES_FILE = "failure.rules"  # a suffix that no recipe has


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function as its module names it, `softmax`, or `softmax.fn` below an autotuner; parameters in their order."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandaloneCompile:
    """One compile. source: the input's file name; program, options: the command line without input and output; release: the
    compiler's name for readers; version: PEP 440; requirement: what pip installs, None when it is no release;
    failure_class: how it fails; function: the kernel in the input, None for anything else.
    """

    case: Case
    source: str
    program: str
    options: tuple[str, ...]
    release: str
    version: str | None
    requirement: str | None
    failure_class: str
    function: PythonFunction | None = None


@dataclass(frozen=True, slots=True)
class StandaloneCall:
    """How to run the compile. install: arguments of `pip install`, None when pip cannot install it; words, line: the
    command as a list and as README text; before, run: lines of the shell script; remark: a sentence about its variables;
    replaces: whether the script may `exec` the command.
    """

    install: str | None
    words: tuple[str, ...]
    run: str
    remark: str
    before: tuple[str, ...] = ()
    replaces: bool = True

    @property
    def line(self) -> str:
        return shlex.join(self.words)


def plain_call(task: StandaloneCompile) -> StandaloneCall:
    """`program options source -o /dev/null`."""
    words = (task.program, *task.options, task.source, "-o", "/dev/null")
    variable = re.sub(r"\W", "_", task.program).upper()
    run = f'"${{{variable}:-{task.program}}}" {shlex.join(words[1:])}'
    remark = f"\n# The flags use that version's spelling. Set {variable} to use another compiler."
    return StandaloneCall(task.requirement, words, run, remark)
