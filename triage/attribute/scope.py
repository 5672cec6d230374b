"""Whose IR is compared: the function that fails, or the whole program where the difference is older than the function."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile

from triage.attribute.alignment import Parting, Step, parting
from triage.attribute.structure import Structure
from triage.attribute.trace import State, Trace


@dataclass(frozen=True, slots=True)
class Located:
    """A step and where it was seen: in a function, as each side calls it, or in the whole program (None)."""

    step: Step
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


def _part(runs: Runs, good: Sequence[State], bad: Sequence[State]) -> Parting | None:
    return parting(good, bad, runs.renamed, broke_off=runs.broke_off)


def _until(states: Sequence[State], index: int) -> list[State]:
    return list(takewhile(lambda state: state.index <= index, states))


def _when(judged: Judgement) -> int:
    """The dump at which the bad side parted, or the one it had reached when the good side went on."""
    assert judged.lasting is not None
    state = judged.lasting.step.after[1] or judged.lasting.step.good
    return state.index if state else 0


def counterpart(name: str, begun: State, other: Trace, taken: Collection[str] = ()) -> str | None:
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


def _overlap(one: State, other: State) -> float:
    """The share of operations that both have, 0 to 1."""
    here, there = one.structure.operations, other.structure.operations
    common = sum(min(count, there.get(name, 0)) for name, count in here.items())
    return 2 * common / ((sum(here.values()) + sum(there.values())) or 1)
