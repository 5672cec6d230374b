"""A compiler's command line, what it answers about itself, and the facts that a run
prints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending, Execution, is_number, utf8
from triage.processes.process import capture

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PATIENCE = 60.0  # seconds; an answer takes 0.1
_MARK = "triage: "
_MOST_METRICS = 1000
_LONGEST_NAME = 200  # characters


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command line."""

    options: tuple[str, ...]
    """All arguments except program, input and output. They are part of the key in the
    result cache.
    """
    printing: tuple[str, ...] = ()
    """Options that only change the output text; not part of any key."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to the usual ones."""
    launcher: tuple[str, ...] = ()
    """Runs instead of the program, such as an interpreter and a script; not part of any
    key.
    """
    places: Mapping[str, str] | None = None
    """Values of the `{name}` placeholders, when `options` is the whole command line of
    a recipe. Nothing is appended then.
    """

    def argv(self, program: Path, source: Path, output: Path) -> list[str]:
        """Return the command line, program first."""
        if self.places is not None:
            values = {**self.places, "input": str(source), "output": str(output)}
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


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` by its value; unknown names stay."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def flag_name(text: str) -> str:
    """`iree-opt-level` of `--iree-opt-level=O3`."""
    return text.lstrip("-").partition("=")[0]


def answer_of(argv: Sequence[str]) -> Execution:
    """Ask a compiler about itself. Raises EnvironmentFailure if it does not run."""
    answer = capture(argv, _PATIENCE)
    if answer.ending in (Ending.NOT_STARTED, Ending.TIMED_OUT):
        raise EnvironmentFailure(
            f"{' '.join(argv)} does not run: {answer.stderr.last_line or answer.ending}"
        )
    return answer


MISMATCH = {
    "output": int,
    "element": int,
    "kind": str,
    "actual": str,
    "expected": str,
}
"""The index of a wrong result, and that of its first wrong element; or `kind`, what
else differs, such as `metadata` for its shape. What it is, and what it must be.
"""


def mismatch_line(**mismatch: str | int) -> str:
    """Return the line of a run whose result is wrong. The keys are those of
    `MISMATCH`.
    """
    return f"{_MARK}{json.dumps({'mismatch': mismatch})}"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a finished run printed for this program."""

    phase: str | None = None
    """The last one reached."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Name -> value, with the unit as the name's last word (`shared_bytes`) unless it
    is a count.
    """
    ignored: tuple[str, ...] = ()
    """Metrics that are not finite numbers."""
    mismatch: Mapping[str, str | int] = field(default_factory=dict)
    """The first wrong result of a run, see `MISMATCH`; empty if none is."""


def _known_mismatch(report: Mapping[str, Any]) -> dict[str, str | int]:
    known: dict[str, str | int] = {}
    for name, kind in MISMATCH.items():
        value = report.get(name)
        if kind is str and isinstance(value, str):
            known[name] = utf8(value[:_LONGEST_NAME])
        elif kind is int and type(value) is int:
            known[name] = value
    return known


def reported_facts(execution: Execution) -> RunFacts:
    """Read stdout lines that start with `triage: ` and continue as JSON: `{"stage":
    "llir"}` when a stage starts, numbers as `{"metrics": {"shared_bytes": 4096}}`, and
    a wrong result as `mismatch_line` writes it. Other lines are ignored, and values
    that are not finite numbers.
    """
    phase: str | None = None
    mismatch: dict[str, str | int] = {}
    metrics: dict[str, Any] = {}
    for line in execution.stdout.text.splitlines():
        if not line.startswith(_MARK):
            continue
        try:
            report = json.loads(line.removeprefix(_MARK))
        # not JSON, a number of thousands of digits, or nested too deep
        except (ValueError, RecursionError):
            continue
        if not isinstance(report, dict):
            continue
        if isinstance(stage := report.get("stage"), str):
            phase = utf8(stage[:_LONGEST_NAME])
        if isinstance(wrong := report.get("mismatch"), dict):
            mismatch = _known_mismatch(wrong)
        if isinstance(numbers := report.get("metrics"), dict):
            values = islice(numbers.items(), max(0, _MOST_METRICS - len(metrics)))
            metrics |= {
                utf8(name[:_LONGEST_NAME]): value
                for name, value in values
                if type(value) in (int, float)
            }
    ignored = tuple(name for name, value in metrics.items() if not is_number(value))
    return RunFacts(
        phase,
        {name: value for name, value in metrics.items() if name not in ignored},
        ignored,
        mismatch,
    )
