"""What a reproducer says about a compile, so that it can be repeated without triage."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.model.case import Case
from triage.model.revision import Toolchain

if TYPE_CHECKING:  # it parses MLIR
    pass


MODULE_PLACE = "{module}"  # stands for the compiled file in a command
RULES_FILE = "failure.rules"  # a suffix that no recipe has


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function as its module names it, `softmax`, or `softmax.fn` below an autotuner;
    parameters in their order.
    """

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandaloneCompile:
    """One compile."""

    case: Case
    source: str
    """File name of the input."""
    program: str
    options: tuple[str, ...]
    """The command line without program, input and output."""
    release: str
    """The compiler's name for readers."""
    version: str | None
    """PEP 440."""
    requirement: str | None
    """What pip installs for a release, as words of a shell."""
    failure_class: str
    function: PythonFunction | None = None
    """The kernel in the input."""
    run: tuple[str, ...] = ()
    """The program that runs what was compiled, its options and those of its values."""
    runtime: str | None = None
    """What pip installs for that program."""


@dataclass(frozen=True, slots=True)
class StandaloneCall:
    """How to run the compile."""

    install: str | None
    """Arguments of `pip install`, if pip can install it."""
    words: tuple[str, ...]
    run: str
    """Lines of the shell script that run the command."""
    remark: str
    """A sentence about the script's variables."""
    before: tuple[str, ...] = ()
    """Lines of the shell script before `run`."""
    replaces: bool = True
    """Whether the script may `exec` the command."""
    then: tuple[str, ...] = ()
    """The command that runs what it compiled."""

    @property
    def line(self) -> str:
        """The commands as README text."""
        return "\n".join(
            shlex.join(words) for words in (self.words, self.then) if words
        )


class ReproScript:
    """What a reproducer says about a family's compiles. This one suits a compiler that
    is a program.
    """

    module = "module.bin"
    """The compiled file of a reproducer that is run."""

    def recipe_keys(self, case: Case) -> Mapping[str, object]:
        """`compiler`, `run`, and the recipe keys that only this family has."""
        run = case.run
        if run is None:
            return {"compiler": case.compiler}
        keys = {
            "inputs": run.inputs,
            "expected": run.expected,
            "function": run.function,
            "device": run.device,
            "flags": run.flags,
            "tolerance": dict(run.tolerances),
            "limits": {"timeout": run.limits.timeout_text},
        }
        known = {name: value for name, value in keys.items() if value}
        return {"compiler": case.compiler, "run": known}

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        """Return what users call the compiler."""
        return toolchain.program.name

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        """`program options source -o /dev/null`, and the run of what it compiles."""
        words = (
            task.program,
            *task.options,
            task.source,
            "-o",
            self.module if task.run else "/dev/null",
        )
        then = tuple(word.replace(MODULE_PLACE, self.module) for word in task.run)
        lines, variables = [], []
        for command in filter(None, (words, then)):
            variables.append(re.sub(r"\W", "_", command[0]).upper())
            lines.append(
                f'"${{{variables[-1]}:-{command[0]}}}" {shlex.join(command[1:])}'
            )
        remark = (
            "\n# The flags use that version's spelling. Set "
            f"{' and '.join(variables)} to use another compiler."
        )
        install = " ".join(filter(None, (task.requirement, task.runtime))) or None
        return StandaloneCall(
            install, words, " &&\n".join(lines), remark, replaces=not then, then=then
        )

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        """Scripts, name -> text, that the call needs next to the input."""
        return {}
