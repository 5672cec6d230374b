"""Passes over what stands beside the program: flags, devices, the chip, a kernel's options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from triage.compilers.registry import family_of
from triage.model.case import Flag
from triage.reduce.draft import Draft
from triage.reduce.search import InterestingnessTest, greedily, minimise

_AMD = ("gfx908", "gfx90a", "gfx942")
_CHIPS = {"cuda": ("sm_60", "sm_75", "sm_80", "sm_90"), "rocm": _AMD, "hip": _AMD}  # the plainest first
_COUNTS = ("num_warps", "num_stages", "num_ctas")


def drop_flags(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Leave out each flag that the failure does not need."""
    case = draft.case

    def build(kept: Sequence[Flag]) -> Draft:
        return Draft(draft.document, replace(case, flags=tuple(kept)))

    _, found = minimise(case.flags, build, hunt, whole=len(case.flags) > 1)
    return found or draft


def fewer_devices(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Two devices, or one, in the place of many."""
    target = draft.case.target
    wanted = [number for number in (1, 2, (target.devices or 0) // 2) if 0 < number < (target.devices or 0)]
    drafts = (
        Draft(draft.document, replace(draft.case, target=replace(target, devices=number))) for number in dict.fromkeys(wanted)
    )
    return hunt.first(drafts) or draft


def plainer_chip(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """The plainest chip of the vendor that it still fails on: then no newer one's instructions have a part in it."""
    target = draft.case.target
    chips = _CHIPS.get(target.backend, ())
    plainer = chips[: chips.index(target.chip)] if target.chip in chips else chips if target.chip else ()
    drafts = (Draft(draft.document, replace(draft.case, target=replace(target, chip=chip))) for chip in plainer)
    return hunt.first(drafts) or draft


def drop_options(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Leave out options that the failure does not need, then make the numbers of the others small."""
    kernel = family_of(draft.case).kernel(draft.case)
    if kernel is None:
        return draft

    def build(kept: Sequence[str]) -> Draft:
        options = {name: value for name, value in kernel.options.items() if name in kept}
        return Draft(draft.document, replace(draft.case, spec=replace(kernel, options=options)))

    _, found = minimise(list(kernel.options), build, hunt)
    return greedily(found or draft, hunt, _fewer)


def _fewer(draft: Draft) -> Iterator[Draft]:
    kernel = family_of(draft.case).kernel(draft.case)
    assert kernel is not None
    for name, value in kernel.options.items():
        if name in _COUNTS and isinstance(value, int):
            for number in (1 << bits for bits in range(value.bit_length())):
                if number < value:
                    options = {**kernel.options, name: number}
                    yield Draft(draft.document, replace(draft.case, spec=replace(kernel, options=options)))
