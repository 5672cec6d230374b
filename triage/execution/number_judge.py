"""Judge a case by a number: it fails where the number is too large.

The key insight: a number is compared with the one on a good toolchain. A machine that
is busy or a program that becomes smaller changes both alike. What varies from run to
run is measured in turn, until the interval of its ratio is on one side of the limit.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from triage.execution.benchmark import compile_functions
from triage.execution.engine import Engine
from triage.execution.in_turn import (
    LOOKS,
    Contender,
    Ratio,
    Sampler,
    measure_in_turn,
    ratio_of,
)
from triage.execution.judge import NoTask, metric_failure, recipe_mistake, why_unusable
from triage.execution.task import PassNaming, ProbeJob
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.execution import Stage
from triage.model.outcome import MACHINE_CAUSES, Cause, NoAnswer, Passed, Probe
from triage.recipes.values import rounded_text
from triage.toolchains.home import temporary_folder
from triage.toolchains.registry import ToolchainRef

_VARIES = re.compile(r"(?:^|_)(?:seconds|s|ms|us|ns|rss_mb)$")
_LEAST_SLOWER = 1.05  # the smallest ratio of both ends of what varies
_LEAST_LARGER = 1.01  # the same for a number that is the same each time
_FROM_NOTHING = 2.0  # the limit for a number that was zero
# a single compile this many times above or below the limit is on that side, however
# busy the machine is
_CLEAR_FACTOR = 2.0

Ends = tuple[ToolchainRef, ToolchainRef]  # the good one first
Measure = Callable[[Case, ToolchainRef], Sampler]
"""Returns what measures a case once."""


@dataclass(frozen=True)
class Metric:
    """A number measured of a successful compile, which is worse if it is larger. Either
    triage measures it, such as the CPU seconds or the run time of the output, or the
    recipe's compiler prints it.
    """

    name: str
    function: str = ""
    """The one to run, if there are several."""

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Read NAME[:FUNCTION]. Raises BadInput if there is no such number."""
        name, _, function = text.partition(":")
        metric = cls(name, function)
        if function and not metric.is_of_run:
            raise BadInput(f"--metric {text}: only run_seconds has functions")
        return metric

    def __str__(self) -> str:
        return self.name

    @property
    def exact(self) -> bool:
        """Whether it is the same each time, however busy the machine is."""
        return _VARIES.search(self.name) is None

    @property
    def is_of_run(self) -> bool:
        """Whether it is the run time of the compiled program."""
        return self.name == "run_seconds"

    @property
    def is_time(self) -> bool:
        """Whether triage measures it while nothing else runs."""
        return self.name in ("cpu_seconds", "run_seconds")


def compile_sampler(
    engine: Engine,
    metric: Metric,
    case: Case,
    ref: ToolchainRef,
    *,
    is_trial: bool,
) -> Sampler:
    """Return what compiles a case and reads a number of the compile; one that varies is
    read of a new compile. A trial compiles once, whatever the ending.
    """
    if metric.is_time:
        case = replace(case, run=None)
    once = PassNaming.NEVER if is_trial else None
    job = ProbeJob(case, ref, fresh=not metric.exact, here=True, once=once)

    def sample() -> float | NoAnswer:
        probe = engine.probe(job)
        used = probe.measured
        where = ref.revision.name
        if not isinstance(probe.outcome, Passed):
            problem = why_unusable(probe.outcome)
            return replace(problem, reason=f"{where}: {problem.reason}")
        usual = {"cpu_seconds": used.cpu_seconds, "peak_rss_mb": used.peak_rss_mb}
        numbers = {**used.metrics, **usual}
        if metric.name in numbers:
            return numbers[metric.name]
        return NoAnswer(Cause.NOISE, f"on {where} it has {', '.join(sorted(numbers))}")

    return sample


