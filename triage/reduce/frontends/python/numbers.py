"""Passes that make numbers smaller: constexprs, and the constants of the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from triage.reduce.draft import Draft
from triage.reduce.frontends.python.document import kernel_of, tree_of, with_edits, with_kernel
from triage.reduce.search import InterestingnessTest, greedily

_LARGE = 3  # a number from which on it is worth being halved


def shrink_all_constexprs(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Halve all constexprs at once as long as the failure allows it."""
    return greedily(draft, hunt, _all_smaller) if kernel_of(draft) else draft


def _all_smaller(draft: Draft) -> Iterator[Draft]:
    numbers = _numbers(draft)
    if numbers:
        yield _halved(draft, list(numbers))


def shrink_constexprs(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Halve constexprs as long as the failure allows it: all of one value together, then each."""
    return greedily(draft, hunt, _smaller_constexprs) if kernel_of(draft) else draft


def _smaller_constexprs(draft: Draft) -> Iterator[Draft]:
    numbers = _numbers(draft)
    by_value = [[name for name, value in numbers.items() if value == one] for one in dict.fromkeys(numbers.values())]
    together: list[Sequence[str]] = [list(numbers)] if len(by_value) > 1 else []
    alone = [[name] for names in by_value if len(names) > 1 for name in names]
    for names in (*together, *by_value, *alone):
        yield _halved(draft, names)


def _numbers(draft: Draft) -> dict[str, int]:
    """The constexprs that are worth being halved."""
    how = kernel_of(draft)
    given = how.constexprs if how else {}
    return {name: value for name, value in given.items() if type(value) is int and value >= _LARGE}


def _halved(draft: Draft, names: Sequence[str]) -> Draft:
    how = kernel_of(draft)
    assert how
    numbers = _numbers(draft)
    halved = {**how.constexprs, **{name: numbers[name] // 2 for name in names}}
    return Draft(draft.document, with_kernel(draft.case, replace(how, constexprs=halved)))


def shrink_numbers(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Halve the program's own whole numbers: all of one value together."""
    return greedily(draft, hunt, _smaller_numbers)


def _smaller_numbers(draft: Draft) -> Iterator[Draft]:
    found: dict[int, list[ast.Constant]] = {}
    for one in ast.walk(tree_of(draft)):
        if isinstance(one, ast.Constant) and type(one.value) is int and one.value >= _LARGE:
            found.setdefault(one.value, []).append(one)
    for value, places in sorted(found.items(), reverse=True):
        yield with_edits(draft, {one: ast.Constant(value // 2) for one in places})
