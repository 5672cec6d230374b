"""A program of which a number grew, such as the seconds of its compile, in the place of one that fails."""

from __future__ import annotations

import math
import threading
from pathlib import Path

from triage.model.case import Case
from triage.model.failure import Failure
from triage.model.outcome import Cause, Failed, Untestable
from triage.model.probe import Probe
from triage.model.revision import Toolchain
from triage.probe.judge import same_signature
from triage.probe.metric import TIMES, Metric, value_of
from triage.probe.prober import Naming, Prober
from triage.reduce.draft import Draft
from triage.reduce.ends import Baseline
from triage.reduce.oracle import Oracle
from triage.reduce.result import NotReproducible

_LEAST = 1.5  # times as much on the bad toolchain; less is lost in the noise of small programs
_NEAR = 1.25  # a ratio this close to the one that is asked for, as a factor, is measured again


class Growth(Oracle):
    """A draft counts while its number on the bad toolchain is `factor` times that on the good one. The smallest of a few
    measurements counts, since a busy machine only adds.
    """

    def __init__(
        self,
        prober: Prober,
        folder: Path,
        bad: Toolchain,
        good: Toolchain,
        metric: Metric,
        factor: float,
        *,
        slipped: Path | None = None,
    ) -> None:
        """folder, slipped: as for any oracle."""
        super().__init__(prober, folder, bad, good, lambda _: False, naming=Naming.NEVER, slipped=slipped)
        self._metric, self._factor, self._pair = metric, factor, (bad, good)

    def fails(self, draft: Draft, cancelled: threading.Event) -> bool:
        """Whether the number is still so many times as large; a draft that fails on either toolchain has none."""
        low = high = math.inf
        for attempt in range(TIMES):
            values = []
            for toolchain in self._pair:
                probe = self.tried(draft, toolchain, attempt, cancelled)
                value = value_of(probe, self._metric)
                if value is None:
                    if isinstance(probe.outcome, Failed):
                        self.note(probe.outcome.failure, draft)
                    return False
                values.append(value)
            high, low = min(high, values[0]), min(low, values[1])
            if not self._factor / _NEAR < high / max(low, 1e-9) < self._factor * _NEAR:
                break
        return high > self._factor * low

    def compiles(self, draft: Draft, cancelled: threading.Event) -> bool:  # noqa: ARG002 - the oracle's names
        """Whatever fails as it should was compiled by both."""
        return True


def grown(prober: Prober, case: Case, bad: Toolchain, good: Toolchain | None, metric: Metric) -> Baseline | NotReproducible:
    """Measure the case on both toolchains. A draft has to keep half of the growth, as a factor."""
    if good is None:
        return NotReproducible(case, f"{metric} has grown since when? name a toolchain with --good")
    probes: list[Probe] = []
    again: list[Probe] = []
    smallest: list[float] = []
    for toolchain in (bad, good):
        made = [prober.trial(case, toolchain, Naming.NEVER, attempt=attempt) for attempt in range(TIMES)]
        probes.append(made[0])
        again += made[1:]
        values = [value for one in made if (value := value_of(one, metric)) is not None]
        if not values:
            why = made[0].outcome.reason if isinstance(made[0].outcome, Untestable) else "it does not compile"
            cause = made[0].outcome.cause if isinstance(made[0].outcome, Untestable) else Cause.RECIPE
            return NotReproducible(case, f"no {metric} on {toolchain.revision.name}: {why}", tuple(probes), cause)
        smallest.append(min(values))
    high, low = smallest
    ratio = high / max(low, 1e-9)
    words = f"{metric} is {high:.4g} on {bad.revision.name} and {low:.4g} on {good.revision.name}"
    if ratio < _LEAST:
        return NotReproducible(case, f"{words}: less than {_LEAST} times as much, too little to reduce", tuple(probes))
    failure = Failure("metric", "metric", f"metric:{metric}", f"{words}, {ratio:.1f} times as much")
    return Baseline(
        failure,
        same_signature(failure),
        Naming.NEVER,
        seconds=probes[0].measured.seconds,
        repeats=1,
        probes=tuple(probes),
        again=tuple(again),
        factor=max(_LEAST, math.sqrt(ratio)),
    )
