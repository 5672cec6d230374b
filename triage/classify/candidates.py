"""What may be tried against a failure class, as its rule says it: values that `triage remedy` turns into compiles.

compiler: the family that a candidate is for; None where it is for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Place = tuple[str | int, ...]
Complaint = Callable[[Place, str], None]


@dataclass(frozen=True, slots=True)
class GiveFlag:
    """Give a flag, `--name=value`, in the place of any of that name. checks_less: it only silences a check; recomputes: other
    types are computed in, so that results change.
    """

    text: str
    why: str = ""
    checks_less: bool = False
    recomputes: bool = False
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DropFlag:
    """Leave a flag of the recipe's own away. `name` with its dashes, without a value."""

    name: str
    why: str = ""
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LeastValue:
    """Give a flag the smallest value that will do, in (above, upto]; doubling: only powers of two."""

    name: str
    above: int
    upto: int
    doubling: bool = False
    why: str = ""
    compiler: str | None = field(default=None, compare=False)

    @property
    def values(self) -> tuple[int, ...] | range:
        """All values that may be tried, ascending."""
        if not self.doubling:
            return range(self.above + 1, self.upto + 1)
        powers = (1 << exponent for exponent in range(self.upto.bit_length()))
        return tuple(value for value in powers if self.above < value <= self.upto)


@dataclass(frozen=True, slots=True)
class DeclareDevices:
    """Declare every device that the program names."""

    why: str = ""
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LaunchOption:
    """Launch a kernel with another value of an option."""

    name: str
    values: tuple[str | int, ...]
    why: str = ""
    compiler: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RewriteInput:
    """Write the program in another way: `barriers` before transfers, `affinities` on all arguments and results, `static`
    dimensions of its arguments, or 32 bit floats as its `dtype`.
    """

    name: str
    why: str = ""
    compiler: str | None = field(default=None, compare=False)


Candidate = GiveFlag | DropFlag | LeastValue | DeclareDevices | LaunchOption | RewriteInput

_FLAG = re.compile(r"--[a-z][a-z0-9-]*\Z")
_GIVEN = re.compile(r"--[a-z][a-z0-9-]*(=\S+)?\Z")
_KINDS: Mapping[str, frozenset[str]] = {
    "give": frozenset({"checks_less", "recomputes"}),
    "drop": frozenset(),
    "least": frozenset({"above", "upto", "doubling"}),
    "declare": frozenset(),
    "option": frozenset({"values"}),
    "rewrite": frozenset(),
}
_REWRITINGS = ("barriers", "affinities", "static", "dtype")


def check_candidate(entry: Any, place: Place, complain: Complaint) -> None:
    """Complain of everything that is wrong with one entry of `candidates`."""
    kinds = [kind for kind in _KINDS if isinstance(entry, dict) and kind in entry]
    if len(kinds) != 1:
        complain(place, f"a candidate has exactly one of {', '.join(_KINDS)}")
        return
    [kind] = kinds
    for key in entry.keys() - _KINDS[kind] - {kind, "why"}:
        complain((*place, key), f"unknown key {key!r} of a candidate that has {kind!r}")
    if not isinstance(entry.get("why", ""), str):
        complain((*place, "why"), "why is a text")
    for key in ("checks_less", "recomputes"):
        if not isinstance(entry.get(key, False), bool):
            complain((*place, key), f"{key} is true or false")
    _check_value(kind, entry, place, complain)


def _check_value(kind: str, entry: Mapping[str, Any], place: Place, complain: Complaint) -> None:
    value = entry[kind]
    match kind:
        case "give" if not _GIVEN.match(str(value)):
            complain((*place, kind), "give names a flag, --name=value")
        case "drop" | "least" if not _FLAG.match(str(value)):
            complain((*place, kind), f"{kind} names a flag, --name without a value")
        case "declare" if value != "devices":
            complain((*place, kind), "only devices can be declared")
        case "rewrite" if value not in _REWRITINGS:
            complain((*place, kind), f"rewrite is one of {', '.join(_REWRITINGS)}")
        case "option" if not isinstance(entry.get("values"), list) or not entry["values"]:
            complain(place, "an option has a list of values")
        case "least":
            above, upto = entry.get("above"), entry.get("upto")
            if not (isinstance(above, int) and isinstance(upto, int) and 0 <= above < upto):
                complain(place, "above and upto are integers, above smaller")
            if not isinstance(entry.get("doubling", False), bool):
                complain((*place, "doubling"), "doubling is true or false")


def candidate_of(entry: Mapping[str, Any], compiler: str | None = None) -> Candidate:
    """A candidate from an entry that `check_candidate` has no complaint about."""
    return replace(_candidate(entry), compiler=compiler)


def _candidate(entry: Mapping[str, Any]) -> Candidate:
    why = " ".join(entry.get("why", "").split())
    match entry:
        case {"give": text}:
            return GiveFlag(text, why, entry.get("checks_less", False), entry.get("recomputes", False))
        case {"drop": name}:
            return DropFlag(name, why)
        case {"least": name, "above": above, "upto": upto}:
            return LeastValue(name.lstrip("-"), above, upto, entry.get("doubling", False), why)
        case {"option": name, "values": values}:
            return LaunchOption(name, tuple(values), why)
        case {"rewrite": name}:
            return RewriteInput(name, why)
        case _:
            return DeclareDevices(why)
