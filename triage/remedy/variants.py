"""A case and its neighbours in the matrix: which differ in what, and new ones along a key that no recipe varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """The case with every combination of the values of `axes`, the values it has itself included.

    A key is an argument of the generator, `backend`, `chip` or `devices` of the target, or a constexpr or an option of a
    kernel. BadInput for any other, and for more than `MOST` cases.
    """
    full = {key: list(dict.fromkeys([*_present(case, key), *values])) for key, values in axes.items()}
    combinations = [tuple(zip(full, values, strict=True)) for values in product(*full.values())]
    if len(combinations) > MOST:
        raise BadInput(f"{len(combinations)} combinations are to be compiled; {MOST} is the limit")
    return tuple(_with_values(case, choice) for choice in combinations)


def _with_values(case: Case, choice: tuple[tuple[str, str], ...]) -> Case:
    for key, value in choice:
        case = _with_value(case, key, value)
    matrix = tuple({**dict(case.matrix), **dict(choice)}.items())
    return replace(case, name=f"{case.recipe}[{','.join(f'{key}={value}' for key, value in matrix)}]", matrix=matrix)


def _with_value(case: Case, key: str, value: str) -> Case:
    how = case.how
    if key in dict(case.input.args):
        args = tuple((name, value if name == key else old) for name, old in case.input.args)
        return replace(case, input=replace(case.input, args=args))
    if key == "backend":
        return replace(case, target=replace(case.target, backend=value))
    if key == "chip":
        return replace(case, target=replace(case.target, chip=value))
    if key == "devices":
        if not value.isdecimal() or int(value) < 1:
            raise BadInput(f"devices={value}: a number of devices is 1 or more")
        return replace(case, target=replace(case.target, devices=int(value)))
    if isinstance(how, Kernel) and key in how.options:
        return replace(case, how=replace(how, options={**how.options, key: _constant(value)}))
    if isinstance(how, Kernel) and key in how.constexprs:
        return replace(case, how=replace(how, constexprs={**how.constexprs, key: _constant(value)}))
    raise BadInput(f"{case.name} has nothing called {key!r} that can be varied; it has: {', '.join(_keys(case))}")


def _present(case: Case, key: str) -> tuple[str, ...]:
    """The value that the case has of a key, if it has one."""
    how = case.how if isinstance(case.how, Kernel) else Kernel(None, {}, {}, {}, {})
    target = {"backend": case.target.backend, "chip": case.target.chip, "devices": case.target.devices}
    known = {**target, **how.constexprs, **how.options, **dict(case.input.args)}
    return () if known.get(key) is None else (str(known[key]),)


def _keys(case: Case) -> list[str]:
    kernel = [*case.how.options, *case.how.constexprs] if isinstance(case.how, Kernel) else []
    return [*dict(case.input.args), *kernel, "backend", "chip", "devices"]


def _constant(text: str) -> Constant:
    """A value as a recipe's YAML would read it."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdecimal() else text
