"""Passes over the settings of a case: flags, devices, the chip, a kernel's options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from triage.compilers.base import kernel_of
from triage.model.case import Flag
from triage.reduce.engine import greedily, minimise
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate

_AMD = ("gfx908", "gfx90a", "gfx942")
_CHIPS = {"cuda": ("sm_60", "sm_75", "sm_80", "sm_90"), "rocm": _AMD, "hip": _AMD}  # the oldest first


def drop_flags(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Drop the flags that the failure does not need."""
    case = candidate.case

    def build(kept: Sequence[Flag]) -> Candidate:
        return Candidate(candidate.document, replace(case, flags=tuple(kept)))

    return minimise(candidate, case.flags, build, test, whole=len(case.flags) > 1)


def fewer_devices(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Compile for one or two devices instead of many."""
    target = candidate.case.target
    wanted = [number for number in (1, 2, (target.devices or 0) // 2) if 0 < number < (target.devices or 0)]
    candidates = (
        Candidate(candidate.document, replace(candidate.case, target=replace(target, devices=number)))
        for number in dict.fromkeys(wanted)
    )
    return test.first(candidates) or candidate


def oldest_chip(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Compile for the oldest chip of the vendor that still fails, so that newer instructions are ruled out."""
    target = candidate.case.target
    chips = _CHIPS.get(target.backend, ())
    older = chips[: chips.index(target.chip)] if target.chip in chips else chips if target.chip else ()
    candidates = (Candidate(candidate.document, replace(candidate.case, target=replace(target, chip=chip))) for chip in older)
    return test.first(candidates) or candidate


def drop_options(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Drop the options that the failure does not need, then make the numbers of the others smaller."""
    kernel = kernel_of(candidate.case)
    if kernel is None:
        return candidate

    def build(kept: Sequence[str]) -> Candidate:
        options = {name: value for name, value in kernel.options.items() if name in kept}
        return Candidate(candidate.document, replace(candidate.case, spec=replace(kernel, options=options)))

    return _shrink_counts(minimise(candidate, list(kernel.options), build, test), test)


@greedily
def _shrink_counts(candidate: Candidate) -> Iterator[Candidate]:
    kernel = kernel_of(candidate.case)
    assert kernel is not None
    for name, value in kernel.options.items():
        if type(value) is int:
            for number in (1 << bits for bits in range(value.bit_length())):
                if number < value:
                    options = {**kernel.options, name: number}
                    yield Candidate(candidate.document, replace(candidate.case, spec=replace(kernel, options=options)))
