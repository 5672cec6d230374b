"""A case and its neighbours in the matrix: which differ in what, and new ones along a key that no recipe varies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product

from triage.model.case import Case, Constant, Kernel
from triage.model.errors import BadInput

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
    match section, case.how:
        case "args", _:
            args = tuple((key, value if key == name else old) for key, old in case.input.args)
            return replace(case, input=replace(case.input, args=args))
        case "options", Kernel() as how:
            return replace(case, how=replace(how, options={**how.options, name: _constant(value)}))
        case "constexprs", Kernel() as how:
            return replace(case, how=replace(how, constexprs={**how.constexprs, name: _constant(value)}))
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
    kernel = case.how if isinstance(case.how, Kernel) else Kernel(None, {}, {}, {}, {})
    sections = {"args": dict(case.input.args), "options": kernel.options, "constexprs": kernel.constexprs, "target": target}
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
