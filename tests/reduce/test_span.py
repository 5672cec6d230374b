from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reduce.made import probes
from triage.model.case import Expectation
from triage.reduce.reproducer import expectations, in_order


@pytest.mark.parametrize(
    ("letters", "windows"),
    [
        ("PFGP", [("F", "3.1.0", "3.2.0"), ("G", "3.2.0", "3.3.0")]),
        ("PFPF", [("F", "3.1.0", "3.2.0"), ("F", "3.3.0", None)]),
        ("UFUFUP", [("F", "3.1.0", "3.5.0")]),
        ("PU", []),
        ("", []),
    ],
)
def test_expectations_cover_the_failing_versions(
    letters: str, windows: list[tuple[str, str, str | None]]
) -> None:
    classes = {"F": "shared-memory-overflow", "G": "verifier"}
    assert expectations(probes(letters)) == tuple(
        Expectation(classes[one], since, until) for one, since, until in windows
    )


def test_versions_are_sorted_and_what_has_none_is_last() -> None:
    good, bad = probes("PF")
    local = replace(good, version="local")
    passing = replace(good, version=bad.version)
    assert in_order([local, bad, passing, good]) == (good, passing, bad, local)
