"""Passes over the settings of a case: flags, devices, the chip, a kernel's options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from triage.compilers.registry import family_of
from triage.model.case import Flag
from triage.reduce.draft import Draft, InterestingnessTest, greedily, minimise

_AMD = ("gfx908", "gfx90a", "gfx942")
_CHIPS = {"cuda": ("sm_60", "sm_75", "sm_80", "sm_90"), "rocm": _AMD, "hip": _AMD}  # the oldest first
_COUNTS = ("num_warps", "num_stages", "num_ctas")


def drop_flags(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop the flags that the failure does not need."""
    case = draft.case

    def build(kept: Sequence[Flag]) -> Draft:
        return Draft(draft.document, replace(case, flags=tuple(kept)))

    return minimise(draft, case.flags, build, test, whole=len(case.flags) > 1)


def fewer_devices(draft: Draft, test: InterestingnessTest) -> Draft:
    """Compile for one or two devices instead of many."""
    target = draft.case.target
    wanted = [number for number in (1, 2, (target.devices or 0) // 2) if 0 < number < (target.devices or 0)]
    drafts = (
        Draft(draft.document, replace(draft.case, target=replace(target, devices=number))) for number in dict.fromkeys(wanted)
    )
    return test.first(drafts) or draft


def oldest_chip(draft: Draft, test: InterestingnessTest) -> Draft:
    """Compile for the oldest chip of the vendor that still fails, so that newer instructions are ruled out."""
    target = draft.case.target
    chips = _CHIPS.get(target.backend, ())
    older = chips[: chips.index(target.chip)] if target.chip in chips else chips if target.chip else ()
    drafts = (Draft(draft.document, replace(draft.case, target=replace(target, chip=chip))) for chip in older)
    return test.first(drafts) or draft


def drop_options(draft: Draft, test: InterestingnessTest) -> Draft:
    """Drop the options that the failure does not need, then make the numbers of the others smaller."""
    kernel = family_of(draft.case).kernel(draft.case)
    if kernel is None:
        return draft

    def build(kept: Sequence[str]) -> Draft:
        options = {name: value for name, value in kernel.options.items() if name in kept}
        return Draft(draft.document, replace(draft.case, spec=replace(kernel, options=options)))

    return _shrink_counts(minimise(draft, list(kernel.options), build, test), test)


@greedily
def _shrink_counts(draft: Draft) -> Iterator[Draft]:
    kernel = family_of(draft.case).kernel(draft.case)
    assert kernel is not None
    for name, value in kernel.options.items():
        if name in _COUNTS and isinstance(value, int):
            for number in (1 << bits for bits in range(value.bit_length())):
                if number < value:
                    options = {**kernel.options, name: number}
                    yield Draft(draft.document, replace(draft.case, spec=replace(kernel, options=options)))
