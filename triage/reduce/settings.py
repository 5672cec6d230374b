"""Passes that change the settings of a case, which programs of all forms have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from triage.compilers.base import kernel_of
from triage.reduce.problem import ReductionProblem
from triage.reduce.program import ReducedCase


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
        fields: dict[str, Any] = {}
        for field in ("options", "hints"):
            named = getattr(kernel, field)
            fields[field] = {key: named[key] for key in named if key not in dropped}
        return smaller.with_case(spec=replace(kernel, **fields))

    problem.delete(items, without)
