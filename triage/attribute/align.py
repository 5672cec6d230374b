"""Two runs' passes side by side, and the pass after which what they made is no longer the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile

from triage.attribute.structure import Structure
from triage.attribute.trace import FunctionState, Trace

Alike = Callable[[Structure, Structure], bool]
"""Whether two structures are the same in what is looked at."""


@dataclass(frozen=True, slots=True)
class AlignedPass:
    """A pass that ran on both sides, or changed something on one of them only. good, bad: the states it left; where a side
    was not changed, None. before: the states of both sides that it began with.
    """

    good: FunctionState | None
    bad: FunctionState | None
    before: tuple[FunctionState | None, FunctionState | None]
    same: bool

    @property
    def pass_name(self) -> str:
        """The pass, by its class."""
        state = self.bad or self.good
        assert state is not None
        return state.by.name

    @property
    def after(self) -> tuple[FunctionState | None, FunctionState | None]:
        """Both sides' states when it is done."""
        return self.good or self.before[0], self.bad or self.before[1]


@dataclass(frozen=True, slots=True)
class Parting:
    """lasting: the step after which the two never become the same again; first: the first that made them differ, where
    later passes undid that.
    """

    lasting: AlignedPass
    first: AlignedPass | None = None


def parting(
    good: Sequence[FunctionState],
    bad: Sequence[FunctionState],
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


def align(
    good: Sequence[FunctionState], bad: Sequence[FunctionState], renamed: Mapping[str, str], alike: Alike
) -> Iterator[AlignedPass]:
    """The steps of both runs in order, passes matched by name. Where a stretch of passes has no counterpart, a state that
    the other side reaches within it as well is the same.
    """
    matcher = SequenceMatcher(None, [_key(one, renamed) for one in good], [_key(one, renamed) for one in bad], autojunk=False)

    def equal(one: FunctionState | None, other: FunctionState | None) -> bool:
        if one is None or other is None:
            return one is other
        return alike(one.structure, other.structure)

    here: FunctionState | None = None
    there: FunctionState | None = None
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            for left, right in zip(good[i:i_end], bad[j:j_end], strict=True):
                yield AlignedPass(left, right, (here, there), equal(left, right))
                here, there = left, right
            continue
        begun = (here, there)
        lefts, rights = list(good[i:i_end]), list(bad[j:j_end])
        for right in rights:
            same = any(equal(left, right) for left in (here, *lefts))
            yield AlignedPass(None, right, (here, there), same)
            there = right
        for left in lefts:
            same = any(equal(left, right) for right in (begun[1], *rights))
            yield AlignedPass(left, None, (here, there), same if left is not lefts[-1] else equal(left, there))
            here = left


def _key(state: FunctionState, renamed: Mapping[str, str]) -> str:
    """A pass by its class, whatever it ends with: `Pass` was added to many names between versions."""
    name = state.by.name.removesuffix("Pass")
    return renamed.get(name, name)


@dataclass(frozen=True, slots=True)
class Located:
    """A step and where it was seen: in a function, as each side calls it, or in the whole program (None)."""

    step: AlignedPass
    good: str | None = None
    bad: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Where two runs part, None where they do not. good, bad: the device function that was followed, None for the program.
    first: an earlier difference that later passes undid; decided: a later one in what was chosen, such as tile sizes.
    """

    good: str | None = None
    bad: str | None = None
    lasting: Located | None = None
    first: Located | None = None
    decided: Located | None = None


@dataclass(frozen=True, slots=True)
class Runs:
    """Both runs' traces. renamed: passes, old name to new; broke_off: whether a run ended before its time; named: texts of
    the failure, which may name a function.
    """

    good: Trace
    bad: Trace
    renamed: Mapping[str, str]
    broke_off: tuple[bool, bool]
    named: str = ""


def judge_runs(runs: Runs) -> Judgement:
    """Where the two runs part, followed in the function that failed. Where that is not known, in each, the earliest counts."""
    failing = [name for name in runs.bad.failing_functions if name in runs.bad.functions]
    failing = failing or [name for name in sorted(runs.bad.device) if name in runs.named]
    if failing:
        return max((_in_function(runs, name) for name in failing), key=lambda one: one.lasting is not None)
    program = _in_program(runs)
    if runs.bad.failed is not None:  # it was the program's own pass
        return program
    inside = [_in_function(runs, name) for name in sorted(runs.bad.device)]
    return min((one for one in (program, *inside) if one.lasting), key=_when, default=program)


def _in_program(runs: Runs, name: str | None = None) -> Judgement:
    parted = _part(runs, runs.good.program, runs.bad.program)
    if parted is None:
        return Judgement(None, name)
    return Judgement(None, name, Located(parted.lasting), Located(parted.first) if parted.first else None)


def _in_function(runs: Runs, name: str) -> Judgement:
    """In a device function, or in the program before it, where its two forms were never the same."""
    bad = runs.bad.functions[name]
    partner = counterpart(name, bad[0], runs.good, taken=runs.bad.device)
    if partner is None:
        return _in_program(runs, name)
    good = runs.good.functions[partner]
    parted = _part(runs, good, bad)
    if parted is None:
        return Judgement(partner, name)
    here = Located(parted.lasting, partner, name)
    chosen = parting(good, bad, runs.renamed, broke_off=runs.broke_off, alike=Structure.chooses_as)
    decided = Located(chosen.lasting, partner, name) if chosen and chosen.lasting.after != parted.lasting.after else None
    if good[0].structure.same_as(bad[0].structure):
        return Judgement(partner, name, here, Located(parted.first, partner, name) if parted.first else None, decided)
    before = parting(_until(runs.good.program, good[0].index), _until(runs.bad.program, bad[0].index), runs.renamed)
    born = Located(before.lasting) if before else Located(parted.first or parted.lasting, partner, name)
    # Where it became the same later on, what made it another at first does not last.
    return Judgement(partner, name, here, born, decided) if parted.first else Judgement(partner, name, born, None, decided)


def _part(runs: Runs, good: Sequence[FunctionState], bad: Sequence[FunctionState]) -> Parting | None:
    return parting(good, bad, runs.renamed, broke_off=runs.broke_off)


def _until(states: Sequence[FunctionState], index: int) -> list[FunctionState]:
    return list(takewhile(lambda state: state.index <= index, states))


def _when(judged: Judgement) -> int:
    """The dump at which the bad side parted, or the one it had reached when the good side went on."""
    assert judged.lasting is not None
    state = judged.lasting.step.after[1] or judged.lasting.step.good
    return state.index if state else 0


def counterpart(name: str, begun: FunctionState, other: Trace, taken: Collection[str] = ()) -> str | None:
    """The function of another run that is this one: by name, by its name without numbers, else by what it is made of, and then
    none of those `taken`, which have one of their own name in this run: a function that a lowering adds is like none.
    """

    def nearness(candidate: str) -> tuple[bool, bool, float]:
        alike = SequenceMatcher(None, _plain(name), _plain(candidate), autojunk=False).ratio()
        return candidate == name, _plain(candidate) == _plain(name), alike + _overlap(begun, other.functions[candidate][0])

    known = (one for one in other.device if other.functions.get(one))
    candidates = [one for one in known if one not in taken or _plain(one) == _plain(name)]
    return max(sorted(candidates), key=nearness, default=None)


def _plain(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _overlap(one: FunctionState, other: FunctionState) -> float:
    """The share of operations that both have, 0 to 1."""
    here, there = one.structure.operations, other.structure.operations
    common = sum(min(count, there.get(name, 0)) for name, count in here.items())
    return 2 * common / ((sum(here.values()) + sum(there.values())) or 1)
