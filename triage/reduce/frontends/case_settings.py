"""Passes over the settings of a case: flags, devices, a kernel's options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triage.compilers.base import kernel_of
from triage.model.case import Flag
from triage.reduce.engine import minimise
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate


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


def drop_options(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Drop the options that the failure does not need."""
    kernel = kernel_of(candidate.case)
    if kernel is None:
        return candidate

    def build(kept: Sequence[str]) -> Candidate:
        options = {name: value for name, value in kernel.options.items() if name in kept}
        return Candidate(candidate.document, replace(candidate.case, spec=replace(kernel, options=options)))

    return minimise(candidate, list(kernel.options), build, test)
