"""Judge a case by a number: it fails where the number is too large.

The key insight: a number is compared with the one on a good toolchain. A machine that
is busy or a program that becomes smaller changes both alike. What varies from run to
run is measured in turn, until the interval of its ratio is on one side of the limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from triage.execution.engine import Engine
from triage.execution.in_turn import (
    LOOKS,
    Contender,
    Ratio,
    Sampler,
    measure_in_turn,
    ratio_of,
)
from triage.execution.metric import Metric, metric_failure, value_of
from triage.execution.task import Naming
from triage.execution.timing import (
    compile_measured,
    compile_sampler,
    functions_of,
)
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.execution import Stage
from triage.model.json_form import as_json
from triage.model.outcome import (
    OF_MACHINE,
    Cause,
    Failed,
    NoAnswer,
    Passed,
    Probe,
)
from triage.recipes.values import rounded_text
from triage.toolchains.home import temporary_folder
from triage.toolchains.registry import ToolchainRef

LEAST_SLOWER = 0.05  # by which both ends must differ at least in what varies
_LEAST_EXACT = 0.01  # the same for a number that is the same each time
_FROM_NOTHING = 2.0  # the limit for a number that was zero
# a single compile this many times above or below the limit is on that side, however
# busy the machine is
_CLEAR_FACTOR = 2.0

Ends = tuple[ToolchainRef, ToolchainRef]  # the good one first
Measure = Callable[[Case, ToolchainRef], Sampler]
"""Returns what measures a case once."""


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
    ) -> MetricChoice:
        """Read NAME[:FUNCTION]. Raises BadInput if there is no such number."""
        name, _, function = text.partition(":")
        metric = Metric(name)
        if function and not metric.is_of_run:
            problem = "write cpu_seconds, run_seconds or run_seconds:FUNCTION"
            raise BadInput(f"--metric {text}: {problem}")
        return cls(metric, budget, function, threshold)


@dataclass(frozen=True)
class NumberJudge:
    """Calls a case failed whose number is above a limit."""

    metric: Metric
    limit: float
    """The largest ratio to the number on the good toolchain; without one, the largest
    number.
    """
    good: ToolchainRef | None = None
    measure: Measure = lambda _case, _ref: lambda: NoAnswer(Cause.NOISE, "no number")
    original: Case | None = None
    """The case whose number on the good toolchain counts, unless it is that of the
    judged program itself.
    """
    budget: float = 0.0
    """Seconds to measure for."""

    @property
    def is_alone(self) -> bool:
        """Whether it measures what was compiled, while nothing else may run. The case
        itself is not run then.
        """
        return self.metric.is_time

    def judge(self, probe: Probe, ref: ToolchainRef) -> Probe:
        """Return the probe as its number decides; untestable if that is unclear."""
        if not isinstance(probe.outcome, Passed):
            return probe
        if self.good is None:
            return self._judge_value(probe)
        if (probe.case, ref) == (self.original or probe.case, self.good):
            return probe
        ratio = self.ratio(probe.case, ref)
        if isinstance(ratio, NoAnswer):
            return replace(probe, outcome=ratio, cached=False)
        if not self.metric.exact:
            metrics = {**probe.measured.metrics, **ratio.metrics}
            measured = replace(probe.measured, metrics=metrics)
            probe = replace(probe, measured=measured, cached=False)
        if ratio.high <= self.limit:
            return probe
        if ratio.low <= self.limit:
            unclear = f"not clearly on one side of {self.limit:.2f}"
            why = NoAnswer(Cause.NOISE, f"{self._compared(ratio)}: {unclear}")
            return replace(probe, outcome=why)
        return replace(probe, outcome=self._failed(probe.case, ref, ratio))

    def _judge_value(self, probe: Probe) -> Probe:
        value = value_of(probe, self.metric)
        if value is None or self.metric.ratio(self.limit, value) <= 1:
            return probe
        texts = rounded_text(value), rounded_text(self.limit)
        side = "above"
        if self.metric.lower_is_worse:
            side = "below"
        headline = f"{self.metric} is {texts[0]}, {side} {texts[1]}"
        failed = metric_failure(
            self.metric.name, headline, {"value": texts[0], "threshold": texts[1]}
        )
        return replace(probe, outcome=failed)

    def _compared(self, ratio: Ratio) -> str:
        assert self.good
        return f"{self.metric} is {ratio} times that on {self.good.revision.name}"

    def _failed(self, case: Case, ref: ToolchainRef, ratio: Ratio) -> Failed:
        assert self.good
        if self.metric.exact:
            values = [sampler() for sampler in self._samplers(case, ref)]
            before, value = (
                rounded_text(value)
                for value in values
                if not isinstance(value, NoAnswer)
            )
            where = f"{before} on {self.good.revision.name}"
            headline = f"{self.metric} is {value}, and {where}"
            details = {"value": value, "good": before}
        else:
            headline = f"{self._compared(ratio)}, more than {self.limit:.2f}"
            numbers = {**as_json(ratio), "threshold": self.limit}
            details = {name: f"{number:.3f}" for name, number in numbers.items()}
        stage = Stage.COMPILE
        if self.metric.is_of_run:
            stage = Stage.BENCHMARK
        return metric_failure(self.metric.name, headline, details, stage)

    def _samplers(self, case: Case, ref: ToolchainRef) -> tuple[Sampler, Sampler]:
        assert self.good
        return (
            self.measure(self.original or case, self.good),
            self.measure(case, ref),
        )

    def ratio(self, case: Case, ref: ToolchainRef) -> Ratio | NoAnswer:
        """Return how many times as bad the number of a case is as on the good
        toolchain: of two numbers, or of samples that are taken in turn.
        """
        samplers = self._samplers(case, ref)
        if self.metric.is_of_run:
            return self._ratio_in_turn(*samplers)
        before, after = (sampler() for sampler in samplers)
        if isinstance(before, NoAnswer):
            return before
        if isinstance(after, NoAnswer):
            return after
        ratio = self.metric.ratio(before, after)
        if self.metric.exact:
            return Ratio(ratio, ratio, ratio)
        if self.limit / _CLEAR_FACTOR < ratio < self.limit * _CLEAR_FACTOR:
            return self._ratio_in_turn(*samplers)
        return Ratio(ratio, ratio / _CLEAR_FACTOR, ratio * _CLEAR_FACTOR)

    def _ratio_in_turn(self, first: Sampler, second: Sampler) -> Ratio | NoAnswer:
        good, new = pair = [Contender(sampler=first), Contender(sampler=second)]
        if self.metric.lower_is_worse:
            good, new = new, good
        ratio = None
        end = time.monotonic() + self.budget
        for taken in measure_in_turn([*pair], end, grace=math.inf):
            for contender in pair:
                if contender.problem:
                    return contender.problem
            if taken in LOOKS:
                ratio = ratio_of(good.samples, new.samples)
            if ratio and not ratio.low <= self.limit <= ratio.high:
                break
        return ratio or NoAnswer(Cause.NOISE, f"no {self.metric} was measured")


@contextmanager
def engine_with_judge(
    engine: Engine,
    case: Case,
    ends: Ends,
    choice: MetricChoice,
    *,
    other_programs: bool = False,
) -> Iterator[Engine]:
    """Yield an engine for which a case fails whose number is beyond a threshold: by
    default halfway between both ends, on a scale of ratios.

    With `other_programs`, each program is compared with itself on the good toolchain,
    for a search that changes the program.

    Raises:
        BadInput: An end cannot be measured, or the ends differ too little.
        EnvironmentFailure: The compiler of an end cannot be obtained.
    """
    good = ends[0]
    original: Case | None = case
    once = None
    if other_programs:  # a search that compiles each of them once
        original, once = None, Naming.NEVER
    with temporary_folder() as folder:
        measure: Measure
        if choice.metric.is_of_run:
            measure = partial(_run_sampler, engine, choice, good, folder, {})
        else:
            measure = partial(compile_sampler, engine, choice.metric, once=once)
        judge = NumberJudge(choice.metric, 1.0, good, measure, original, choice.budget)
        yield engine.with_judge(_with_limit(judge, case, ends, choice.threshold))


def _with_limit(
    judge: NumberJudge, case: Case, ends: Ends, threshold: float | None
) -> NumberJudge:
    """Return a judge with its limit, also for a number that shrank as it became worse.
    Raises as `engine_with_judge`.
    """
    metric = judge.metric
    good, bad = ends
    if threshold is not None and metric.is_of_run:
        return replace(judge, limit=threshold)
    least = 1 + (_LEAST_EXACT if metric.exact else LEAST_SLOWER)
    ratio = replace(judge, limit=least).ratio(case, bad)
    if isinstance(ratio, NoAnswer):
        raise _error_of(f"{case.name} has no {metric}", ratio)
    if ratio.high < 1 and not metric.is_time:
        metric = replace(metric, lower_is_worse=True)
        judge, ratio = replace(judge, metric=metric), ratio.inverse()
    if threshold is not None and metric.exact:
        return NumberJudge(metric, threshold)
    if threshold is not None:
        value = judge.measure(case, good)()
        if isinstance(value, NoAnswer):
            raise _error_of(f"{case.name} has no {metric}", value)
        return replace(judge, limit=metric.ratio(value, threshold))
    if ratio.low <= least:
        names = f"{bad.revision.name} and {good.revision.name}"
        raise BadInput(
            f"{names} differ too little: {metric} is {ratio} times as bad, and "
            f"{least} is the least that can be searched for"
        )
    if ratio.value == math.inf:
        return replace(judge, limit=_FROM_NOTHING)
    return replace(judge, limit=math.sqrt(ratio.value))


def _error_of(problem: str, why: NoAnswer) -> BadInput | EnvironmentFailure:
    text = f"{problem}: {why.reason}"
    if why.cause in OF_MACHINE:
        return EnvironmentFailure(text)
    return BadInput(text)


def _run_sampler(
    engine: Engine,
    choice: MetricChoice,
    good: ToolchainRef,
    folder: Path,
    samplers: dict[object, Sampler],
    case: Case,
    ref: ToolchainRef,
) -> Sampler:
    """Compile a program into a folder, once, and return what measures its run time."""
    key = (case.input, case.flags, ref.revision.name)
    if key in samplers:
        return samplers[key]
    problem: NoAnswer | None = None
    specs = functions_of(engine, case, good)
    if isinstance(specs, NoAnswer):
        problem, specs = specs, ()
    fitting = [spec for spec in specs if choice.function in ("", spec.label)]
    if len(fitting) != 1:
        names = ", ".join(spec.label for spec in specs)
        advice = "choose the function with --metric run_seconds:FUNCTION"
        problem = problem or NoAnswer(Cause.RECIPE, f"{advice}: {names}")
    program = problem or compile_measured(
        engine, case, ref, folder / f"{len(samplers):04}.out"
    )
    if isinstance(program, NoAnswer):
        samplers[key] = partial(_no_time, program)
    else:
        samplers[key] = partial(program.sample, engine, fitting[0])
    return samplers[key]


def _no_time(why: NoAnswer) -> NoAnswer:
    return why
