"""Passes that change the settings of a case, which programs of all forms have."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from triage.compilers.base import KernelSpec, kernel_of
from triage.reduce.problem import ReductionProblem
from triage.reduce.program import ReducedCase

_SETTINGS = ("options", "hints")


def drop_settings(problem: ReductionProblem) -> None:
    """Drop the flags, the options of a kernel and the hints about its arguments that
    the failure does not need.
    """
    start, kernel = problem.current, kernel_of(problem.current.case)
    items: list[object] = [*start.case.flags]
    if kernel:
        items += [*kernel.options, *kernel.hints]

    def without(dropped: Sequence[object]) -> ReducedCase:
        flags = [flag for flag in start.case.flags if flag not in dropped]
        smaller = start.with_case(flags=tuple(flags))
        if kernel is None:
            return smaller
        return smaller.with_case(spec=without_names(kernel, dropped, *_SETTINGS))

    problem.delete(items, without)


def without_names(
    kernel: KernelSpec, dropped: Container[object], *fields: str
) -> KernelSpec:
    """Return a kernel without some of the names in these fields."""
    left: dict[str, Any] = {}
    for field in fields:
        named = getattr(kernel, field)
        left[field] = {key: named[key] for key in named if key not in dropped}
    return replace(kernel, **left)
