"""Passes one after another until none makes the program smaller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from triage.reduce.draft import Draft
from triage.reduce.search import InterestingnessTest
from triage.reduce.state import Reduction, Trail

Pass = Callable[[Draft, InterestingnessTest], Draft]
_ROUNDS = 8  # more have not been seen to bring anything; a bound all the same, so that no pair of passes goes on for ever


@dataclass(frozen=True, slots=True)
class PassProgress:
    """A pass and the name that is shown for it."""

    name: str
    run: Pass


def reduce_to_fixpoint(draft: Draft, steps: Sequence[PassProgress], reduction: Reduction) -> Draft:
    """Run the passes round after round. After each one that changed something the good toolchain is asked; where it no
    longer compiles the program, the pass goes on from the last step that it did compile, and it is asked at every step.
    """
    pace = Pace([step.name for step in steps])
    for _ in range(_ROUNDS):
        before = draft
        for step in steps:
            with pace.timed(step.name):
                draft = checked(draft, step, reduction, pace.where(step.name, changed=draft is not before))
        if draft is before or not _simpler(draft, before):
            return draft
        pace.next_round()
    return draft


def checked(draft: Draft, step: PassProgress, reduction: Reduction, where: str | None = None) -> Draft:
    """The draft after one pass; as it was where the pass brings nothing that the good toolchain compiles. where: what is
    shown meanwhile, the pass's name unless said otherwise.
    """
    reduction.tell(where or step.name)
    reduction.trail = Trail()
    made = step.run(draft, reduction)
    if made is draft:
        return made
    if reduction.oracle.compiles(made, threading.Event()):
        reduction.settle(made, compiles=True)
        return made
    base = _last_compiled([draft, *(one for one in reduction.trail.drafts if one is not made)], reduction)
    reduction.settle(base, compiles=True)
    reduction.strict = True
    try:
        return step.run(base, reduction)
    finally:
        reduction.strict = False


def _last_compiled(steps: Sequence[Draft], reduction: Reduction) -> Draft:
    """The last of a pass's steps that the good toolchain compiles, as it does the first, found by halving. Where one in
    between fails and a later one compiles again, either may be told.
    """
    low, high = 0, len(steps)
    while high - low > 1:
        middle = (low + high) // 2
        if reduction.oracle.compiles(steps[middle], threading.Event()):
            low = middle
        else:
            high = middle
    return steps[low]


def _simpler(draft: Draft, before: Draft) -> bool:
    return _measures(draft) != _measures(before)


def _measures(draft: Draft) -> tuple[object, ...]:
    return draft.document.size, len(draft.document.content), len(draft.case.flags), draft.case.spec


class Pace:
    """Times the passes of each round, by their names, which differ."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._took: dict[str, float] = {}
        self._round = 1

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Around one pass."""
        started = time.monotonic()
        yield
        self._took[name] = time.monotonic() - started

    def next_round(self) -> None:
        """After the last pass of a round."""
        self._round += 1

    def where(self, name: str, *, changed: bool) -> str:
        """Which pass of which round this is; from the second round on also the seconds that are left at most, if no pass
        takes longer than it did. changed: this round made the program smaller, so that another follows.
        """
        at = self._names.index(name)
        text = f"{name} ({at + 1} of {len(self._names)}, round {self._round}"
        if self._round == 1:
            return f"{text})"
        left = sum(self._took[one] for one in self._names[at:]) + (sum(self._took.values()) if changed else 0.0)
        return f"{text}, at most about {left:.0f} s left)"
