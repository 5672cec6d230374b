"""The only guard that knows the search from inside: it lets the search ask a simulated
history, whose probes may be wrong.

No process is started. As with real probes, a result is cached: only a fresh probe can
differ from the one before it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.bisect.letters import (
    LetterRegistry,
    case_named,
    index_of,
    outcome,
    search_along,
)
from tests.guards.histories import World
from triage.bisect.line import BisectRequest
from triage.bisect.plan import bisect_between
from triage.bisect.result import BisectKind
from triage.bisect.search import find_changes
from triage.execution.task import ProbeJob
from triage.model.outcome import Measured, Probe
from triage.toolchains.home import Progress


@dataclass(frozen=True)
class Found:
    """What the search answers: the indices of the pair, where it is sure of one, and
    the number of probes.
    """

    confirmed: bool
    before: int
    after: int
    probes: int
    seen_before: bool
    """Whether the failure was seen where it occurs sometimes."""


@dataclass
class FlakyEngine:
    """Stands where an Engine stands. `asked`: the index of each probe that was not
    cached.
    """

    world: World
    seed: int
    asked: list[int] = field(default_factory=list)
    seen_before: bool = False
    progress = Progress()

    def __post_init__(self) -> None:
        self.jobs = self.world.jobs
        self.registry = LetterRegistry(len(self.world.letters), set())
        self._random = random.Random(self.seed)
        self._cached: dict[int, str] = {}

    def recall(self, job: ProbeJob) -> None:
        return None

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in jobs:
            index = index_of(job.ref.revision)
            cached = not job.fresh and index in self._cached
            if not cached:
                self.asked.append(index)
                letter = self.world.letters[index]
                is_wrong = self._random.random() < self.world.rates[index]
                wrong = {"P": "F", "p": "F", "F": "P", "G": "P"}
                right = letter.upper()
                self._cached[index] = wrong.get(letter, right) if is_wrong else right
                self.seen_before |= letter == "p" and is_wrong
            yield Probe(
                job.case,
                job.ref.revision,
                None,
                outcome(self._cached[index]),
                Measured(seconds=1.0),
                cached=cached,
            )


def search(world: World, seed: int) -> Found:
    """Search a history whose probes are wrong as often as it says; `seed` decides
    which.
    """
    kind = BisectKind.FIX if world.finds_fix else BisectKind.REGRESSION
    engine, size = FlakyEngine(world, seed), len(world.letters)
    if world.commits:
        prices = [1.0] * size
        answer = find_changes(search_along(engine, prices, world.weights, kind))
    else:
        request = BisectRequest(engine, case_named("case"), kind=kind)  # type: ignore[arg-type]
        ends = ("1.0.0", f"1.{size - 1}.0") if world.ends_named else (None, None)
        answer = bisect_between(request, *ends)
    before, after = (
        index_of(revision) if revision else -1
        for revision in (answer.before, answer.after)
    )
    return Found(answer.confirmed, before, after, len(engine.asked), engine.seen_before)
