"""Bisects of a number between two commits, with a compiler that is really built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bisect.driving import CULPRIT, answered, is_culprit, words
from tests.bisect.small_compiler import SmallCompiler
from tests.conftest import Triage


@pytest.fixture
def heavy(tmp_path: Path, recipe: Path) -> Path:
    (tmp_path / "m.mlir").write_text("narrow heavy\n")
    return recipe


@pytest.mark.parametrize("spelling", ["commit:", pytest.param("", marks=pytest.mark.slow)])
def test_the_commit_that_made_the_artifact_grow(
    small: SmallCompiler,
    heavy: Path,
    command: Path,
    triage: Triage,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    spelling: str,
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    asked = [word.replace("commit:", spelling) for word in words(small, heavy, command, first=141, last=159)]
    found = answered(triage(*asked, "--metric", "artifact_bytes"))
    assert is_culprit(found, small, failure="metric")
    assert found["failure"]["signature"] == "metric:artifact_bytes"
    grown = 286720 // 16 + len("module\n")
    assert float(found["failure"]["details"]["value"]) == pytest.approx(grown, rel=1e-3)


def test_ends_of_the_same_size_are_refused(
    small: SmallCompiler, heavy: Path, command: Path, triage: Triage, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    asked = words(small, heavy, command, first=CULPRIT, last=CULPRIT + 8)
    swapped = [*asked, "--good", asked[asked.index("--bad") + 1], "--bad", asked[asked.index("--good") + 1]]
    done = triage(*swapped, "--metric", "artifact_bytes", "--find", "fix")
    assert done.returncode == 2, done.stdout
    assert "too little" in done.stderr


@pytest.mark.slow
def test_a_threshold_that_no_end_exceeds_is_inconclusive(
    small: SmallCompiler, heavy: Path, command: Path, triage: Triage, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_REPO", str(small.path))
    asked = words(small, heavy, command, first=141, last=159)
    done = triage(*asked, "--metric", "artifact_bytes", "--threshold", "1000000")
    assert done.returncode == 3, done.stdout


def test_a_threshold_needs_a_metric(heavy: Path, triage: Triage, home: Path) -> None:
    done = triage("bisect", heavy, "--good", "3.1.0", "--bad", "3.2.0", "--threshold", "3")
    assert done.returncode == 2
    assert "--metric" in done.stderr
