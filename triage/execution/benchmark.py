"""Measure configurations in turn, until the intervals of their ratios are narrow
enough.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

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
from triage.execution.timing import Program, function_programs
from triage.model.case import Case
from triage.model.exit_codes import Exit
from triage.model.json_form import UNPRINTED, in_json, key
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
class Series(Contender):
    """The times of one function in one configuration."""

    configuration: Configuration = field(metadata=UNPRINTED)
    function: str = ""
    program: Program | None = field(default=None, metadata=UNPRINTED)
    change: Ratio | None = field(default=None, metadata=UNPRINTED)
    """To the baseline."""
    verdict: Pace | None = None
    toolchain: Revision | None = None
    """What the toolchain reports, once the case was compiled."""

    @in_json
    def case(self) -> str:
        return self.configuration.case.name

    @in_json
    def ratio(self) -> float | None:
        return getattr(self.change, "value", None)

    @in_json
    def low(self) -> float | None:
        return getattr(self.change, "low", None)

    @in_json
    def high(self) -> float | None:
        return getattr(self.change, "high", None)


@dataclass(slots=True)
class Benchmark:
    """Times of all configurations. While `measure` runs it holds what is known so far,
    which can be reported at any time.
    """

    configurations: Sequence[Configuration] = field(metadata=UNPRINTED)
    baseline: Configuration = field(metadata=UNPRINTED)
    """The configuration that the others are compared with."""
    smallest_change: ClassVar[float] = 0.05
    series: list[Series] = field(default_factory=list, metadata=key("results"))
    stopped: bool = field(default=False, metadata=key("partial"))
    """The measurement was interrupted."""

    @property
    def exit(self) -> Exit:
        paces = {series.verdict for series in self.series}
        if Pace.SLOWER in paces:
            return Exit.FOUND
        if Pace.NOISY in paces or any(series.reason for series in self.series):
            return Exit.INCONCLUSIVE
        return Exit.OK

    @in_json
    def baseline_(self) -> Series | None:
        """The first times of the baseline, None before it is compiled."""
        return next(iter(self.rows(self.baseline).values()), None)

    @in_json
    def confidence(self) -> float:
        """The probability that an interval holds the true ratio."""
        return CONFIDENCE

    @in_json
    def sizes(self) -> list[Mapping[str, object]]:
        """The size of each compiled program, and how many kernels its functions
        start.
        """
        sizes: dict[str, Mapping[str, object]] = {}
        for row in self.series:
            if row.program:
                sizes[row.configuration.name] = {
                    "case": row.case,
                    "toolchain": row.toolchain,
                    "bytes": row.program.bytes,
                    "dispatches": row.program.dispatches,
                }
        return [*sizes.values()]

    def rows(self, configuration: Configuration) -> dict[str, Series]:
        """Return the series of one configuration by function."""
        return {
            row.function: row
            for row in self.series
            if row.configuration == configuration
        }

    def measure(
        self, engine: Engine, budget: float, dispatch: str | None = None
    ) -> Self:
        """Compile every configuration, and measure them in turn.

        It ends when every verdict is clear, or `budget` seconds after the compiles. The
        least number of samples is taken even then, unless that takes much longer. With
        `dispatch`, kernels with this text in their names are measured instead of
        functions.
        """
        with temporary_folder() as folder:
            # paths have one length: that of a command moves the stack, and some times
            for index, configuration in enumerate(self.configurations):
                target = folder / f"{index:04}"
                self._compile(engine, configuration, target, dispatch)
            self._measure_in_turn(engine, time.monotonic() + budget)
        return self

    def _compile(
        self,
        engine: Engine,
        configuration: Configuration,
        folder: Path,
        dispatch: str | None,
    ) -> None:
        """Add a series for each function of a configuration."""
        case, ref = configuration.case, configuration.ref
        with engine.progress.task(f"compile  {configuration.name}"):
            programs = function_programs(engine, case, ref, folder, dispatch)
        if isinstance(programs, NoAnswer):
            self.series.append(Series(configuration, problem=programs))
            return
        for program in programs:
            label = program.label
            if dispatch is not None:
                # where the whole is split otherwise, another kernel has the same name
                label += f" of {program.dispatches}"
            row = Series(configuration, label, program)
            row.sampler, row.toolchain = program.sample, program.toolchain
            self.series.append(row)

    def _measure_in_turn(self, engine: Engine, end: float) -> None:
        base = self.rows(self.baseline)
        undecided = [row for row in self.series if row.program]
        task = engine.progress.task("measure")
        for taken in measure_in_turn(undecided, end, _GRACE):
            task.describe(f"measure  round {taken + 1}")
            if taken not in LOOKS:
                continue
            noisy = set()
            for row in undecided:
                other = base.get(row.function)
                if other is None or other is row:
                    continue
                row.change = ratio_of(other.samples, row.samples)
                if row.change:
                    row.verdict = row.change.pace(self.smallest_change)
                if row.verdict is Pace.NOISY:
                    noisy.add(row.function)
            # All configurations of a function go on together: the baseline's samples
            # must be of the same minutes.
            undecided[:] = [row for row in undecided if row.function in noisy]
        task.finish()
