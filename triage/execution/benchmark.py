"""Measure configurations in turn, until the intervals of their ratios are narrow
enough.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

from triage.execution.engine import Engine
from triage.execution.in_turn import (
    CONFIDENCE,
    LOOKS,
    Contender,
    Pace,
    Ratio,
    measure_in_turn,
    ratio_of,
)
from triage.execution.timing import (
    Program,
    compile_measured,
    dispatch_programs,
    functions_of,
)
from triage.model.case import Case, RunSpec
from triage.model.json_form import UNPRINTED, in_json, in_json_as, inline, key
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Revision
from triage.toolchains.home import temporary_folder
from triage.toolchains.registry import ToolchainRef

_GRACE = 300.0  # seconds more for the least number of samples


@dataclass(frozen=True, slots=True)
class Configuration:
    """A case compiled with a toolchain: a row of the table."""

    case: Case
    ref: ToolchainRef

    @property
    def name(self) -> str:
        return f"{self.case.name} on {self.ref.revision.name}"


@dataclass(slots=True)
class Series(Contender):
    """The times of one function in one configuration."""

    configuration: Configuration = field(metadata=UNPRINTED)
    function: str
    program: Program | None = field(default=None, metadata=UNPRINTED)
    ratio: Ratio | None = field(default=None, metadata=inline(Ratio))
    """To the baseline."""
    verdict: Pace | None = None
    toolchain: Revision | None = None
    """What the toolchain reports, once the case was compiled."""

    @in_json_as("case")
    def case_name(self) -> str:
        return self.configuration.case.name

    @property
    def has_changed(self) -> bool:
        return self.verdict in (Pace.SLOWER, Pace.FASTER)

    def compare(self, baseline: Series, threshold: float) -> None:
        """Compare the times with those of the baseline, if there are enough."""
        self.ratio = ratio_of(baseline.samples, self.samples)
        if self.ratio:
            self.verdict = self.ratio.pace(threshold)


@dataclass(slots=True)
class Benchmark:
    """Times of all configurations. While `measure` runs it holds what is known so far,
    which can be reported at any time.
    """

    configurations: Sequence[Configuration] = field(metadata=UNPRINTED)
    baseline: Configuration = field(metadata=UNPRINTED)
    """The configuration that the others are compared with."""
    threshold: float
    """The smallest change that counts."""
    series: list[Series] = field(default_factory=list, metadata=key("results"))
    seconds: float = 0.0
    """Duration of the measurement."""
    stopped: bool = field(default=False, metadata=key("partial"))
    """The measurement was interrupted."""

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that are measured."""
        return tuple(dict.fromkeys(row.function for row in self.series if row.function))

    @in_json_as("baseline")
    def baseline_row(self) -> Series | None:
        """The first times of the baseline, None before it is compiled."""
        return next(iter(self.rows(self.baseline)), None)

    @in_json
    def confidence(self) -> float:
        """The probability that an interval holds the true ratio."""
        return CONFIDENCE

    @in_json
    def sizes(self) -> list[Mapping[str, object]]:
        """The size of each compiled program, and how many kernels its functions
        start.
        """
        programs = {
            row.configuration.name: {
                "case": row.case_name,
                "toolchain": row.toolchain,
                "bytes": row.program.bytes,
                "dispatches": row.program.dispatches,
            }
            for row in self.series
            if row.program
        }
        return list(programs.values())

    def of(self, configuration: Configuration, function: str) -> Series | None:
        """Return the series in one cell of the table; None if the cell is empty."""
        return next(
            (row for row in self.rows(configuration) if row.function == function), None
        )

    def rows(self, configuration: Configuration) -> list[Series]:
        """Return the series of one configuration."""
        return [row for row in self.series if row.configuration == configuration]

    def program(self, configuration: Configuration) -> Program | None:
        """Return the compiled program of a configuration, whose file is gone; None if
        it did not compile.
        """
        return next(
            (row.program for row in self.rows(configuration) if row.program), None
        )

    def measure(
        self, engine: Engine, budget: float, dispatch: str | None = None
    ) -> Self:
        """Compile every configuration, measure them in turn, and measure each change
        again.

        It ends when every verdict is clear, or `budget` seconds after the compiles. The
        least number of samples is taken even then, unless that takes much longer. With
        `dispatch`, kernels with this text in their names are measured instead of
        functions.
        """
        started = time.monotonic()
        try:
            with temporary_folder() as folder:
                self._compile(engine, Path(folder), dispatch)
                end = time.monotonic() + budget
                self._measure_in_turn(
                    engine, [row for row in self.series if row.program], end
                )
                changed = {row.function for row in self.series if row.has_changed}
                again = [
                    row
                    for row in self.series
                    if row.program and row.function in changed
                ]
                if again:
                    self._confirm(engine, again, end)
        finally:
            self.seconds = time.monotonic() - started
        return self

    def _compile(self, engine: Engine, folder: Path, dispatch: str | None) -> None:
        """Compile everything. Paths of all have one length: that of the command line
        moves the stack, and some times.
        """
        task = engine.progress.task("compile", total=len(self.configurations))
        for index, configuration in enumerate(self.configurations):
            task.describe(f"compile  {configuration.name}")
            case, ref = configuration.case, configuration.ref
            target = folder / f"{index:04}.out"
            programs: list[tuple[RunSpec, Program | NoAnswer]] | NoAnswer
            if dispatch is None:
                programs = _functions(engine, case, ref, target)
            else:
                programs = dispatch_programs(engine, case, ref, target)
            if isinstance(programs, NoAnswer):
                self.series.append(Series(configuration, "", problem=programs))
                programs = []
            for spec, program in programs:
                if isinstance(program, NoAnswer):
                    row = Series(configuration, spec.label, problem=program)
                else:
                    sampler = partial(program.sample, engine, spec)
                    row = Series(configuration, spec.label, program, sampler=sampler)
                self.series.append(row)
            for row in self.rows(configuration):
                row.toolchain = engine.registry.revision(ref)
            task.advance()
        task.finish()
        if dispatch is not None:
            self._keep_dispatches(dispatch)

    def _keep_dispatches(self, text: str) -> None:
        """Keep the dispatches with this text in their names. Programs with other
        numbers of dispatches than the baseline have columns of their own, because their
        dispatches of one number are not the same kernel.
        """
        counts = Counter(row.configuration.name for row in self.series)
        self.series = [
            row for row in self.series if text in row.function or row.problem
        ]
        for row in self.series:
            count = counts[row.configuration.name]
            if row.function and count != counts[self.baseline.name]:
                row.function += f" of {count}"
        if not self.series:
            missing = NoAnswer(Cause.NOT_FOUND, f"no dispatch has {text!r} in its name")
            self.series = [
                Series(configuration, "", problem=missing)
                for configuration in self.configurations
            ]

    def _confirm(self, engine: Engine, rows: Sequence[Series], end: float) -> None:
        """Measure again what changed, from the start: a change counts when both
        measurements say so.
        """
        first = [replace(row) for row in rows]
        for row in rows:
            row.samples, row.ratio, row.verdict = [], None, None
        try:
            self._measure_in_turn(engine, rows, end)
        finally:
            for row, before in zip(rows, first, strict=True):
                row.samples = row.samples or before.samples  # the time was up
                row.ratio = row.ratio or before.ratio
                disagree = row.verdict is not before.verdict
                if disagree and (row.has_changed or before.has_changed):
                    row.verdict = Pace.NOISY
                row.verdict = row.verdict or before.verdict

    def _measure_in_turn(
        self, engine: Engine, rows: Sequence[Series], end: float
    ) -> None:
        base = {row.function: row for row in rows if row.configuration == self.baseline}
        task = engine.progress.task("measure")
        undecided = [row for row in rows if row.problem is None]
        for taken in measure_in_turn(undecided, end, _GRACE):
            task.describe(f"measure  round {taken + 1}")
            if taken not in LOOKS:
                continue
            for row in undecided:
                other = base.get(row.function)
                if other is not None and other is not row:
                    row.compare(other, self.threshold)
            # All configurations of a function go on together: the baseline's samples
            # must be of the same minutes.
            functions = {
                row.function
                for row in undecided
                if _is_open(row, base.get(row.function))
            }
            undecided[:] = [row for row in undecided if row.function in functions]
        task.finish()


def _functions(
    engine: Engine, case: Case, ref: ToolchainRef, target: Path
) -> list[tuple[RunSpec, Program | NoAnswer]] | NoAnswer:
    """Compile a case once; return its functions, each with the program, or why there
    are none.
    """
    program = compile_measured(engine, case, ref, target)
    if isinstance(program, NoAnswer):
        return program
    specs = functions_of(engine, case, ref)
    if isinstance(specs, NoAnswer):
        return specs
    return [(spec, program) for spec in specs]


def _is_open(row: Series, base: Series | None) -> bool:
    """Return whether a series needs more samples."""
    if row.problem or base is None or base is row or base.problem:
        return False
    return row.verdict in (None, Pace.NOISY)
