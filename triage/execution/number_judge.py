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
from dataclasses import dataclass, field, replace
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
    ratio_of_two,
)
from triage.execution.metric import Metric, metric_failure
from triage.execution.timing import compile_sampler, function_programs
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.execution import Stage
from triage.model.json_form import as_json
from triage.model.outcome import OF_MACHINE, Cause, Failed, NoAnswer, Passed, Probe
from triage.recipes.values import rounded_text
from triage.toolchains.home import temporary_folder
from triage.toolchains.registry import ToolchainRef

_LEAST_SLOWER = 0.05  # by which both ends must differ at least in what varies
_LEAST_EXACT = 0.01  # the same for a number that is the same each time
_FROM_NOTHING = 2.0  # the limit for a number that was zero
# a single compile this many times above or below the limit is on that side, however
# busy the machine is
_CLEAR_FACTOR = 2.0

Ends = tuple[ToolchainRef, ToolchainRef]  # the good one first
Measure = Callable[[Case, ToolchainRef], Sampler | NoAnswer]
"""Returns what measures a case once, or why it cannot be measured."""


@dataclass(frozen=True)
class MetricChoice:
    """A number of a case, and how long to measure it."""

    metric: Metric
    budget: float
    """Seconds to measure a time of each candidate for."""
    function: str = ""
    """The one to run, if there are several."""

    @classmethod
    def parse(cls, text: str, budget: float) -> MetricChoice:
        """Read NAME[:FUNCTION]. Raises BadInput if there is no such number."""
        name, _, function = text.partition(":")
        metric = Metric(name)
        if function and not metric.is_of_run:
            problem = "write cpu_seconds, run_seconds or run_seconds:FUNCTION"
            raise BadInput(f"--metric {text}: {problem}")
        return cls(metric, budget, function)


@dataclass(frozen=True)
class NumberJudge:
    """Calls a case failed whose number is too many times that on a good toolchain."""

    metric: Metric
    good: ToolchainRef
    limit: float
    """The largest ratio to the number on the good toolchain."""
    measure: Measure
    original: Case | None
    """The case whose number on the good toolchain counts, unless it is that of the
    judged program itself.
    """
    budget: float
    """Seconds to measure for."""

    @property
    def is_alone(self) -> bool:
        """Whether it measures what was compiled, while nothing else may run. The case
        itself is not run then.
        """
        return self.metric.is_time

    def judge(self, probe: Probe, ref: ToolchainRef) -> Probe:
        """Return the probe as its number decides; untestable if that is unclear."""
        case = probe.case
        if not isinstance(probe.outcome, Passed):
            return probe
        if (case, ref) == (self.original or case, self.good):
            return probe
        pair = self.compare(case, ref)
        if isinstance(pair, NoAnswer):
            return replace(probe, outcome=pair, cached=False)
        ratio = pair[0]
        probe = replace(probe, cached=probe.cached and self.metric.exact)
        if ratio.high <= self.limit:
            return probe
        if ratio.low > self.limit:
            return replace(probe, outcome=self._failed(*pair))
        times = f"{ratio} times that on {self.good.revision.name}"
        reason = (
            f"{self.metric} is {times}: not clearly on one side of {self.limit:.2f}"
        )
        return replace(probe, outcome=NoAnswer(Cause.NOISE, reason))

    def compare(
        self, case: Case, ref: ToolchainRef
    ) -> tuple[Ratio, Contender, Contender] | NoAnswer:
        """Return how many times as large the number of a case is as on the good
        toolchain, with the samples of both, which are taken in turn until the ratio is
        on one side of the limit.
        """
        pair = []
        for one, place in ((self.original or case, self.good), (case, ref)):
            sampler = self.measure(one, place)
            if isinstance(sampler, NoAnswer):
                return sampler
            pair.append(Contender(sampler=sampler))
        good, new = pair
        ratio, metric, doubt = None, self.metric, _CLEAR_FACTOR
        if metric.exact:
            doubt = 1.0
        end = time.monotonic() + self.budget
        rounds = measure_in_turn([*pair], end, math.inf, warm_up=metric.is_of_run)
        for taken in rounds:
            problem = good.problem or new.problem
            if problem:
                return problem
            if taken == 1 and not metric.is_of_run:
                ratio = ratio_of_two(good.samples[0], new.samples[0], doubt)
            elif taken in LOOKS:
                ratio = ratio_of(good.samples, new.samples)
            is_clear = ratio and not ratio.low <= self.limit <= ratio.high
            if is_clear or metric.exact:
                break
        if ratio is None:
            return NoAnswer(Cause.NOISE, f"no {metric} was measured")
        return ratio, good, new

    def _failed(self, ratio: Ratio, good: Contender, new: Contender) -> Failed:
        where = self.good.revision.name
        if self.metric.exact:
            value, before = (rounded_text(one.samples[0]) for one in (new, good))
            headline = f"{self.metric} is {value}, and {before} on {where}"
            details = {"value": value, "good": before}
        else:
            times = f"{ratio} times that on {where}"
            headline = f"{self.metric} is {times}, more than {self.limit:.2f}"
            numbers = {**as_json(ratio), "threshold": self.limit}
            details = {name: f"{number:.3f}" for name, number in numbers.items()}
        stage = Stage.BENCHMARK if self.metric.is_of_run else Stage.COMPILE
        return metric_failure(self.metric.name, headline, details, stage)


