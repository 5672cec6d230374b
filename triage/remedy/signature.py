"""The argument and result types of a function, as its attribute writes them."""

from __future__ import annotations

from collections.abc import Sequence

from triage.mlir import Operation
from triage.mlir.tree import split

_NAME = "function_type"


def sides_of(function: Operation) -> tuple[list[str], list[str]] | None:
    """The types before and after the arrow of `(…) -> …`; None where it is written in another way."""
    before, arrow, after = (function.attribute(_NAME) or "").partition(") -> ")
    if not arrow or not before.startswith("("):
        return None
    return split(before[1:]), split(after[1:-1] if after.startswith("(") else after)


def with_sides(function: Operation, arguments: Sequence[str], results: Sequence[str]) -> None:
    """Writes them anew, wherever this version keeps them."""
    kept = function.properties if _NAME in function.properties else function.attributes
    kept[_NAME] = f"({', '.join(arguments)}) -> ({', '.join(results)})"
