"""Passes that change the settings of a case, which programs of all forms have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from triage.compilers.base import KernelSpec, kernel_of
from triage.model.case import Case
from triage.reduce.problem import ReductionProblem
from triage.reduce.program import ReducedCase


def drop_flags(problem: ReductionProblem) -> None:
    """Drop the flags that the failure does not need."""
    start = problem.current
    flags = start.case.flags

    def without(dropped: Sequence[int]) -> ReducedCase:
        left = [flag for index, flag in enumerate(flags) if index not in dropped]
        return start.with_case(flags=tuple(left))

    problem.delete(range(len(flags)), without)


def fewer_devices(problem: ReductionProblem) -> None:
    """Compile for one or two devices, or half of them."""
    start = problem.current
    devices = start.case.target.devices or 0
    problem.take_first(
        start.with_case(target=replace(start.case.target, devices=number))
        for number in dict.fromkeys((1, 2, devices // 2))
        if 0 < number < devices
    )


def drop_options(problem: ReductionProblem) -> None:
    """Drop the options of a kernel, and the hints about its arguments, that the failure
    does not need.
    """
    start = problem.current
    kernel = kernel_of(start.case)
    if kernel is None:
        return

    def without(dropped: Sequence[str]) -> ReducedCase:
        options, hints = dict(kernel.options), dict(kernel.hints)
        for name in dropped:
            options.pop(name, None)
            hints.pop(name, None)
        return start.with_case(spec=replace(kernel, options=options, hints=hints))

    problem.delete([*kernel.options, *kernel.hints], without)


def setting_changes(original: Case, reduced: Case) -> Iterator[str]:
    """Yield what differs between two cases, apart from their programs: `chip is gfx908
    instead of gfx942`.
    """
    left = [flag.text for flag in reduced.flags]
    for flag in original.flags:
        if flag.text in left:
            left.remove(flag.text)
        else:
            yield f"flag {flag.text} is not needed"
    before, after = original.target.devices, reduced.target.devices
    pairs: list[tuple[str, object, object]] = [("devices", before, after)]
    if isinstance(original.spec, KernelSpec) and isinstance(reduced.spec, KernelSpec):
        new = reduced.spec.options
        pairs += [
            (f"option {name}", value, new.get(name))
            for name, value in original.spec.options.items()
        ]
    for name, old, new_value in pairs:
        if old == new_value:
            continue
        if new_value is None:
            yield f"{name} {old} is not needed"
        else:
            yield f"{name} is {new_value} instead of {old}"
