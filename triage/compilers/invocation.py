"""The command line of a compile, and the facts that a compile or a run prints."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending, Execution, is_number, utf8
from triage.processes.process import run, unlimited
from triage.processes.sealing import Seal

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_TIMEOUT = 60.0  # seconds; an answer takes 0.1
_LARGEST_ANSWER = 64 << 20  # bytes
_MARK = "triage: "
_REPORT = re.compile(rf"^{_MARK}\{{.*\}}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Invocation:
    """The command line of a compile. Only `options` are part of its key in the result
    cache.
    """

    options: tuple[str, ...]
    """All arguments except program, input and output."""
    printing: tuple[str, ...] = ()
    """Options that change only what is printed."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to the usual ones."""
    launcher: tuple[str, ...] = ()
    """What starts instead of the program, such as an interpreter and a script."""
    placeholders: Mapping[str, str] | None = None
    """If this is set, `options` is a whole command line with `{name}` placeholders,
    these are their values, and nothing is appended.
    """

    @property
    def has_output(self) -> bool:
        """Whether the command line names the file for the output."""
        if self.placeholders is None:
            return True
        return any("{output}" in word for word in self.options)

    def argv(self, program: Path, source: Path, output: Path) -> list[str]:
        """Return the command line, program first."""
        if self.placeholders is not None:
            values = {**self.placeholders, "input": str(source), "output": str(output)}
            return [fill_placeholders(word, values) for word in self.options]
        start = self.launcher or (str(program),)
        return [*start, *self.options, *self.printing, str(source), "-o", str(output)]


@dataclass(frozen=True, slots=True)
class MlirTools:
    """The MLIR tools of a toolchain."""

    optimizer: Path
    """Its `opt` program, which parses, prints and runs passes."""
    python_root: Path
    """The folder to import its Python bindings from."""
    package: str
    """Their package, which holds `ir`."""
    reads: tuple[Path, ...]
    """What they may read besides the program."""


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` by its value; unknown names stay."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def flag_name(text: str) -> str:
    """`iree-opt-level` of `--iree-opt-level=O3`."""
    return text.lstrip("-").partition("=")[0]


def ask_compiler(argv: Sequence[str], seal: Seal) -> Execution:
    """Run a command that asks a compiler about itself. Answers are stored, so it raises
    EnvironmentFailure if the command does not start, takes longer than a minute, or is
    killed.
    """
    answer = run(argv, unlimited(_TIMEOUT), seal=seal, kept=_LARGEST_ANSWER)
    if answer.ending in (Ending.NOT_STARTED, Ending.TIMED_OUT, Ending.SIGNALLED):
        raise EnvironmentFailure(
            f"{' '.join(argv)} does not run: {answer.stderr.last_line or answer.ending}"
        )
    return answer


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts in lines that start with `triage: `, of a compile or a run."""

    phase: str | None = None
    """The last phase that began."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Name -> value. The last word of a name is the unit, as in `shared_bytes`; a name
    without one is a count.
    """


def reported_facts(execution: Execution) -> RunFacts:
    """Read the lines on stdout that start with `triage: ` and continue as JSON:
    `{"stage": "llir"}` when a stage starts, and `{"metrics": {"shared_bytes": 4096}}`.
    Other lines are skipped.
    """
    phase: str | None = None
    metrics: dict[str, float] = {}
    for report in filter(None, map(_report_in, execution.stdout.text.splitlines())):
        if isinstance(report.get("stage"), str):
            phase = utf8(report["stage"])
        if isinstance(report.get("metrics"), dict):
            for name, value in report["metrics"].items():
                if is_number(value):
                    metrics[utf8(name)] = value
    return RunFacts(phase, metrics)


def _report_in(line: str) -> dict[str, Any] | None:
    if not line.startswith(_MARK):
        return None
    try:
        report = json.loads(line.removeprefix(_MARK))
    # not JSON, a number of thousands of digits, or nested too deep
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) else None


def readable_output(text: str) -> str:
    """Return an output for people: with empty lines for those that this program reads,
    so that lines keep their numbers.
    """
    return _REPORT.sub("", text)
