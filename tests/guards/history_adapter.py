"""The only guard that knows the search from inside: it lets the search ask a simulated
history, whose probes may be wrong.

No process is started. As with real probes, a result is cached: only a fresh probe can
differ from the one before it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.bisect.letters import case_named, index_of, outcome, search_along
from tests.fake_engine import FakeEngine
from tests.guards.histories import World
from triage.bisect.line import BisectRequest
from triage.bisect.releases import bisect_between
from triage.bisect.result import BisectKind
from triage.bisect.search import find_changes
from triage.execution.task import ProbeJob
from triage.model.outcome import Outcome


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


class FlakyEngine(FakeEngine):
    """Stands where an Engine stands. `compiles`: the probes that were not cached."""

    def __init__(self, world: World, seed: int) -> None:
        randomly = random.Random(seed)
        cached: dict[int, str] = {}
        self.seen_before = False

        def answer(job: ProbeJob) -> Outcome:
            index = index_of(job.ref.revision)
            if job.fresh or index not in cached:
                self.compiles += 1
                letter = world.letters[index]
                is_wrong = randomly.random() < world.rates[index]
                wrong = {"P": "F", "p": "F", "F": "P", "G": "P"}
                right = letter.upper()
                cached[index] = wrong.get(letter, right) if is_wrong else right
                self.seen_before |= letter == "p" and is_wrong
            return outcome(cached[index])

        names = [f"1.{index}.0" for index in range(len(world.letters))]
        super().__init__(answer, names, world.jobs, installed=())


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
    return Found(answer.confirmed, before, after, engine.compiles, engine.seen_before)
