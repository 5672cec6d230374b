"""Passes over the settings of a case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.reduce.test_search import CASE, draft
from triage.model.case import Target
from triage.reduce.draft import Draft
from triage.reduce.frontends.case_settings import oldest_chip


class ChipTest:
    """A test for drafts that are compiled for one of these chips."""

    def __init__(self, *chips: str) -> None:
        self.chips = chips
        self.asked: list[str] = []

    def first(self, drafts: Iterable[Draft]) -> Draft | None:
        for candidate in drafts:
            self.asked.append(str(candidate.case.target.chip))
            if candidate.case.target.chip in self.chips:
                return candidate
        return None

    def is_valid(self, draft: Draft) -> bool:
        return True


@pytest.mark.parametrize(
    ("backend", "chip", "fails_on", "left", "asked"),
    [
        ("cuda", "sm_90", ("sm_80", "sm_90"), "sm_80", ["sm_60", "sm_75", "sm_80"]),
        ("rocm", "gfx942", ("gfx942",), "gfx942", ["gfx908", "gfx90a"]),
        ("rocm", "gfx1201", ("gfx942", "gfx1201"), "gfx942", ["gfx908", "gfx90a", "gfx942"]),
        ("rocm", "gfx908", ("gfx908",), "gfx908", []),
        ("llvm-cpu", None, (), None, []),
    ],
)
def test_the_oldest_failing_chip_is_chosen(
    backend: str, chip: str | None, fails_on: tuple[str, ...], left: str | None, asked: list[str]
) -> None:
    test = ChipTest(*fails_on)
    given = Draft(draft([0]).document, replace(CASE, target=Target(backend, chip)))
    assert oldest_chip(given, test).case.target.chip == left
    assert test.asked == asked
