"""A case and its neighbours in the matrix: which differ in what, and new ones along a key that no recipe varies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations, product

from triage.compilers.registry import family_of
from triage.execution.judge import Match, any_failure, same_class
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case, Constant
from triage.model.errors import BadInput
from triage.model.outcome import Compiled, Failed, Failure, Probe, Untestable
from triage.toolchains.registry import ToolchainRef

MOST = 64
"""Cases in one grid; a larger matrix is looked at only one key away from the case."""


def differences(case: Case, other: Case) -> tuple[tuple[str, str], ...]:
    """The keys in which two cases of a recipe differ, with the other's values."""
    mine = dict(case.matrix)
    return tuple((key, value) for key, value in other.matrix if mine.get(key) != value)


def neighbourhood(case: Case, siblings: Sequence[Case]) -> tuple[Case, ...]:
    """The recipe's cases to compare: all where they are not too many, else those that differ from `case` in one key."""
    if len(siblings) <= MOST:
        return tuple(siblings)
    return tuple(other for other in siblings if len(differences(case, other)) <= 1)


def varied(case: Case, axes: Mapping[str, Sequence[str]]) -> tuple[Case, ...]:
    """The case with every combination of the values of `axes`, the values it has itself included and first.

    A key is `args.NAME` of the generator, `target.backend`, `.chip` or `.devices`, and of a kernel `options.NAME` or
    `constexprs.NAME`; the part before the dot may be left away where only one has the name. BadInput for any other, and
    for more than `MOST` cases.
    """
    knobs = _knobs(case)
    named = {key: _resolved(case, key, knobs) for key in axes}
    full = {key: list(dict.fromkeys([*knobs[named[key]], *values])) for key, values in axes.items()}
    combinations = [tuple(zip(full, values, strict=True)) for values in product(*full.values())]
    if len(combinations) > MOST:
        raise BadInput(f"{len(combinations)} combinations are to be compiled; {MOST} is the limit")
    return tuple(_with_values(case, choice, named) for choice in combinations)


def _with_values(case: Case, choice: tuple[tuple[str, str], ...], named: Mapping[str, str]) -> Case:
    matrix = tuple({**dict(case.matrix), **dict(choice)}.items())
    for key, value in choice:
        case = _with_value(case, named[key], value)
    return replace(case, name=f"{case.recipe}[{','.join(f'{key}={value}' for key, value in matrix)}]", matrix=matrix)


def _with_value(case: Case, knob: str, value: str) -> Case:
    section, _, name = knob.partition(".")
    kernel = family_of(case).kernel(case)
    match section:
        case "args":
            args = tuple((key, value if key == name else old) for key, old in case.input.args)
            return replace(case, input=replace(case.input, args=args))
        case "options" if kernel:
            return replace(case, spec=replace(kernel, options={**kernel.options, name: _constant(value)}))
        case "constexprs" if kernel:
            return replace(case, spec=replace(kernel, constexprs={**kernel.constexprs, name: _constant(value)}))
    match name:
        case "backend":
            return replace(case, target=replace(case.target, backend=value))
        case "chip":
            return replace(case, target=replace(case.target, chip=value))
        case _:
            if not value.isdecimal() or int(value) < 1:
                raise BadInput(f"devices={value}: a number of devices is 1 or more")
            return replace(case, target=replace(case.target, devices=int(value)))


def _knobs(case: Case) -> dict[str, tuple[str, ...]]:
    """Everything that can be varied, by its full name, with the value it has, if any."""
    target = {"backend": case.target.backend, "chip": case.target.chip, "devices": case.target.devices}
    kernel = family_of(case).kernel(case)
    specialised = {"options": kernel.options, "constexprs": kernel.constexprs} if kernel else {}
    sections = {"args": dict(case.input.args), **specialised, "target": target}
    return {
        f"{section}.{name}": () if value is None else (str(value),)
        for section, values in sections.items()
        for name, value in values.items()
    }


def _resolved(case: Case, key: str, knobs: Collection[str]) -> str:
    found = [knob for knob in knobs if key in (knob, knob.partition(".")[2])]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(f"{key!r} is ambiguous in {case.name}: write {' or '.join(found)}")
    raise BadInput(f"{case.name} has nothing called {key!r} that can be varied; it has: {', '.join(knobs)}")


def _constant(text: str) -> Constant:
    """A value as a recipe's YAML would read it."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdecimal() else text


def compare_variants(bench: ProbeRunner, cases: Sequence[Case], place: ToolchainRef, about: Case | None = None) -> Variants:
    """What the failure of `about`, or of the first case that fails, depends on. A failure is the same when its class is."""
    order = {one.name: number for number, one in enumerate(cases)}
    found = bench.probe_all([ProbeJob(one, place) for one in cases], "variants")
    probes = tuple(sorted(found, key=lambda probe: order[probe.case.name]))
    candidates = [probe for probe in probes if about is None or probe.case.name == about.name]
    failure = next((probe.outcome.failure for probe in candidates if isinstance(probe.outcome, Failed)), None)
    match: Match = same_class(failure) if failure else any_failure
    matters, sentence = depends_on([(dict(probe.case.matrix), seen(probe, match)) for probe in probes])
    keys = tuple(dict.fromkeys(key for one in cases for key, _ in one.matrix))
    if failure is None:
        matters, sentence = (), f"{about.name if about else 'No case'} {'does not fail' if about else 'fails'}."
    return Variants(probes, failure, keys, matters, sentence)


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
