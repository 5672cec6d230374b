"""What a failure depends on, from a grid of cases: pure reasoning, no compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from triage.model.failure import Failure
from triage.model.outcome import Compiled, Failed, Untestable
from triage.model.probe import Probe
from triage.probe.judge import Match


class Seen(StrEnum):
    """What became of one case, seen from the failure that is asked about."""

    FAILS = "fails"
    COMPILES = "compiles"
    OTHER = "fails otherwise"
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class Variants:
    """The grid's answer. failure: the one asked about, None where no case has any; keys: all that vary; matters: those
    of them that decide; sentence: what it depends on, in words.
    """

    probes: tuple[Probe, ...]
    failure: Failure | None
    keys: tuple[str, ...]
    matters: tuple[str, ...]
    sentence: str


Choice = Mapping[str, str]
Observed = tuple[Choice, Seen]


def seen(probe: Probe, match: Match) -> Seen:
    """One probe, seen from the failure that `match` recognises."""
    match probe.outcome:
        case Compiled():
            return Seen.COMPILES
        case Failed(failure, others):
            return Seen.FAILS if any(map(match, (failure, *others))) else Seen.OTHER
        case Untestable():
            return Seen.UNTESTABLE


def depends_on(observed: Sequence[Observed]) -> tuple[tuple[str, ...], str]:
    """The keys that decide whether it fails, and a sentence that says how. Untestable cases say nothing.

    A key decides when it is needed to tell the failing cases from the others; a sentence is exact about what was tried.
    """
    spoken = [(choice, what) for choice, what in observed if what is not Seen.UNTESTABLE]
    failing = [choice for choice, what in spoken if what is Seen.FAILS]
    keys = _varying(spoken)
    if not failing:
        return (), "No case fails so."
    if len(failing) == len(spoken):
        return (), _tail("It fails whatever is varied", observed, keys, ())
    for size in range(1, len(keys) + 1):
        for chosen in combinations(keys, size):
            values = {key: list(dict.fromkeys(choice[key] for choice in failing)) for key in chosen}
            inside = [what for choice, what in spoken if all(choice[key] in values[key] for key in chosen)]
            if all(what is Seen.FAILS for what in inside):
                words = " and ".join(f"{key}={_either(values[key])}" for key in chosen)
                return chosen, _tail(f"It fails exactly for {words}", observed, keys, chosen)
    deciding = tuple(key for key in keys if _flips(key, spoken))
    words = f"It fails in {len(failing)} of {len(spoken)} cases, and no single combination of values describes them"
    return deciding, _tail(words, observed, keys, deciding)


def _tail(words: str, observed: Sequence[Observed], keys: Sequence[str], deciding: Sequence[str]) -> str:
    rest = [key for key in keys if key not in deciding]
    if rest and deciding:
        words += f"; {_listed(rest)} {'does' if len(rest) == 1 else 'do'} not matter"
    elif rest:
        words += f" ({_listed(rest)})"
    notes = [
        f"{count} of {len(observed)} {said}"
        for kind, said in ((Seen.OTHER, "failed in another way"), (Seen.UNTESTABLE, "could not be tested"))
        if (count := sum(what is kind for _, what in observed))
    ]
    return f"{words}." + (f" {' and '.join(notes)}." if notes else "")


def _varying(spoken: Sequence[Observed]) -> tuple[str, ...]:
    keys = dict.fromkeys(key for choice, _ in spoken for key in choice)
    return tuple(key for key in keys if len({choice.get(key) for choice, _ in spoken}) > 1)


def _flips(key: str, spoken: Sequence[Observed]) -> bool:
    """Whether two cases that differ in this key alone differ in whether they fail."""
    groups: dict[tuple[tuple[str, str], ...], set[bool]] = {}
    for choice, what in spoken:
        rest = tuple(sorted((name, value) for name, value in choice.items() if name != key))
        groups.setdefault(rest, set()).add(what is Seen.FAILS)
    return any(len(kinds) > 1 for kinds in groups.values())


def _either(values: Sequence[str]) -> str:
    return " or ".join(values)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