@dataclass(frozen=True)
class NumberJudge:
    """Calls a case failed whose number is too many times that on a good toolchain."""

    metric: Metric
    good: ToolchainRef
    limit: float
    """The largest ratio to the number on the good toolchain."""
    measure: Measure
    budget: float
    """Seconds to measure for."""

    def judge(self, probe: Probe, ref: ToolchainRef) -> Probe:
        """Return the probe as its number decides; untestable if that is unclear."""
        if ref == self.good or not isinstance(probe.outcome, Passed):
            return probe
        pair = self.compare(probe.case, ref)
        if isinstance(pair, NoAnswer):
            return replace(probe, outcome=pair, cached=False)
        ratio, before, after = pair
        probe = replace(probe, cached=probe.cached and self.metric.exact)
        if ratio.high <= self.limit:
            return probe
        headline = f"{self.metric} is {ratio} times that on {self.good.revision.name}"
        if ratio.low <= self.limit:
            why = f"{headline}: not clearly on one side of {self.limit:.2f}"
            return replace(probe, outcome=NoAnswer(Cause.NOISE, why))
        details = {
            "value": rounded_text(after),
            "good": rounded_text(before),
            "low": f"{ratio.low:.3f}",
            "threshold": f"{self.limit:.3f}",
        }
        headline = f"{headline}, more than {self.limit:.2f}"
        stage = Stage.BENCHMARK if self.metric.is_of_run else Stage.COMPILE
        failed = metric_failure(self.metric.name, headline, details, stage)
        return replace(probe, outcome=failed)

    def compare(
        self, case: Case, ref: ToolchainRef
    ) -> tuple[Ratio, float, float] | NoAnswer:
        """Return how many times as large the number of a case is as on the good
        toolchain, and both numbers. They are measured in turn until the ratio is on one
        side of the limit.
        """
        good = Contender(sampler=self.measure(case, self.good))
        new = Contender(sampler=self.measure(case, ref))
        ratio = None
        metric = self.metric
        end = time.monotonic() + self.budget
        for taken in measure_in_turn(
            [good, new], end, math.inf, warm_up=metric.is_of_run
        ):
            problem = good.problem or new.problem
            if problem:
                return problem
            if taken == 1 and not metric.is_of_run:
                ratio = _ratio_of_two(good.samples[0], new.samples[0], metric)
            elif taken in LOOKS:
                ratio = ratio_of(good.samples, new.samples)
            is_clear = ratio and not ratio.low <= self.limit <= ratio.high
            if is_clear or metric.exact:
                break
        if ratio is None:
            return NoAnswer(Cause.NOISE, f"no {metric} was measured")
        return ratio, median(good.samples), median(new.samples)


def _ratio_of_two(before: float, after: float, metric: Metric) -> Ratio:
    """Return the ratio of two single numbers, with the interval that it allows."""
    value = 1.0
    if before > 0:
        value = after / before
    elif after > 0:
        value = math.inf
    if metric.exact:
        return Ratio(value, value, value)
    return Ratio(value, value / _CLEAR_FACTOR, value * _CLEAR_FACTOR)


@contextmanager
def engine_with_judge(
    engine: Engine,
    case: Case,
    ends: Ends,
    metric: Metric,
    budget: float,
    *,
    tries_programs: bool = False,
) -> Iterator[Engine]:
    """Yield an engine for which a case fails whose number is beyond the limit halfway
    between both ends, on a scale of ratios. A time of each candidate is measured for
    `budget` seconds.

    `tries_programs`: for a search that changes the program and compiles each once.

    Raises:
        BadInput: An end cannot be measured, or the ends differ too little.
        EnvironmentFailure: The compiler of an end cannot be obtained.
    """
    good, bad = ends
    least = _LEAST_LARGER if metric.exact else _LEAST_SLOWER
    with temporary_folder() as folder:
        measure: Measure = partial(
            compile_sampler, engine, metric, is_trial=tries_programs
        )
        if metric.is_of_run:
            measure = _run_time_samplers(engine, metric.function, folder)
        judge = NumberJudge(metric, good, least, measure, budget)
        pair = judge.compare(case, bad)
        if isinstance(pair, NoAnswer):
            problem = f"{case.name} has no {metric}: {pair.reason}"
            if pair.cause in MACHINE_CAUSES:
                raise EnvironmentFailure(problem)
            raise BadInput(problem)
        ratio = pair[0]
        if ratio.low <= least:
            raise BadInput(
                f"{bad.revision.name} and {good.revision.name} differ too little: "
                f"{metric} is {ratio} times as large, and {least} is the least that "
                "can be searched for; --find fix finds where a number shrank"
            )
        limit = _FROM_NOTHING
        if ratio.value < math.inf:
            limit = math.sqrt(ratio.value)
        yield engine.with_judge(replace(judge, limit=limit))


def _run_time_samplers(engine: Engine, function: str, folder: Path) -> Measure:
    """Return what measures the run time of a function once, of programs that are
    compiled into a folder, each once.
    """
    samplers: dict[object, Sampler] = {}

    def measure(case: Case, ref: ToolchainRef) -> Sampler:
        key = (case.input, case.flags, ref.revision.name)
        if key not in samplers:
            target = folder / f"{len(samplers):04}"
            samplers[key] = _run_time_sampler(engine, case, ref, target, function)
        return samplers[key]

    return measure


def _run_time_sampler(
    engine: Engine, case: Case, ref: ToolchainRef, folder: Path, function: str
) -> Sampler:
    """Return what measures the function with this name, or the only one."""
    try:
        programs = compile_functions(engine, case, ref, folder)
        matching = [program for program in programs if function in ("", program.label)]
        if len(matching) == 1:
            return matching[0].sample
        names = ", ".join(program.label for program in programs)
        advice = f"choose the function with --metric run_seconds:FUNCTION: {names}"
        raise recipe_mistake(advice)
    except NoTask as error:
        why = error.why
        return lambda: why
