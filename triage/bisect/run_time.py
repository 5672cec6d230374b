"""Bisect the run time of a compiled program: each candidate is measured in turn with both ends of the range."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from triage.execution.runner import ProbeRunner
from triage.execution.statistics import LOOKS, Comparison, compare_times
from triage.execution.timing import Program, compile_program, functions_of
from triage.model.case import Case, RunSpec
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Compiled, Failed, Failure, Probe, Untestable
from triage.toolchains.registry import ToolchainRef

_LEAST_CHANGE = 0.05  # of the worse end, without a threshold of the user


@dataclass
class RunTimeJudge:
    """Calls a program slow whose time is more than `ratio` times that of the good end.

    runner: makes the compiles, without a threshold of its own; spec: the function; good, bad: programs of the ends; budget:
    seconds for each probe; folder: keeps compiled programs, so that a repeated probe compiles nothing.
    """

    runner: ProbeRunner
    spec: RunSpec
    good: Program
    bad: Program
    ratio: float
    budget: float
    folder: Path
    _programs: dict[str, Program | str] = field(default_factory=dict)

    def judge(self, probe: Probe, ref: ToolchainRef) -> Probe:
        """Measure a program now. It is untestable where its interval, or that of the bad end, reaches the threshold."""
        if not isinstance(probe.outcome, Compiled):
            return probe
        program = self.program(probe.case, ref)
        if isinstance(program, str):
            return replace(probe, outcome=Untestable(Cause.TARGET, f"no run time: {program}"), cached=False)
        measured = self.measure(program)
        if isinstance(measured, str):
            return replace(probe, outcome=Untestable(Cause.NOISE, measured), cached=False)
        seconds, compared = measured
        if compared.high < self.ratio:
            return replace(probe, cached=False)
        ratios = {"ratio": compared.ratio, "low": compared.low, "high": compared.high, "threshold": self.ratio}
        details = {"milliseconds": f"{1000 * seconds:.4g}", **{name: f"{value:.3f}" for name, value in ratios.items()}}
        headline = f"a run takes {_text(compared)} times as long as on the good end, more than {self.ratio:.2f}"
        failure = Failure("metric", "metric", "metric:run_seconds", headline, details=details)
        return replace(probe, outcome=Failed(failure), cached=False)

    def program(self, case: Case, ref: ToolchainRef) -> Program | str:
        """Compile a candidate, once."""
        name = ref.revision.name
        if name not in self._programs:
            self._programs[name] = compile_program(self.runner, case, ref, self.folder / f"{len(self._programs):04}.out")
        return self._programs[name]

    def measure(self, program: Program) -> tuple[float, Comparison] | str:
        """Measure a program in turn with both ends until it is clear on which side it is.

        Returns:
            Its median time and how it compares with the good end; the reason where it is on no side.
        """
        end = time.monotonic() + self.budget
        contenders = (self.good, program, self.bad)
        samples: tuple[list[float], ...] = ([], [], [])
        compared: Comparison | None = None
        ends: Comparison | None = None
        for number in range(LOOKS[-1] + 1):
            if time.monotonic() > end and number > LOOKS[0]:
                break
            order = range(3) if number % 2 else reversed(range(3))
            for index in order:
                sample = contenders[index].sample(self.runner, self.spec)
                if isinstance(sample, str):
                    return f"no run time: {sample}"
                samples[index].extend(sample.seconds if number else ())  # the first round warms up
            if number not in LOOKS:
                continue
            good, new, bad = samples
            compared, ends = compare_times(good, new, 0.0), compare_times(good, bad, 0.0)
            apart = ends is not None and ends.low > self.ratio
            if compared and apart and (compared.low > self.ratio or compared.high < self.ratio):
                return median(new), compared
        if compared is None or ends is None:
            return "its runs ended without times"
        if ends.low <= self.ratio:
            return f"the bad end takes {_text(ends)} times as long as the good end: not clearly more than {self.ratio:.2f}"
        return f"a run takes {_text(compared)} times as long as on the good end: not clearly on one side of {self.ratio:.2f}"


@contextmanager
def run_time_judge(
    runner: ProbeRunner,
    case: Case,
    ends: tuple[ToolchainRef, ToolchainRef],
    *,
    function: str | None,
    ratio: float | None,
    budget: float,
) -> Iterator[RunTimeJudge]:
    """Compile and measure both ends, the good one first, and yield what judges the candidates between them.

    ratio: to the good end; without it the geometric mean of both ends.

    Raises:
        BadInput: An end cannot be measured, or the ends differ too little.
    """
    with TemporaryDirectory() as name:
        programs = [compile_program(runner, case, ref, Path(name) / f"end{index}.out") for index, ref in enumerate(ends)]
        for ref, program in zip(ends, programs, strict=True):
            if isinstance(program, str):
                raise BadInput(f"{case.name} has no run time on {ref.revision.name}: {program}")
        good, bad = (program for program in programs if isinstance(program, Program))
        spec = _function(functions_of(runner, case, ends[0]), function, case)
        judge = RunTimeJudge(runner, spec, good, bad, ratio or 1 + _LEAST_CHANGE, budget, Path(name))
        if ratio is None:
            measured = judge.measure(bad)
            if isinstance(measured, str):
                raise BadInput(f"too little to bisect: on {ends[1].revision.name} and {ends[0].revision.name}, {measured}")
            judge.ratio = math.sqrt(measured[1].ratio)
        yield judge


def _function(specs: Sequence[RunSpec] | str, name: str | None, case: Case) -> RunSpec:
    if isinstance(specs, str):
        raise BadInput(f"{case.name} has no run time: {specs}")
    fitting = [spec for spec in specs if name in (None, spec.function)]
    if len(fitting) != 1:
        names = ", ".join(str(spec.function) for spec in specs)
        raise BadInput(f"choose the function to bisect with --function: {names}")
    return fitting[0]


def _text(compared: Comparison) -> str:
    return f"{compared.ratio:.2f} [{compared.low:.2f}, {compared.high:.2f}]"
