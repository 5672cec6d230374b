"""Bisect where a compiled program, or its compile, became slower: each candidate is measured in turn with both ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median

from triage.bisect.metric import no_value
from triage.execution.benchmark import Benchmark, Configuration
from triage.execution.engine import Engine
from triage.execution.judge import TIMES, Metric, MetricThreshold, value_of
from triage.execution.statistics import LOOKS, Comparison, Pace, compare_times
from triage.execution.timing import Program, Timed, TimedCompile, TimedRun, compile_program, functions_of
from triage.model.case import Case, Flag, Input, RunSpec
from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.model.outcome import Cause, Compiled, Failed, Failure, Probe, Untestable
from triage.toolchains.home import temporary_folder
from triage.toolchains.registry import ToolchainRef

_LEAST_CHANGE = 0.05  # of the worse end, without a threshold of the user
_CLEAR = 2.0  # a single compile this many times above or below the threshold is on that side, however busy the machine is
_NOUNS = {Metric.RUN_SECONDS.name: "run", Metric.CPU_SECONDS.name: "compile"}


@dataclass
class TimeJudge:
    """Calls a candidate slow that takes more than `ratio` times as long as the good end.

    metric: what is measured; timed: prepares a candidate; good, bad: the ends; budget: seconds for each probe; threshold: in
    seconds, where a single sample far from it is enough.
    """

    metric: Metric
    timed: Callable[[Case, ToolchainRef], Timed | str]
    good: Timed
    bad: Timed
    ratio: float
    budget: float
    threshold: float | None = None

    def judge(self, probe: Probe, ref: ToolchainRef) -> Probe:
        """Measure a candidate now. It is untestable where its interval, or that of the bad end, reaches the threshold."""
        if not isinstance(probe.outcome, Compiled):
            return probe
        timed = self.timed(probe.case, ref)
        if isinstance(timed, str):
            return replace(probe, outcome=Untestable(Cause.TARGET, f"no {self.noun} time: {timed}"), cached=False)
        if (judged := self._single(probe, timed)) is not None:
            return judged
        measured = self.measure(timed)
        if isinstance(measured, str):
            return replace(probe, outcome=Untestable(Cause.NOISE, measured), cached=False)
        times, compared = measured
        ratios = {"time_ratio": compared.ratio, "time_ratio_low": compared.low, "time_ratio_high": compared.high}
        metrics = {**probe.measured.metrics, **ratios}
        if self.metric == Metric.RUN_SECONDS:
            metrics |= {"run_ms": 1000 * median(times), "run_ms_least": 1000 * min(times), "run_ms_most": 1000 * max(times)}
        probe = replace(probe, measured=replace(probe.measured, metrics=metrics), cached=False)
        if compared.high < self.ratio:
            return probe
        ratios = {"ratio": compared.ratio, "low": compared.low, "high": compared.high, "threshold": self.ratio}
        details = {"milliseconds": f"{1000 * median(times):.4g}", **{name: f"{value:.3f}" for name, value in ratios.items()}}
        headline = f"a {self.noun} takes {compared} times as long as on the good end, more than {self.ratio:.2f}"
        stage = Stage.BENCHMARK if self.metric == Metric.RUN_SECONDS else Stage.COMPILE
        failure = Failure("metric", "metric", f"metric:{self.metric}", headline, details=details, stage=stage)
        return replace(probe, outcome=Failed(failure))

    @property
    def noun(self) -> str:
        """What is measured, in messages."""
        return _NOUNS[self.metric.name]

    def _single(self, probe: Probe, timed: Timed) -> Probe | None:
        """Judge by one sample; None where it is too near to the threshold."""
        if self.threshold is None:
            return None
        sample = timed.sample()
        if isinstance(sample, str):
            return replace(probe, outcome=Untestable(Cause.NOISE, f"no {self.noun} time: {sample}"), cached=False)
        seconds = sample.seconds
        if self.threshold / _CLEAR < seconds < self.threshold * _CLEAR:
            return None
        measured = replace(probe, measured=replace(probe.measured, cpu_seconds=seconds), cached=False)
        return MetricThreshold(self.metric, self.threshold).read(measured, lambda: measured)

    def measure(self, timed: Timed) -> tuple[list[float], Comparison] | str:
        """Measure a candidate in turn with both ends until it is clear on which side it is.

        Returns:
            Its times and how it compares with the good end; the reason where it is on no side.
        """
        end = time.monotonic() + self.budget
        contenders = [self.good, self.bad, *(() if timed in (self.good, self.bad) else (timed,))]
        samples: list[list[float]] = [[] for _ in contenders]
        good, bad, new = samples[0], samples[1], samples[contenders.index(timed)]
        compared: Comparison | None = None
        ends: Comparison | None = None
        for number in range(LOOKS[-1] + 1):
            if time.monotonic() > end and number > LOOKS[0]:
                break
            order = range(len(contenders)) if number % 2 else reversed(range(len(contenders)))
            for index in order:
                sample = contenders[index].sample()
                if isinstance(sample, str):
                    return f"no {self.noun} time: {sample}"
                samples[index] += [sample.seconds] if number else []  # the first round warms up
            if number not in LOOKS:
                continue
            compared, ends = compare_times(good, new, 0.0), compare_times(good, bad, 0.0)
            apart = ends is not None and ends.low > self.ratio
            if compared and apart and (compared.low > self.ratio or compared.high < self.ratio):
                return new, compared
        if compared is None or ends is None:
            return f"its {self.noun}s ended without times"
        if ends.low <= self.ratio:
            return f"the bad end takes {ends} times as long as the good end: not clearly more than {self.ratio:.2f}"
        return f"a {self.noun} takes {compared} times as long as on the good end: not clearly on one side of {self.ratio:.2f}"

    def halfway(self, ends: tuple[ToolchainRef, ToolchainRef]) -> float:
        """Measure both ends and return the geometric mean of their times, as a ratio. BadInput when they differ too little."""
        measured = self.measure(self.bad)
        if isinstance(measured, str):
            raise BadInput(f"{ends[1].revision.name} and {ends[0].revision.name} differ too little: {measured}")
        return math.sqrt(measured[1].ratio)


@contextmanager
def judged_by_time(
    runner: Engine,
    case: Case,
    ends: tuple[ToolchainRef, ToolchainRef],
    metric: Metric,
    function: str | None,
    budget: float,
    threshold: float | None = None,
) -> Iterator[Engine]:
    """Yield a runner for which a case fails that takes longer than halfway from the first end to the second.

    threshold: instead of halfway, as a ratio to the first end for the run time, in CPU seconds for the compile time.

    Raises:
        BadInput: An end cannot be measured, or the ends differ too little.
    """
    if metric == Metric.RUN_SECONDS:
        with run_time_judge(runner, case, ends, function=function, ratio=threshold, budget=budget) as judge:
            yield runner.with_threshold(judge.judge)
    else:
        yield runner.with_threshold(compile_time_judge(runner, case, ends, threshold=threshold, budget=budget).judge)


def slower_kernel(runner: Engine, case: Case, ends: tuple[ToolchainRef, ToolchainRef], budget: float) -> str | None:
    """Return the kernel that lost most time from the first end to the second; None if none did or their numbers differ.

    budget: seconds to measure for.
    """
    better, worse = rows = [Configuration(case, ref) for ref in ends]
    result = Benchmark(rows, better, _LEAST_CHANGE).measure(runner, budget, dispatch="")
    lost: dict[str, float] = {}
    for series in result.rows(worse):
        before = result.of(better, series.function)
        if series.comparison and series.comparison.pace is Pace.SLOWER and before and before.median and series.median:
            lost[series.function] = series.median - before.median
    return max(lost, key=lambda name: lost[name], default=None)


@contextmanager
def run_time_judge(
    runner: Engine,
    case: Case,
    ends: tuple[ToolchainRef, ToolchainRef],
    *,
    function: str | None,
    ratio: float | None,
    budget: float,
) -> Iterator[TimeJudge]:
    """Compile and measure both ends, the good one first, and yield what judges the candidates between them.

    ratio: to the good end; without it the geometric mean of both ends.

    Raises:
        BadInput: An end cannot be measured, or the ends differ too little.
    """
    with temporary_folder() as name:
        programs = _Programs(runner, Path(name))
        compiled = [programs.compiled(case, ref) for ref in ends]
        for ref, program in zip(ends, compiled, strict=True):
            if isinstance(program, str):
                raise BadInput(f"{case.name} has no run time on {ref.revision.name}: {program}")
        programs.spec = _function(functions_of(runner, case, ends[0]), function, case)
        good, bad = (TimedRun(runner, program, programs.spec) for program in compiled if isinstance(program, Program))
        judge = TimeJudge(Metric.RUN_SECONDS, programs.timed, good, bad, ratio or 1 + _LEAST_CHANGE, budget)
        judge.ratio = ratio or judge.halfway(ends)
        yield judge


def compile_time_judge(
    runner: Engine, case: Case, ends: tuple[ToolchainRef, ToolchainRef], *, threshold: float | None, budget: float
) -> TimeJudge:
    """Measure the compile of both ends, the good one first, and return what judges the candidates between them.

    A compile far from the threshold is made once, others are repeated in turn with both ends. threshold: CPU seconds; without
    it the geometric mean of both ends.

    Raises:
        BadInput: An end does not compile, or the ends differ too little.
        EnvironmentFailure: The compiler of an end cannot be obtained.
    """
    least: list[float] = []
    for ref in ends:
        probes = [runner.probe(replace(case, run=None), ref, fresh=True) for _ in range(TIMES)]
        values = [value for probe in probes if (value := value_of(probe, Metric.CPU_SECONDS)) is not None]
        if len(values) < TIMES:
            raise no_value(probes[-1], Metric.CPU_SECONDS)
        least.append(max(min(values), 1e-6))
    good, bad = (TimedCompile(runner, case, ref) for ref in ends)
    judge = TimeJudge(Metric.CPU_SECONDS, partial(TimedCompile, runner), good, bad, 1 + _LEAST_CHANGE, budget)
    if threshold is None:
        is_clear = least[1] > least[0] * _CLEAR**2
        threshold = least[0] * (math.sqrt(least[1] / least[0]) if is_clear else judge.halfway(ends))
    judge.ratio, judge.threshold = threshold / least[0], threshold
    return judge


@dataclass
class _Programs:
    """Compiled programs, so that a repeated probe compiles nothing. spec: the function to measure."""

    runner: Engine
    folder: Path
    spec: RunSpec | None = None
    _known: dict[tuple[Input, tuple[Flag, ...], str], Program | str] = field(default_factory=dict)

    def compiled(self, case: Case, ref: ToolchainRef) -> Program | str:
        key = (case.input, case.flags, ref.revision.name)
        if key not in self._known:
            self._known[key] = compile_program(self.runner, case, ref, self.folder / f"{len(self._known):04}.out")
        return self._known[key]

    def timed(self, case: Case, ref: ToolchainRef) -> Timed | str:
        assert self.spec is not None
        program = self.compiled(case, ref)
        return program if isinstance(program, str) else TimedRun(self.runner, program, self.spec)


def _function(specs: Sequence[RunSpec] | str, name: str | None, case: Case) -> RunSpec:
    if isinstance(specs, str):
        raise BadInput(f"{case.name} has no run time: {specs}")
    fitting = [spec for spec in specs if name in (None, spec.label)]
    if len(fitting) != 1:
        names = ", ".join(spec.label for spec in specs)
        raise BadInput(f"choose the function to bisect with --function: {names}")
    return fitting[0]
