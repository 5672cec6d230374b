from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reduce.made import probes
from triage.model.case import Expectation
from triage.reduce.reproducer import expectations, in_order, span_around
from triage.report.reproducer import span_text


@pytest.mark.parametrize(
    ("letters", "bad", "text"),
    [
        (
            "PPFFPP",
            2,
            "last good 3.1.0, first bad 3.2.0, last bad 3.3.0, fixed in 3.4.0",
        ),
        ("PFP", 1, "last good 3.0.0, first bad 3.1.0, fixed in 3.2.0"),
        ("FFF", 1, "first bad 3.0.0, still failing in 3.2.0"),
        (
            "PUUF",
            3,
            "last good 3.0.0, first bad 3.3.0",
        ),
        (
            "PFUFP",
            3,
            "last good 3.0.0, first bad 3.1.0, last bad 3.3.0, fixed in 3.4.0",
        ),
        (
            "PGFFGP",
            2,
            "3.1.0 fails in another way, first bad 3.2.0, last bad 3.3.0, 3.4.0 fails in another way",
        ),
        ("UFU", 1, "first bad 3.1.0"),
        ("PFPFP", 3, "last good 3.2.0, first bad 3.3.0, fixed in 3.4.0"),
    ],
)
def test_the_span_around_the_bad_version(letters: str, bad: int, text: str) -> None:
    tried = probes(letters)
    assert span_text(span_around(tried, tried[bad])) == text


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
    assert in_order([local, bad, good]) == (good, bad, local)
