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
from triage.investigate.result import CaseResult
from triage.model.case import Target
from triage.nightly.result import TimeChange

ISSUE = "o/r#7"


def on(backend: str, name: str, letter: str = "F", **values: Any) -> CaseResult:
    return case_result(name, letter, target=Target(backend, "gpu"), **values)


def test_a_regression_does_not_show_the_issue_of_another_backend(
    home: Path, triage: Triage
) -> None:
    store = open_nights()
    for day, letter in ((1, "P"), (2, "F")):
        cases = [on("cuda", "on-cuda"), on("rocm", "on-rocm", letter)]
        store.add(night(day, {}, cases=cases))
    store.add_issues(night(1, {}).started, {"on-cuda": ISSUE})
    for backend, issue in (("cuda", ISSUE), ("rocm", None)):
        shown = triage("show", f"on-{backend}", "--format", "json").stdout
        assert json.loads(shown)["failures"][0]["issue"] == issue


def test_a_site_of_some_tracks_has_their_nights_only(
    home: Path, triage: Triage, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_NIGHTS", str(home.parent / "own-nights"))
    slower = TimeChange(
        case="slow",
        baseline_seconds=4.0,
        seconds=8.0,
        verdict=Pace.SLOWER,
    )
    for day, backend in enumerate(("cuda", "rocm", "cuda"), 1):
        cases = [on(backend, f"on-{backend}")]
        if day != 2:
            cases.append(on("vulkan", "slow", "P"))
        open_nights().add(night(day, {}, cases=cases, times=[slower]))
    index = workplace / "public" / "index.html"
    for pattern, counts, times in (
        ("*cuda*", [2, 1, 1], False),
        ("*", [3, 3, 2], True),
    ):
        done = triage("site", "--track", pattern, "--format", "json")
        written = json.loads(done.stdout)
        assert [written[key] for key in ("nights", "cases", "failures")] == counts
        assert ("4 s -&gt; 8 s, slower" in index.read_text()) is times
        assert ("vulkan: " in index.read_text()) is times
    [slow] = [
        page
        for page in (workplace / "public" / "cases").iterdir()
        if "slow" in page.read_text()
    ]
    assert f"cases/{slow.name}" in index.read_text()
    assert triage("site", "--track", "tpu").returncode == 2
    assert not [*home.glob("nights*")]
