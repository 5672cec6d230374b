"""A failure of one backend, or of one compiler, is not the failure of another one that
has the same signature.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.nights.documents import case_result, night
from triage.cli.nights import open_nights
from triage.execution.in_turn import Pace
from triage.investigate.result import CaseResult, ClusterKey
from triage.model.case import Target
from triage.nightly.result import TimeChange

ISSUE = "o/r#7"


def on(backend: str, name: str, letter: str = "F", **values: Any) -> CaseResult:
    return case_result(name, letter, target=Target(backend, "gpu"), **values)


def shown(triage: Triage, case: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(triage("show", case, "--format", "json").stdout)
    return answer


def test_a_regression_does_not_show_the_issue_of_another_backend(
    home: Path, triage: Triage
) -> None:
    known = night(1, {}, cases=[on("cuda", "on-cuda"), on("rocm", "on-rocm", "P")])
    store = open_nights()
    store.add(known)
    store.add_issues(known.started, {"on-cuda": ISSUE})
    store.add(night(2, {}, cases=[on("cuda", "on-cuda"), on("rocm", "on-rocm")]))
    cuda, rocm = (shown(triage, name) for name in ("on-cuda", "on-rocm"))
    assert [each["failures"][0]["issue"] for each in (cuda, rocm)] == [ISSUE, None]
    clusters = [
        ClusterKey("iree", backend, "legalize:x").id for backend in ("cuda", "rocm")
    ]
    assert triage("site", "--out", "public").returncode == 0
    pages = [
        (home.parent / "work" / "public" / "failures" / f"{cluster}.html").read_text()
        for cluster in clusters
    ]
    assert [ISSUE in page for page in pages] == [True, False]


def test_a_site_of_some_tracks_has_their_nights_only(
    home: Path, triage: Triage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_NIGHTS", str(home.parent / "own-nights"))
    store = open_nights()
    slower = TimeChange(
        case="slow",
        measured="compile",
        baseline_seconds=4.0,
        seconds=8.0,
        verdict=Pace.SLOWER,
    )
    for day, backend in enumerate(("cuda", "rocm", "cuda"), 1):
        cases = [on(backend, f"on-{backend}"), on("vulkan", "slow", "P")]
        if day == 2:
            cases.pop()
        store.add(night(day, {}, cases=cases, times=[slower]))
    words = ("site", "--out", "public", "--format", "json", "--track")
    counts = [
        tuple(
            json.loads(triage(*words, pattern).stdout)[key]
            for key in ("nights", "cases", "failures")
        )
        for pattern in ("*", "*cuda*")
    ]
    assert counts == [(3, 3, 2), (2, 1, 1)]
    page = home.parent / "work" / "public" / "index.html"
    assert "4 s -&gt; 8 s" not in page.read_text(), "of another track"
    triage(*words, "*")
    assert "4 s -&gt; 8 s, slower" in page.read_text()
    [slow] = [
        each for each in (page.parent / "cases").glob("*") if "slow" in each.read_text()
    ]
    assert f"cases/{slow.name}" in page.read_text()
    assert triage(*words, "tpu").returncode == 2
    assert not [*home.glob("nights*")]
