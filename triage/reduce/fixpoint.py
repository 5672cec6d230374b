"""Passes run one after another until none of them makes the program smaller."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from triage.reduce.draft import Draft, Pass
from triage.reduce.interestingness import ReductionTest, Trail

_ROUNDS = 8  # a bound against passes that undo each other; more rounds have not been seen to help


def reduce_to_fixpoint(draft: Draft, passes: Sequence[Pass], final_passes: Sequence[Pass], test: ReductionTest) -> Draft:
    """Run the passes in rounds until nothing changes, then the final ones once."""
    for number in range(_ROUNDS):
        before = draft
        for step in passes:
            draft = run_pass(draft, step, test, f", round {number + 1}")
        if draft is before or _measures(draft) == _measures(before):
            break
    for step in final_passes:
        draft = run_pass(draft, step, test)
    return draft


def run_pass(draft: Draft, step: Pass, test: ReductionTest, when: str = "") -> Draft:
    """Run one pass and check its result on the good toolchain.

    When the good toolchain does not compile the result, the pass continues from its last draft that it does compile, and
    the good toolchain is then asked about every draft.
    """
    test.report(step.__name__.replace("_", " ") + when)
    test.trail = Trail()
    reduced = step(draft, test)
    if reduced is draft:
        return reduced
    if test.oracle.compiles(reduced, threading.Event()):
        test.settle(reduced, compiles=True)
        return reduced
    base = _last_compiled([draft, *(step for step in test.trail.drafts if step is not reduced)], test)
    test.settle(base, compiles=True)
    test.strict = True
    try:
        return step(base, test)
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
