"""Passes run one after another until none of them makes the program smaller."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from triage.reduce.draft import Draft, ReductionPass
from triage.reduce.interestingness import ReductionTest, Trail

_ROUNDS = 8  # a bound against passes that undo each other; more rounds have not been seen to help


def reduce_to_fixpoint(draft: Draft, passes: Sequence[ReductionPass], test: ReductionTest) -> Draft:
    """Run the passes in rounds to a fixpoint, then once those that are marked `once`."""
    repeated = [step for step in passes if not step.once]
    timer = PassTimer([step.name for step in repeated])
    for _ in range(_ROUNDS):
        before = draft
        for step in repeated:
            with timer.timed(step.name):
                draft = run_pass(draft, step, test, timer.describe(step.name, changed=draft is not before))
        if draft is before or _measures(draft) == _measures(before):
            break
        timer.next_round()
    for step in passes:
        if step.once:
            draft = run_pass(draft, step, test, step.name)
    return draft


def run_pass(draft: Draft, step: ReductionPass, test: ReductionTest, description: str) -> Draft:
    """Run one pass and check its result on the good toolchain.

    When the good toolchain does not compile the result, the pass continues from its last draft that it does compile, and
    the good toolchain is then asked about every draft.
    """
    test.report(description)
    test.trail = Trail()
    reduced = step.run(draft, test)
    if reduced is draft:
        return reduced
    if test.oracle.compiles(reduced, threading.Event()):
        test.settle(reduced, compiles=True)
        return reduced
    base = _last_compiled([draft, *(step for step in test.trail.drafts if step is not reduced)], test)
    test.settle(base, compiles=True)
    test.strict = True
    try:
        return step.run(base, test)
    finally:
        test.strict = False


def _last_compiled(drafts: Sequence[Draft], test: ReductionTest) -> Draft:
    """Bisect for the last draft that the good toolchain compiles, as it does the first one."""
    low, high = 0, len(drafts)
    while high - low > 1:
        middle = (low + high) // 2
        if test.oracle.compiles(drafts[middle], threading.Event()):
            low = middle
        else:
            high = middle
    return drafts[low]


def _measures(draft: Draft) -> tuple[object, ...]:
    return draft.document.size, len(draft.document.content), len(draft.case.flags), draft.case.spec


class PassTimer:
    """Times the passes of each round by name and estimates the remaining time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._seconds: dict[str, float] = {}
        self._round = 1

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure one pass."""
        started = time.monotonic()
        yield
        self._seconds[name] = time.monotonic() - started

    def next_round(self) -> None:
        """Start the next round."""
        self._round += 1

    def describe(self, name: str, *, changed: bool) -> str:
        """Describe the position of a pass, from the second round on with an upper estimate of the remaining time.

        changed: this round made the program smaller, so that another round follows.
        """
        index = self._names.index(name)
        text = f"{name} ({index + 1} of {len(self._names)}, round {self._round}"
        if self._round == 1:
            return f"{text})"
        left = sum(self._seconds[name] for name in self._names[index:]) + (sum(self._seconds.values()) if changed else 0.0)
        return f"{text}, at most about {left:.0f} s left)"
