"""The only guard that knows the search from inside: it lets the search ask a simulated history."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bisect.simulated import History, simulate
from tests.guards.histories import World
from triage.bisect.result import BisectKind


@dataclass(frozen=True)
class Found:
    """What the search answers: the indices of the pair, where it is sure of one, and the number of probes."""

    confirmed: bool
    before: int
    after: int
    probes: int


def search(world: World, seed: int) -> Found:
    """Search a history whose probes are wrong as often as it says; `seed` decides which."""
    kind = BisectKind.FIX if world.finds_fix else BisectKind.REGRESSION
    history = History(world.letters, world.rates, world.weights, kind, world.jobs, world.commits, world.ends_named)
    answer, probes = simulate(history, seed)
    before, after = (_index(revision.name) if revision else -1 for revision in (answer.before, answer.after))
    return Found(answer.confirmed, before, after, probes)


def _index(name: str) -> int:
    """Return the index of a candidate: commits are named c7, releases 1.7.0."""
    return int(name[1:] if name.startswith("c") else name.split(".")[1])
