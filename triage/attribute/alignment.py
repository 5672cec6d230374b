"""Two runs' passes side by side, and the pass after which what they made is no longer the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from triage.attribute.structure import Structure
from triage.attribute.trace import State

Alike = Callable[[Structure, Structure], bool]
"""Whether two structures are the same in what is looked at."""


@dataclass(frozen=True, slots=True)
class Step:
    """A pass that ran on both sides, or changed something on one of them only. good, bad: the states it left; where a side
    was not changed, None. before: the states of both sides that it began with.
    """

    good: State | None
    bad: State | None
    before: tuple[State | None, State | None]
    same: bool

    @property
    def pass_name(self) -> str:
        """The pass, by its class."""
        state = self.bad or self.good
        assert state is not None
        return state.by.name

    @property
    def after(self) -> tuple[State | None, State | None]:
        """Both sides' states when it is done."""
        return self.good or self.before[0], self.bad or self.before[1]


@dataclass(frozen=True, slots=True)
class Parting:
    """lasting: the step after which the two never become the same again; first: the first that made them differ, where
    later passes undid that.
    """

    lasting: Step
    first: Step | None = None


def parting(
    good: Sequence[State],
    bad: Sequence[State],
    renamed: Mapping[str, str],
    *,
    broke_off: tuple[bool, bool] = (False, False),
    alike: Alike = Structure.same_as,
) -> Parting | None:
    """Where two sequences of states part; None when they end the same. `renamed`: passes of old names to new ones.

    broke_off: whether the good and the bad side ended before their time: what the other went on to do is no difference.
    """
    steps = list(align([one for one in good if not one.failed], [one for one in bad if not one.failed], renamed, alike))
    while steps and ((broke_off[1] and steps[-1].bad is None) or (broke_off[0] and steps[-1].good is None)):
        steps.pop()
    if not steps or steps[-1].same:
        return None
    last_same = max((index for index, step in enumerate(steps) if step.same), default=-1)
    first = next(index for index, step in enumerate(steps) if not step.same)
    lasting = last_same + 1
    return Parting(steps[lasting], steps[first] if first != lasting else None)


def align(good: Sequence[State], bad: Sequence[State], renamed: Mapping[str, str], alike: Alike) -> Iterator[Step]:
    """The steps of both runs in order, passes matched by name. Where a stretch of passes has no counterpart, a state that
    the other side reaches within it as well is the same.
    """
    matcher = SequenceMatcher(None, [_key(one, renamed) for one in good], [_key(one, renamed) for one in bad], autojunk=False)

    def equal(one: State | None, other: State | None) -> bool:
        if one is None or other is None:
            return one is other
        return alike(one.structure, other.structure)

    here: State | None = None
    there: State | None = None
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            for left, right in zip(good[i:i_end], bad[j:j_end], strict=True):
                yield Step(left, right, (here, there), equal(left, right))
                here, there = left, right
            continue
        begun = (here, there)
        lefts, rights = list(good[i:i_end]), list(bad[j:j_end])
        for right in rights:
            same = any(equal(left, right) for left in (here, *lefts))
            yield Step(None, right, (here, there), same)
            there = right
        for left in lefts:
            same = any(equal(left, right) for right in (begun[1], *rights))
            yield Step(left, None, (here, there), same if left is not lefts[-1] else equal(left, there))
            here = left


def _key(state: State, renamed: Mapping[str, str]) -> str:
    """A pass by its class, whatever it ends with: `Pass` was added to many names between versions."""
    name = state.by.name.removesuffix("Pass")
    return renamed.get(name, name)
