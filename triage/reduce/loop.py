"""Passes one after another until none makes the program smaller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triage.reduce.draft import Draft
from triage.reduce.pace import Pace
from triage.reduce.reduction import Reduction
from triage.reduce.search import Hunt

Pass = Callable[[Draft, Hunt], Draft]
_ROUNDS = 8  # more have not been seen to bring anything; a bound all the same, so that no pair of passes goes on for ever


@dataclass(frozen=True, slots=True)
class Step:
    """A pass and the name that is shown for it."""

    name: str
    run: Pass


def reduce_to_fixpoint(draft: Draft, steps: Sequence[Step], reduction: Reduction) -> Draft:
    """Run the passes round after round. After each one that changed something the good toolchain is asked; where it no
    longer compiles the program, the pass is undone and run once more with the good toolchain asked at every step.
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


def checked(draft: Draft, step: Step, reduction: Reduction, where: str | None = None) -> Draft:
    """The draft after one pass; as it was where the pass brings nothing that the good toolchain compiles. where: what is
    shown meanwhile, the pass's name unless said otherwise.
    """
    reduction.tell(where or step.name)
    made = step.run(draft, reduction)
    if made is draft:
        return made
    if reduction.oracle.compiles(made, threading.Event()):
        reduction.settle(made, compiles=True)
        return made
    reduction.settle(draft, compiles=True)
    reduction.strict = True
    try:
        return step.run(draft, reduction)
    finally:
        reduction.strict = False


def _simpler(draft: Draft, before: Draft) -> bool:
    return _measures(draft) != _measures(before)


def _measures(draft: Draft) -> tuple[object, ...]:
    return draft.document.size, len(draft.document.content), len(draft.case.flags), draft.case.how
