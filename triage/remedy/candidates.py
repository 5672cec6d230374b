"""What is tried, in order: what the failure's class knows, the recipe's own flags and matrix, then the toolchain's switches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, assert_never

import yaml

from triage.classify.rules import (
    DeclareDevices,
    DropFlag,
    GiveFlag,
    LaunchOption,
    LeastValue,
    RemedyCandidate,
    RewriteInput,
)
from triage.compilers.invocation import flag_name
from triage.compilers.registry import family_of
from triage.execution.judge import rules_of
from triage.model.case import Case
from triage.model.outcome import Failure
from triage.model.revision import Toolchain
from triage.recipes import flag_applies
from triage.remedy.change import CaseChange, Neighbour, Rewritten, SetOption, one
from triage.remedy.devices import declaring
from triage.remedy.rewrites import RewrittenInput
from triage.remedy.variants import differences

_ENDS_IN_CODE = ("executable-", "vm", "end")


@dataclass(frozen=True, slots=True)
class Situation:
    """What the candidates are made for.

    devices: names of those that the program refers to; siblings: the cases of the same recipe; rewritten: the input in other
    ways, by the name of the rewriting; without: a compiler that does not fail, what it has is not new.
    """

    case: Case
    failures: Sequence[Failure]
    toolchain: Toolchain
    devices: frozenset[str] = frozenset()
    siblings: Sequence[Case] = ()
    rewritten: Mapping[str, RewrittenInput] = field(default_factory=dict)
    without: Toolchain | None = None


def first_tier(situation: Situation) -> tuple[CaseChange, ...]:
    """The candidates of the failures' classes, then each of the recipe's own flags left away, then the matrix's neighbours."""
    own = dict.fromkeys(text.partition("=")[0] for text in _given(situation))
    dropped = (one(DropFlag(name)) for name in own if "target" not in name)
    return _distinct([*_known(situation), *dropped, *_neighbours(situation)])


def second_tier(situation: Situation) -> tuple[CaseChange, ...]:
    """The toolchain's own switches and choices, those nearest to what failed first; all values, for defaults are not told."""
    data = _data().get(situation.case.compiler)
    if data is None:
        return ()
    known = situation.toolchain.capabilities
    whole = [one(_switch(text, data)) for text in data["first"] if flag_name(text) in known.flags]
    given = set(_given(situation))
    return _distinct(change for change in (*whole, *_switched(situation, data)) if not given & set(change.flags))


def _switch(text: str, data: Mapping[str, Any], why: str = "") -> GiveFlag:
    recomputes = any(word in text for word in data["recomputes"])
    return GiveFlag(text, why or ("values are computed in another type" if recomputes else ""), recomputes=recomputes)


def _known(situation: Situation) -> Iterator[CaseChange]:
    for failure in situation.failures:
        for candidate in of_class(situation.case, failure):
            yield from _changes(candidate, situation, failure)


def of_class(case: Case, failure: Failure) -> tuple[RemedyCandidate, ...]:
    """Return the candidates of the rule for a failure's class."""
    rule = rules_of(case).by_name.get(failure.failure_class)
    return rule.candidates_for(case.compiler) if rule else ()


def _changes(candidate: RemedyCandidate, situation: Situation, failure: Failure) -> Iterator[CaseChange]:
    case = situation.case
    match candidate:
        case GiveFlag(text):
            if _suits(flag_name(text), situation) and text not in _given(situation):
                yield one(candidate)
        case DropFlag(name):
            if flag_name(name) in map(flag_name, _given(situation)):
                yield one(candidate)
        case LeastValue(name):
            if _suits(name, situation):
                yield CaseChange((GiveFlag(f"--{name}={candidate.upto}", candidate.why),), candidate)
        case DeclareDevices(why):
            yield from _declared(situation, failure, why)
        case LaunchOption(name, values, why):
            if kernel := family_of(case).kernel(case):
                yield from (one(SetOption(name, value, why)) for value in values if kernel.options.get(name) != value)
        case RewriteInput(name, why):
            if (made := situation.rewritten.get(name)) is not None:
                yield one(Rewritten(made.path, made.change, why, made.caveat))
        case _:
            assert_never(candidate)


def _declared(situation: Situation, failure: Failure, why: str) -> Iterator[CaseChange]:
    said = failure.details.get("device")
    names = situation.devices | ({said} if isinstance(said, str) else frozenset())
    if (step := declaring(situation.case, names, why)) is not None:
        yield one(step)


def _suits(name: str, situation: Situation) -> bool:
    """Whether the flag is one for the backend, and known to the compiler. One that tells of no flags at all is taken by the
    word of the recipe's own rules.
    """
    known = situation.toolchain.capabilities.flags
    untold = not known and situation.case.rules is not None and not name.startswith("iree-")
    return (name in known or untold) and not _foreign(name, situation.case)


def _given(situation: Situation) -> tuple[str, ...]:
    """The recipe's own flags, as far as this version is given them."""
    return tuple(flag.text for flag in situation.case.flags if flag_applies(flag, situation.toolchain.version))


def _distinct(changes: Iterable[CaseChange]) -> tuple[CaseChange, ...]:
    """Each once, where it stood first and with what was said of it there."""
    found: dict[str, CaseChange] = {}
    for change in changes:
        found.setdefault(change.text, change)
    return tuple(found.values())


def _neighbours(situation: Situation) -> Iterator[CaseChange]:
    for other in situation.siblings:
        differs = differences(situation.case, other)
        if len(differs) == 1:
            yield one(Neighbour(other, differs))


def _switched(situation: Situation, data: Mapping[str, Any]) -> Iterator[CaseChange]:
    known, case = situation.toolchain.capabilities, situation.case
    new = known.flags - situation.without.capabilities.flags if situation.without else frozenset()
    near = _beginnings(situation, data)
    eligible = [
        name
        for name in (*known.switches, *known.choices)
        if name.startswith(near) and not _foreign(name, case) and not any(word in name for word in data["never"])
    ]
    for name in sorted(eligible, key=lambda name: (name not in new, _rank(name, near), name)):
        why = f"an option that {situation.without.revision.name} does not have" if situation.without and name in new else ""
        only_true = any(word in name for word in data["only_true"])
        values = known.choices.get(name) or (("true",) if only_true else ("false", "true"))
        yield from (one(_switch(f"--{name}={value}", data, why)) for value in values)


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
