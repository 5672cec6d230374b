"""What a reproducer says of other releases than the one that it was reduced on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.fake_releases import fake_releases, recipe

RELEASES = [f"1.{minor}.0" for minor in range(6)]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    with fake_releases(tmp_path_factory.mktemp("index"), 6, logged=False) as served:
        yield served.url, tmp_path_factory.mktemp("home")


@pytest.fixture
def with_releases(
    index: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, triage: Triage
) -> None:
    monkeypatch.setenv("TRIAGE_INDEX_URL", index[0])
    monkeypatch.setenv("TRIAGE_HOME", str(index[1]))
    triage("toolchains", "install", *RELEASES)


def reduced(triage: Triage, path: Path, *words: str) -> tuple[Any, str]:
    """Reduce a case; return the answer and the README of its reproducer."""
    out = path.parent / "out"
    done = triage("reduce", path, *words, "--out", out, "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer, Path(answer["reproducer"], "README.md").read_text()


@pytest.mark.parametrize(
    ("program", "bad", "program_left", "sentence"),
    [
        (
            "breaks-1\n// breaks-3",
            "1.4.0",
            "// breaks-3",
            "the original also fails on 1.2.0",
        ),
        (
            "breaks-1\n// fixed-4",
            "1.2.0",
            "// breaks-1",
            "the original passes on 1.5.0",
        ),
        (
            "differs-5\n// breaks-2",
            "1.3.0",
            "// breaks-2",
            "the original fails in another way on 1.5.0",
        ),
    ],
)
def test_where_the_original_ends_otherwise_is_said(
    triage: Triage,
    with_releases: None,
    tmp_path: Path,
    program: str,
    bad: str,
    program_left: str,
    sentence: str,
) -> None:
    answer, readme = reduced(triage, recipe(tmp_path, "case", program), "-t", bad)
    assert answer["program"].strip() == program_left
    assert sentence in answer["notes"]
    assert f"{sentence}." in readme


def test_what_is_known_of_the_original_is_compared_too(
    triage: Triage, with_releases: None, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "case", "breaks-0\n// breaks-3")
    triage("run", path, "-t", "1.0.0", "-t", "1.1.0")
    answer, _ = reduced(triage, path, "-t", "1.4.0")
    assert "the original also fails on 1.0.0, 1.1.0, 1.2.0" in answer["notes"]


def test_an_original_that_ends_alike_needs_no_note(
    triage: Triage, with_releases: None, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "case", "breaks-2\n// fine")
    answer, readme = reduced(triage, path, "-t", "1.4.0")
    assert not [note for note in answer["notes"] if "the original" in note]
    assert "the original" not in readme


def test_a_newer_good_release_is_named_after_the_bad_one(
    triage: Triage, with_releases: None, tmp_path: Path
) -> None:
    # what other tests know of the original would be compared too
    path = recipe(tmp_path, "case", "breaks-1\n// fixed-4 newer")
    answer, readme = reduced(triage, path, "-t", "1.2.0", "--good", "1.5.0")
    assert answer["lines"]["after"] == 2
    assert "Fails with IREE 1.2.0" in readme
    assert "compiles with 1.5.0" in readme
    assert "up to" not in readme
    assert "compare/1.5.0" not in readme


@pytest.mark.parametrize("steps", [("--reduce",), ("--bisect", "--reduce")])
def test_a_newer_baseline_of_a_night_is_named_after_its_toolchain(
    triage: Triage, with_releases: None, tmp_path: Path, steps: tuple[str, ...]
) -> None:
    path = recipe(tmp_path, "case", "breaks-1 fixed-4")
    words = ("-t", "1.2.0", "-b", "1.5.0", *steps, "--out", tmp_path / "out")
    done = triage("nightly", path, *words)
    assert done.returncode == 1, done.stderr
    [issue] = (tmp_path / "out").glob("**/issues/*.md")
    text = issue.read_text()
    assert "up to" not in text
    assert "compiles with 1.5.0" in text
