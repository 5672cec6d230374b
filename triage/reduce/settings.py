"""Passes over what stands beside the program: flags and devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triage.model.case import Flag
from triage.reduce.draft import Draft
from triage.reduce.search import Hunt, minimise


def drop_flags(draft: Draft, hunt: Hunt) -> Draft:
    """Leave out each flag that the failure does not need."""
    case = draft.case

    def build(kept: Sequence[Flag]) -> Draft:
        return Draft(draft.document, replace(case, flags=tuple(kept)))

    _, found = minimise(case.flags, build, hunt, whole=len(case.flags) > 1)
    return found or draft


def fewer_devices(draft: Draft, hunt: Hunt) -> Draft:
    """Two devices, or one, in the place of many."""
    target = draft.case.target
    wanted = [number for number in (1, 2, (target.devices or 0) // 2) if 0 < number < (target.devices or 0)]
    drafts = (
        Draft(draft.document, replace(draft.case, target=replace(target, devices=number))) for number in dict.fromkeys(wanted)
    )
    return hunt.first(drafts) or draft
