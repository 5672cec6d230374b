"""What is tried, in order: what the failure's class knows, the recipe's own flags and matrix, then the toolchain's switches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, assert_never

import yaml

from triage.classify import rule_for
from triage.classify.candidates import Candidate, DeclareDevices, DropFlag, GiveFlag, LaunchOption, LeastValue
from triage.compilers.iree.adapter import flag_name
from triage.model.case import Case, Kernel
from triage.model.failure import Failure
from triage.model.revision import Toolchain
from triage.recipes import flag_applies
from triage.remedy.change import Change, Neighbour, SetOption, one
from triage.remedy.devices import declaring
from triage.remedy.variants import differences

_ENDS_IN_CODE = ("executable-", "vm", "end")


@dataclass(frozen=True, slots=True)
class Situation:
    """What the candidates are made for. devices: names of those that the program refers to; siblings: the cases of the same
    recipe; without: what a compiler that does not fail can do, whose options are not new.
    """

    case: Case
    failures: Sequence[Failure]
    toolchain: Toolchain
    devices: frozenset[str] = frozenset()
    siblings: Sequence[Case] = ()
    without: Toolchain | None = None


def first_tier(situation: Situation) -> tuple[Change, ...]:
    """The candidates of the failures' classes, then each of the recipe's own flags left away, then the matrix's neighbours."""
    own = dict.fromkeys(flag_name(text) for text in _given(situation))
    dropped = (one(DropFlag(name)) for name in own if "target" not in name)
    return _distinct([*_known(situation), *dropped, *_neighbours(situation)])


def second_tier(situation: Situation) -> tuple[Change, ...]:
    """The toolchain's own switches, those nearest to what failed first; both values, for defaults are not told."""
    data = _data().get(situation.case.compiler)
    if data is None:
        return ()
    known = situation.toolchain.capabilities
    whole = [one(GiveFlag(text)) for text in data["first"] if flag_name(text) in known.flags]
    given = set(_given(situation))
    return _distinct(change for change in (*whole, *_switched(situation, data)) if not given & set(change.flags))


def _known(situation: Situation) -> Iterator[Change]:
    for failure in situation.failures:
        rule = rule_for(failure.failure_class)
        for candidate in rule.candidates if rule else ():
            yield from _changes(candidate, situation, failure)


def _changes(candidate: Candidate, situation: Situation, failure: Failure) -> Iterator[Change]:
    case, flags = situation.case, situation.toolchain.capabilities.flags
    match candidate:
        case GiveFlag(text):
            if flag_name(text) in flags and not _foreign(flag_name(text), case) and text not in _given(situation):
                yield one(candidate)
        case DropFlag(name):
            if name in map(flag_name, _given(situation)):
                yield one(candidate)
        case LeastValue(name):
            if name in flags and not _foreign(name, case):
                yield Change((GiveFlag(f"--{name}={candidate.upto}", candidate.why),), candidate)
        case DeclareDevices(why):
            said = failure.details.get("device")
            names = situation.devices | ({said} if isinstance(said, str) else frozenset())
            if (step := declaring(case, names, why)) is not None:
                yield one(step)
        case LaunchOption(name, values, why):
            if isinstance(case.how, Kernel):
                yield from (one(SetOption(name, value, why)) for value in values if case.how.options.get(name) != value)
        case _:
            assert_never(candidate)


def _given(situation: Situation) -> tuple[str, ...]:
    """The recipe's own flags, as far as this version is given them."""
    return tuple(flag.text for flag in situation.case.flags if flag_applies(flag, situation.toolchain.version))


def _distinct(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Each once, the first with what is said of it."""
    return tuple({change.text: change for change in reversed(tuple(changes))}.values())[::-1]


def _neighbours(situation: Situation) -> Iterator[Change]:
    for other in situation.siblings:
        differs = differences(situation.case, other)
        if len(differs) == 1:
            yield one(Neighbour(other, differs))


def _switched(situation: Situation, data: Mapping[str, Any]) -> Iterator[Change]:
    known, case = situation.toolchain.capabilities, situation.case
    new = known.switches - situation.without.capabilities.flags if situation.without else frozenset()
    near = _beginnings(situation, data)
    eligible = [
        name
        for name in known.switches
        if name.startswith(near) and not _foreign(name, case) and not any(word in name for word in data["never"])
    ]
    for name in sorted(eligible, key=lambda name: (name not in new, _rank(name, near), name)):
        why = f"an option that {situation.without.revision.name} does not have" if situation.without and name in new else ""
        values = ("true",) if any(word in name for word in data["only_true"]) else ("false", "true")
        yield from (one(GiveFlag(f"--{name}={value}", why)) for value in values)


def _beginnings(situation: Situation, data: Mapping[str, Any]) -> tuple[str, ...]:
    """The beginnings of the names that are worth trying, nearest first."""
    phase = situation.failures[0].phase or situation.case.phase or "executable-targets"
    if phase.startswith(_ENDS_IN_CODE):
        phase = "executable-targets"
    general = data["phases"].get(phase, data["phases"]["executable-targets"])
    own = data["backends"].get(situation.case.target.backend, []) if phase == "executable-targets" else []
    return (*own, *general)


def _rank(name: str, near: Sequence[str]) -> int:
    return next(number for number, begin in enumerate(near) if name.startswith(begin))


def _foreign(name: str, case: Case) -> bool:
    """Whether an option is another backend's."""
    backends: Mapping[str, Iterable[str]] = _data().get(case.compiler, {}).get("backends", {})
    owners = {backend for backend, begins in backends.items() if name.startswith(tuple(begins))}
    return bool(owners) and case.target.backend not in owners


@cache
def _data() -> dict[str, Any]:
    text = files("triage.remedy").joinpath("switches.yaml").read_text("utf-8")
    return dict(yaml.safe_load(text))
