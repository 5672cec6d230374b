"""Bisect a number instead of a failure: memory, artifact size, or time, which is
measured in turn with both ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import ClassVar

from triage.execution.benchmark import Benchmark, Configuration
from triage.execution.engine import Engine
from triage.execution.in_turn import (
    LOOKS,
    Contender,
    Pace,
    Ratio,
    Sampler,
    measure_in_turn,
    ratio_of,
)
from triage.execution.metric import TIMES, Metric, MetricThreshold, value_of
from triage.execution.timing import (
    Program,
    compile_measured,
    functions_of,
    time_compile,
)
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.execution import Stage
from triage.model.json_form import as_json
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Passed, Probe
from triage.recipes.values import rounded_text
from triage.toolchains.home import temporary_folder
from triage.toolchains.registry import ToolchainRef

_LEAST_RATIO = 1.25  # of the worse end to the better one
_LEAST_EXACT_RATIO = 1.01  # the same for a number that does not depend on the machine
LEAST_SLOWER = 0.05  # the same for times, which are measured in turn
# a single compile this many times above or below the threshold is on that side, however
# busy the machine is
_CLEAR = 2.0

Ends = tuple[ToolchainRef, ToolchainRef]  # the good one first


def threshold_between(
    engine: Engine,
    case: Case,
    ends: Ends,
    metric: Metric,
    threshold: float | None = None,
) -> MetricThreshold:
    """Measure both ends, which show whether more or less is worse. The threshold is by
    default their geometric mean.

    Raises:
        BadInput: An end does not compile, or the numbers of the ends differ too little.
        EnvironmentFailure: The compiler of an end cannot be obtained.
    """
    low, high = (least_value(engine, case, ref, metric) for ref in ends)
    if high < low:
        metric = replace(metric, lower_is_worse=True)
        low, high = metric.comparison_value(low), metric.comparison_value(high)
    if threshold is not None:
        return MetricThreshold(metric, metric.comparison_value(threshold))
    if metric.exact:
        least = _LEAST_EXACT_RATIO
    else:
        least = _LEAST_RATIO
    if low == 0 < high and metric.exact:
        # nothing spilled on one end, something on the other
        return MetricThreshold(metric, high / 2)
    if low < math.inf == high and metric.exact:
        return MetricThreshold(metric, low * 2)
    if low <= 0 or high < least * low:
        good, bad = (ref.revision.name for ref in ends)
        low, high = metric.comparison_value(low), metric.comparison_value(high)
        raise BadInput(
            f"{metric} is {rounded_text(low)} on {good} and {rounded_text(high)} on "
            f"{bad}: they do not differ by a factor of {least}, too little to bisect"
        )
    return MetricThreshold(metric, math.sqrt(low * high))


def least_value(engine: Engine, case: Case, ref: ToolchainRef, metric: Metric) -> float:
    """Measure a number several times and return the least, since a busy machine only
    adds. Raises as `threshold_between`.
    """
    times = 1 if metric.exact else TIMES
    probes = [engine.probe(case, ref, fresh=not metric.exact) for _ in range(times)]
    values = [value_of(probe, metric) for probe in probes]
    measured = [value for value in values if value is not None]
    if measured:
        return min(measured)
    problem = f"{case.name} has no {metric} on {ref.revision.name}"
    match probes[-1].outcome:
        case NoAnswer(cause=Cause.ENVIRONMENT | Cause.TOOLCHAIN, reason=reason):
            raise EnvironmentFailure(f"{problem}: {reason}")
        case NoAnswer(reason=reason):
            raise BadInput(f"{problem}: {reason}")
        case Passed():
            names = sorted(
                {
                    *probes[-1].measured.metrics,
                    Metric.CPU_SECONDS.name,
                    Metric.PEAK_RSS_MB.name,
                }
            )
            raise BadInput(f"{problem}; it has {', '.join(names)}")
        case _:
            raise BadInput(f"{problem}: it does not compile there")


@dataclass(frozen=True)
class MetricChoice:
    """A number of a case, and the value from which on it is bad."""

    metric: Metric
    budget: float
    """Seconds to measure a time of each candidate for."""
    function: str = ""
    """The one to run, if there are several."""
    threshold: float | None = None
    """Instead of halfway between both ends; for the run time a ratio to the good one.
    """

    @classmethod
    def parse(
        cls,
        text: str,
        budget: float,
        threshold: float | None = None,
        *,
        times_only: bool = False,
    ) -> MetricChoice:
        """Read NAME[:FUNCTION].

        times_only: refuse other numbers than the run time of the compiled program and
        the CPU time of its compile.

        Raises:
            BadInput: There is no such number.
        """
        name, _, function = text.partition(":")
        metric = Metric(name)
        is_time = metric in (Metric.RUN_SECONDS, Metric.CPU_SECONDS)
        if (times_only and not is_time) or (function and metric != Metric.RUN_SECONDS):
            problem = "write cpu_seconds, run_seconds or run_seconds:FUNCTION"
            raise BadInput(f"--metric {text}: {problem}")
        return cls(metric, budget, function, threshold)


@contextmanager
def engine_with_threshold(
    engine: Engine, case: Case, ends: Ends, choice: MetricChoice
) -> Iterator[Engine]:
    """Yield an engine for which a case fails whose number is beyond a threshold.

    Raises:
        BadInput: An end cannot be measured, or the ends differ too little.
        EnvironmentFailure: The compiler of an end cannot be obtained.
    """
    if choice.metric == Metric.RUN_SECONDS:
        with temporary_folder() as folder:
            timing = run_time_judge(engine, case, ends, choice, folder)
            yield engine.with_judge(timing)
    elif choice.metric == Metric.CPU_SECONDS:
        timing = compile_time_judge(engine, case, ends, choice.threshold, choice.budget)
        yield engine.with_judge(timing)
    else:
        judge = threshold_between(engine, case, ends, choice.metric, choice.threshold)
        yield engine.with_judge(judge)


def compile_time_judge(
    engine: Engine, case: Case, ends: Ends, threshold: float | None, budget: float
) -> TimeJudge:
    """Measure the compile of both ends and return what judges the candidates between
    them; see `engine_with_threshold`.

    A compile far from the threshold is made once, others are repeated in turn with both
    ends.
    """

    def prepare(case: Case, ref: ToolchainRef) -> Sampler:
        return partial(time_compile, engine, case, ref)

    low, high = (
        max(least_value(engine, replace(case, run=None), ref, Metric.CPU_SECONDS), 1e-6)
        for ref in ends
    )
    # `halfway` measures until the ends differ by at least this ratio
    least = 1 + LEAST_SLOWER
    judge = TimeJudge(Metric.CPU_SECONDS, case, ends, prepare, least, budget)
    if threshold is None:
        if high > low * _CLEAR**2:
            threshold = low * math.sqrt(high / low)
        else:
            threshold = low * judge.halfway()
    judge.ratio = threshold / low
    judge.threshold = threshold
    return judge


def run_time_judge(
    engine: Engine,
    case: Case,
    ends: Ends,
    choice: MetricChoice,
    folder: Path,
) -> TimeJudge:
    """Return what judges the run time of candidates by their ratio to the good end, by
    default halfway; see `engine_with_threshold`. The compiled programs go to a folder.
    """
    function, ratio = choice.function, choice.threshold
    programs: dict[object, Program | NoAnswer] = {}  # a repeated probe compiles nothing
    specs = functions_of(engine, case, ends[0])
    if isinstance(specs, NoAnswer):
        raise BadInput(f"{case.name} has no run time: {specs.reason}")
    fitting = [spec for spec in specs if function in ("", spec.label)]
    if len(fitting) != 1:
        raise BadInput(
            "choose the function with --metric run_seconds:FUNCTION: "
            f"{', '.join(spec.label for spec in specs)}"
        )

    def prepare(case: Case, ref: ToolchainRef) -> Sampler | NoAnswer:
        key = (case.input, case.flags, ref.revision.name)
        if key not in programs:
            programs[key] = compile_measured(
                engine, case, ref, folder / f"{len(programs):04}.out"
            )
        program = programs[key]
        if isinstance(program, NoAnswer):
            return program
        return partial(program.sample, engine, fitting[0])

    start = ratio or 1 + LEAST_SLOWER
    judge = TimeJudge(Metric.RUN_SECONDS, case, ends, prepare, start, choice.budget)
    judge.ratio = ratio or judge.halfway()
    return judge


def slower_kernel(engine: Engine, case: Case, ends: Ends, budget: float) -> str | None:
    """Return the kernel that lost most time from the good end to the bad one; None if
    none did or their numbers differ.

    budget: seconds to measure for.
    """
    better, worse = rows = [Configuration(case, ref) for ref in ends]
    result = Benchmark(rows, better, LEAST_SLOWER).measure(engine, budget, dispatch="")
    lost: dict[str, float] = {}
    for series in result.rows(worse):
        before = result.of(better, series.function)
        if series.verdict is not Pace.SLOWER or before is None:
            continue
        if before.median and series.median:
            lost[series.function] = series.median - before.median
    return max(lost, key=lambda name: lost[name], default=None)


@dataclass
class TimeJudge:
    """Calls a candidate slow that takes more than `ratio` times as long as the good
    end.

    Raises:
        BadInput: An end cannot be measured.
    """

    metric: Metric
    case: Case
    ends: Ends
    prepare: Callable[[Case, ToolchainRef], Sampler | NoAnswer]
    """Compiles what is sampler, if needed, and returns what times it once."""
    ratio: float
    budget: float
    """Seconds for each probe."""
    threshold: float | None = None
    """In seconds, if a single sample far from it is enough."""
    is_alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.metric == Metric.RUN_SECONDS:
            self.noun = "run"
        else:
            self.noun = "compile"
        self.end_samplers: list[Sampler] = []
        for ref in self.ends:
            end = self.prepare(self.case, ref)
            if isinstance(end, NoAnswer):
                raise BadInput(
                    f"{self.case.name} has no {self.noun} time on "
                    f"{ref.revision.name}: {end.reason}"
                )
            self.end_samplers.append(end)

    def judge(self, probe: Probe, ref: ToolchainRef, _: object = None) -> Probe:
        """Measure a candidate now. It is untestable if its interval, or that of the bad
        end, reaches the threshold.
        """
        if not isinstance(probe.outcome, Passed):
            return probe
        probe = replace(probe, cached=False)
        sampler = self._sampler_at(probe.case, ref)
        if isinstance(sampler, NoAnswer):
            return replace(probe, outcome=self._no_time(sampler))
        if self.threshold is not None:
            sample = sampler()
            if isinstance(sample, NoAnswer):
                return replace(probe, outcome=self._no_time(sample))
            if not self.threshold / _CLEAR < sample.seconds < self.threshold * _CLEAR:
                single = replace(
                    probe, measured=replace(probe.measured, cpu_seconds=sample.seconds)
                )
                limit = MetricThreshold(self.metric, self.threshold)
                return limit.judge(single, ref, lambda: single)
        return self._judge_in_turn(probe, sampler)

    def _sampler_at(self, case: Case, ref: ToolchainRef) -> Sampler | NoAnswer:
        """Return what times a candidate once; an end is prepared already."""
        for sampler, end in zip(self.end_samplers, self.ends, strict=True):
            if (case, ref) == (self.case, end):
                return sampler
        return self.prepare(case, ref)

    def _judge_in_turn(self, probe: Probe, sampler: Sampler) -> Probe:
        """Return a probe that fails if it is slow, with its times as metrics."""
        measured = self.measure(sampler)
        if isinstance(measured, NoAnswer):
            return replace(probe, outcome=measured)
        times, compared = measured
        metrics = {**probe.measured.metrics, **compared.metrics}
        if self.metric == Metric.RUN_SECONDS:
            metrics |= {
                "run_ms": 1000 * median(times),
                "run_ms_least": 1000 * min(times),
                "run_ms_most": 1000 * max(times),
            }
        probe = replace(probe, measured=replace(probe.measured, metrics=metrics))
        if compared.high < self.ratio:
            return probe
        return replace(probe, outcome=Failed(self._failure(times, compared)))

    def _failure(self, times: list[float], compared: Ratio) -> Failure:
        numbers = as_json(compared) | {"threshold": self.ratio}
        details = {"milliseconds": f"{1000 * median(times):.4g}"}
        details |= {name: f"{value:.3f}" for name, value in numbers.items()}
        headline = (
            f"a {self.noun} takes {compared} times as long as on the good end, more "
            f"than {self.ratio:.2f}"
        )
        if self.metric == Metric.RUN_SECONDS:
            stage = Stage.BENCHMARK
        else:
            stage = Stage.COMPILE
        return Failure(
            "metric",
            "metric",
            f"metric:{self.metric}",
            headline,
            details=details,
            stage=stage,
        )

    def measure(self, sampler: Sampler) -> tuple[list[float], Ratio] | NoAnswer:
        """Measure a candidate in turn with both ends until it is clear on which side it
        is.

        Returns:
            Its times and how it compares with the good end.
        """
        good, bad = (Contender(sampler=end) for end in self.end_samplers)
        contenders, new = [good, bad], None
        for one in contenders:
            if one.sampler is sampler:
                new = one
        if new is None:
            new = Contender(sampler=sampler)
            contenders.append(new)
        compared = apart = None
        end = time.monotonic() + self.budget
        for taken in measure_in_turn([*contenders], end, grace=math.inf):
            for one in contenders:
                if one.problem:
                    return self._no_time(one.problem)
            if taken not in LOOKS:
                continue
            compared = ratio_of(good.samples, new.samples)
            apart = ratio_of(good.samples, bad.samples)
            if compared is None or apart is None:
                continue
            # of a third one nothing is concluded while the ends do not differ
            if new is not bad and apart.low <= self.ratio:
                continue
            if compared.low > self.ratio or compared.high < self.ratio:
                return new.samples, compared
        if compared is None or apart is None:
            return NoAnswer(Cause.NOISE, f"its {self.noun}s ended without times")
        if apart.low <= self.ratio:
            return NoAnswer(
                Cause.NOISE,
                f"the bad end takes {apart} times as long as the good end: not clearly "
                f"more than {self.ratio:.2f}",
            )
        return NoAnswer(
            Cause.NOISE,
            f"a {self.noun} takes {compared} times as long as on the good end: not "
            f"clearly on one side of {self.ratio:.2f}",
        )

    def _no_time(self, why: NoAnswer) -> NoAnswer:
        return NoAnswer(why.cause, f"no {self.noun} time: {why.reason}")

    def halfway(self) -> float:
        """Return the geometric mean of the times of both ends, as a ratio. BadInput if
        they differ too little.
        """
        measured = self.measure(self.end_samplers[1])
        good, bad = (ref.revision.name for ref in self.ends)
        if isinstance(measured, NoAnswer):
            raise BadInput(f"{bad} and {good} differ too little: {measured.reason}")
        _, compared = measured
        if compared.high < self.ratio:
            raise BadInput(
                f"{bad} and {good} differ too little: a {self.noun} on {bad} takes "
                f"{compared} times as long as on {good}"
            )
        return math.sqrt(compared.value)