@contextmanager
def engine_with_judge(
    engine: Engine,
    case: Case,
    ends: Ends,
    choice: MetricChoice,
    *,
    other_programs: bool = False,
) -> Iterator[Engine]:
    """Yield an engine for which a case fails whose number is beyond the limit halfway
    between both ends, on a scale of ratios.

    With `other_programs`, each program is compared with itself on the good toolchain,
    for a search that changes the program and compiles each once.

    Raises:
        BadInput: An end cannot be measured, or the ends differ too little.
        EnvironmentFailure: The compiler of an end cannot be obtained.
    """
    metric, (good, bad) = choice.metric, ends
    with temporary_folder() as folder:
        measure: Measure = partial(
            compile_sampler, engine, metric, is_trial=other_programs
        )
        if metric.is_of_run:
            measure = RunSamplers(engine, choice.function, good, folder).sampler
        least = 1 + (_LEAST_EXACT if metric.exact else _LEAST_SLOWER)
        judge = NumberJudge(metric, good, least, measure, case, choice.budget)
        pair = judge.compare(case, bad)
        if isinstance(pair, NoAnswer):
            problem = f"{case.name} has no {metric}: {pair.reason}"
            if pair.cause in OF_MACHINE:
                raise EnvironmentFailure(problem)
            raise BadInput(problem)
        ratio = pair[0]
        if ratio.low <= least:
            raise BadInput(
                f"{bad.revision.name} and {good.revision.name} differ too little: "
                f"{metric} is {ratio} times as large, and {least} is the least that "
                "can be searched for; --find fix finds where a number shrank"
            )
        limit = math.sqrt(ratio.value)
        if limit == math.inf:
            limit = _FROM_NOTHING
        original = None if other_programs else case
        yield engine.with_judge(replace(judge, limit=limit, original=original))


@dataclass
class RunSamplers:
    """Compiles programs into a folder, each once, and measures their run times."""

    engine: Engine
    function: str
    good: ToolchainRef
    folder: Path
    samplers: dict[object, Sampler | NoAnswer] = field(default_factory=dict)

    def sampler(self, case: Case, ref: ToolchainRef) -> Sampler | NoAnswer:
        """Return what measures the run time of a case once."""
        key = (case.input, case.flags, ref.revision.name)
        if key not in self.samplers:
            self.samplers[key] = self._compile(case, ref)
        return self.samplers[key]

    def _compile(self, case: Case, ref: ToolchainRef) -> Sampler | NoAnswer:
        target = self.folder / f"{len(self.samplers):04}"
        programs = function_programs(self.engine, case, ref, target, self.good)
        if isinstance(programs, NoAnswer):
            return programs
        names = [program.label for program in programs]
        fitting = [
            program for program in programs if self.function in ("", program.label)
        ]
        if len(fitting) == 1:
            return fitting[0].sample
        advice = "choose the function with --metric run_seconds:FUNCTION"
        return NoAnswer(Cause.RECIPE, f"{advice}: {', '.join(names)}")
