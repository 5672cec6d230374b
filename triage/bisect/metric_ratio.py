"""Judge a number of any program by its ratio to the same program's on the good
toolchain, for a search that changes the program.

A smaller program has smaller numbers, so that a threshold for the original says nothing
about it. The ratio stays as long as the program still shows what grew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from triage.bisect.metric import (
    LEAST_SLOWER,
    Ends,
    MetricChoice,
    TimeJudge,
    least_value,
    run_time_judge,
)
from triage.execution.engine import Engine
from triage.execution.in_turn import Sampler
from triage.execution.metric import Metric, metric_failure, value_of
from triage.execution.task import Naming
from triage.execution.timing import time_compile
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Passed, Probe
from triage.recipes.values import rounded_text
from triage.toolchains.home import temporary_folder
from triage.toolchains.registry import ToolchainRef

_LEAST_RATIO = 1.01  # of a number that a reduction can keep
_FROM_NOTHING = 2.0  # the ratio to keep of a number that was zero
_CLEAR = 1.5  # a single time below the threshold by this factor is not measured in turn


@dataclass
class RatioJudge:
    """Calls a case failed whose number is more than `threshold` times that of the good
    toolchain. Of the times, the whole interval must be above it.
    """

    engine: Engine
    choice: MetricChoice
    ends: Ends
    """The good and the bad toolchain."""
    threshold: float

    @property
    def metric(self) -> Metric:
        return self.choice.metric

    @property
    def is_alone(self) -> bool:
        return self.metric in (Metric.CPU_SECONDS, Metric.RUN_SECONDS)

    def judge(
        self, probe: Probe, ref: ToolchainRef, _: Callable[[], Probe] | None = None
    ) -> Probe:
        """Return the probe as the ratio decides."""
        if not isinstance(probe.outcome, Passed) or ref == self.ends[0]:
            return probe
        good = self.engine.registry.obtain(self.ends[0])
        other = self.engine.trial(probe.case, good, Naming.NEVER, here=True)
        if not isinstance(other.outcome, Passed):
            return probe
        if self.metric == Metric.RUN_SECONDS:
            return self._judge_in_turn(probe, ref)
        before, after = value_of(other, self.metric), value_of(probe, self.metric)
        if before is None or after is None:
            return probe
        if self.is_alone and ratio(before, after) * _CLEAR > self.threshold:
            return self._judge_in_turn(probe, ref)
        if self.is_alone or ratio(before, after) <= self.threshold:
            return probe
        failure = metric_failure(self.metric, after, before, self.ends[0].revision.name)
        return replace(probe, outcome=Failed(failure))

    def _judge_in_turn(self, probe: Probe, ref: ToolchainRef) -> Probe:
        """Measure both toolchains in turn; return the probe as it is if one has no
        time.
        """
        case, ends = probe.case, (self.ends[0], ref)
        choice = replace(self.choice, threshold=self.threshold)
        try:
            with temporary_folder() as folder:
                if self.metric == Metric.RUN_SECONDS:
                    judge = run_time_judge(self.engine, case, ends, choice, folder)
                else:
                    prepare, budget = self._compile_sampler, choice.budget
                    judge = TimeJudge(
                        self.metric, case, ends, prepare, self.threshold, budget
                    )
                return judge.judge(probe, ref)
        except BadInput:  # one of the two has no time
            return probe

    def _compile_sampler(self, case: Case, ref: ToolchainRef) -> Sampler:
        return partial(time_compile, self.engine, case, ref)


def ratio(before: float, after: float) -> float:
    """Return how many times the one number is the other: infinite from 0 to more.

    >>> ratio(0, 1088), ratio(0, 0), ratio(2, 3)
    (inf, 1.0, 1.5)
    """
    if before > 0:
        return after / before
    return math.inf if after > 0 else 1.0


@contextmanager
def engine_with_ratio(
    engine: Engine, case: Case, ends: Ends, choice: MetricChoice
) -> Iterator[Engine]:
    """Yield an engine for which a program fails whose number grew from the good end to
    the bad one by more than a ratio. That is the threshold, by default half of what it
    grew for the case, on a scale of ratios.

    Raises:
        BadInput: An end cannot be measured, or the ends differ too little.
        EnvironmentFailure: The compiler of an end cannot be obtained.
    """
    metric, threshold = choice.metric, choice.threshold
    judge = RatioJudge(engine, choice, ends, threshold or 1.0)
    if threshold is None and metric == Metric.RUN_SECONDS:
        with temporary_folder() as folder:
            timing = run_time_judge(engine, case, ends, choice, folder)
        judge.threshold = timing.ratio
    elif metric != Metric.RUN_SECONDS:
        plain = replace(case, run=None)
        before, after = (least_value(engine, plain, ref, metric) for ref in ends)
        if after < before and threshold is None:
            metric = replace(metric, lower_is_worse=True)
            before, after = (
                metric.comparison_value(before),
                metric.comparison_value(after),
            )
        judge.choice, grown = replace(choice, metric=metric), ratio(before, after)
        least = 1 + LEAST_SLOWER if judge.is_alone else _LEAST_RATIO
        if grown < least:
            good, bad = (ref.revision.name for ref in ends)
            shown = [metric.comparison_value(number) for number in (before, after)]
            raise BadInput(
                f"{metric} is {rounded_text(shown[0])} on {good} and "
                f"{rounded_text(shown[1])} on {bad}: "
                f"they do not differ by a factor of {least}, too little to reduce"
            )
        if threshold is None:
            judge.threshold = _FROM_NOTHING if grown == math.inf else math.sqrt(grown)
    yield engine.with_judge(judge)
