"""Measure configurations in turn, until the intervals of their ratios are narrow
enough.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Self

from triage.execution.engine import Engine
from triage.execution.timing import (
    CONFIDENCE,
    LOOKS,
    Comparison,
    Pace,
    Program,
    compare_times,
    compile_measured,
    dispatch_programs,
    functions_of,
    rounds,
)
from triage.model.case import Case, RunSpec
from triage.model.json_form import UNPRINTED, in_json, in_json_as, key
from triage.model.outcome import NoAnswer
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
class Series:
    """The times of one function in one configuration, in seconds."""

    configuration: Configuration = field(metadata=UNPRINTED)
    function: str
    program: Program | None = field(default=None, metadata=UNPRINTED)
    spec: RunSpec | None = field(default=None, metadata=UNPRINTED)
    samples: list[float] = field(default_factory=list)
    peak_mb: float | None = None
    """The most memory that a run used."""
    reason: str | None = None
    """Why there are no times."""
    comparison: Comparison | None = field(default=None, metadata=UNPRINTED)
    """With the baseline."""
    toolchain: Revision | None = None
    """What the toolchain reports, once the case was compiled."""

    @in_json_as("case")
    def case_name(self) -> str:
        return self.configuration.case.name

    @in_json
    def median(self) -> float | None:
        if self.samples:
            return median(self.samples)
        return None

    @in_json
    def ratio(self) -> float | None:
        if self.comparison:
            return self.comparison.ratio
        return None

    @in_json
    def low(self) -> float | None:
        if self.comparison:
            return self.comparison.low
        return None

    @in_json
    def high(self) -> float | None:
        if self.comparison:
            return self.comparison.high
        return None

    @in_json
    def verdict(self) -> Pace | None:
        if self.comparison:
            return self.comparison.pace
        return None

    def measure(self, engine: Engine, *, keep: bool = True) -> None:
        """Add one sample, or the reason why there is none. keep: false for a run that
        only warms up.
        """
        assert self.program is not None
        assert self.spec is not None
        sample = self.program.sample(engine, self.spec)
        if isinstance(sample, NoAnswer):
            self.reason = sample.reason
        elif keep:
            self.samples.append(sample.seconds)
            self.peak_mb = max(self.peak_mb or 0.0, sample.peak_mb)


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
        """The first times of the baseline."""
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
        rows = [
            next((row for row in self.rows(one) if row.program), None)
            for one in self.configurations
        ]
        return [
            {
                "case": row.case_name,
                "toolchain": row.toolchain,
                "bytes": row.program.bytes,
                "dispatches": row.program.dispatches,
            }
            for row in rows
            if row and row.program
        ]

    def peak_mb(self, configuration: Configuration) -> float | None:
        """Return the most memory that a run of a configuration used."""
        return max(
            (row.peak_mb for row in self.rows(configuration) if row.peak_mb),
            default=None,
        )

    def of(self, configuration: Configuration, function: str) -> Series | None:
        """Return the series in one cell of the table."""
        return next(
            (row for row in self.rows(configuration) if row.function == function), None
        )

    def rows(self, configuration: Configuration) -> list[Series]:
        """Return the series of one configuration."""
        return [row for row in self.series if row.configuration == configuration]

    def program(self, configuration: Configuration) -> Program | None:
        """Return the compiled program of a configuration, whose file is gone."""
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
                changed = {
                    row.function for row in self.series if _is_change(row.comparison)
                }
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
            target = folder / f"{index:04}.out"
            if dispatch is None:
                rows = _functions(engine, configuration, target)
            else:
                rows = _kernels(engine, configuration, target)
            if isinstance(rows, NoAnswer):
                self.series += [Series(configuration, "", reason=rows.reason)]
            else:
                self.series += rows
            for row in self.rows(configuration):
                row.toolchain = engine.registry.revision(configuration.ref)
            task.advance()
        task.finish()
        if dispatch is not None:
            self._choose(dispatch)

    def _choose(self, text: str) -> None:
        """Keep the dispatches with this text in their names. Programs with other
        numbers of dispatches than the baseline have columns of their own, because their
        dispatches of one number are not the same kernel.
        """
        counts = Counter(row.configuration.name for row in self.series)
        self.series = [
            row for row in self.series if text in row.function or row.reason is not None
        ]
        for row in self.series:
            count = counts[row.configuration.name]
            if row.function and count != counts[self.baseline.name]:
                row.function += f" of {count}"
        if not self.series:
            names = f"no dispatch has {text!r} in its name"
            self.series = [
                Series(configuration, "", reason=names)
                for configuration in self.configurations
            ]

    def _confirm(self, engine: Engine, rows: Sequence[Series], end: float) -> None:
        """Measure again what changed, from the start: a change counts when both
        measurements say so.
        """
        first = [(row.comparison, row.samples) for row in rows]
        for row in rows:
            row.samples, row.comparison = [], None
        try:
            self._measure_in_turn(engine, rows, end)
        finally:
            for row, (comparison, samples) in zip(rows, first, strict=True):
                row.comparison = _agreed(comparison, row.comparison)
                row.samples = row.samples or samples  # the time was up

    def _measure_in_turn(
        self, engine: Engine, rows: Sequence[Series], end: float
    ) -> None:
        base = {row.function: row for row in rows if row.configuration == self.baseline}
        task = engine.progress.task("measure")
        undecided = [row for row in rows if row.reason is None]
        for number, turn in rounds(undecided, end, _GRACE):
            task.describe(f"measure  round {number + 1}")
            for row in turn:
                row.measure(engine, keep=number > 0)
            if number not in LOOKS:
                continue
            for row in undecided:
                other = base.get(row.function)
                if other is not None and other is not row:
                    row.comparison = compare_times(
                        other.samples, row.samples, self.threshold
                    )
            # All configurations of a function go on together: the baseline's samples
            # must be of the same minutes.
            functions = {
                row.function
                for row in undecided
                if _is_open(row, base.get(row.function))
            }
            undecided[:] = [
                row
                for row in undecided
                if row.function in functions and row.reason is None
            ]
        task.finish()


def _kernels(
    engine: Engine, configuration: Configuration, target: Path
) -> list[Series] | NoAnswer:
    """Compile a configuration and each of its kernels."""
    kernels = dispatch_programs(engine, configuration.case, configuration.ref, target)
    if isinstance(kernels, NoAnswer):
        return kernels
    return [
        Series(configuration, spec.label, reason=program.reason)
        if isinstance(program, NoAnswer)
        else Series(configuration, spec.label, program, spec)
        for spec, program in kernels
    ]


def _functions(
    engine: Engine, configuration: Configuration, target: Path
) -> list[Series] | NoAnswer:
    """Compile a configuration for each of its functions."""
    program = compile_measured(engine, configuration.case, configuration.ref, target)
    if isinstance(program, NoAnswer):
        return program
    specs = functions_of(engine, configuration.case, configuration.ref)
    if isinstance(specs, NoAnswer):
        return specs
    return [Series(configuration, spec.label, program, spec) for spec in specs]


def _is_open(row: Series, base: Series | None) -> bool:
    """Return whether a series needs more samples."""
    if row.reason is not None or base is None or base is row or base.reason is not None:
        return False
    return row.comparison is None or row.comparison.pace is Pace.NOISY


def _is_change(comparison: Comparison | None) -> bool:
    return comparison is not None and comparison.pace in (Pace.SLOWER, Pace.FASTER)


def _agreed(first: Comparison | None, second: Comparison | None) -> Comparison | None:
    """Return the second comparison; too noisy where a change is seen in one of them
    only.
    """
    last = second or first
    if last is None or not (_is_change(first) or _is_change(second)):
        return last
    if first and second and first.pace is second.pace:
        return last
    return replace(last, pace=Pace.NOISY)
