"""Searches over a fake compiler: their JSON, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Asked, Triage
from tests.fake_releases import (
    command_recipe,
    fake_releases,
    install,
    recipe,
    repository,
)
from tests.guards import golden


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """An index with 6 releases, and a home that the tests share, so that each is
    installed once.
    """
    with fake_releases(tmp_path_factory.mktemp("index"), 6, logged=False) as served:
        yield served.url, tmp_path_factory.mktemp("home")


@pytest.fixture
def with_releases(index: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_INDEX_URL", index[0])
    monkeypatch.setenv("TRIAGE_HOME", str(index[1]))


@pytest.fixture
def built(tmp_path: Path) -> Path:
    return install(tmp_path / "built", 5)


def test_run(asked: Asked, home: Path, tmp_path: Path, built: Path) -> None:
    good, bad = recipe(tmp_path, "good", "fine"), recipe(tmp_path, "bad", "breaks-3")
    known = recipe(
        tmp_path, "known", "breaks-3", "expect: [{failure: shared-memory-overflow}]"
    )
    gone = recipe(
        tmp_path, "gone", "fine", "expect: [{failure: shared-memory-overflow}]"
    )
    seen = asked("run", good, bad, known, gone, "-t", f"path:{built}", code=1)
    golden.check("run-fake", seen, "run", tmp_path)
    again = asked("run", good, bad, "-t", f"path:{built}", code=1)
    assert all(result["cached"] for result in again["results"])


@pytest.mark.parametrize(
    ("name", "program", "words", "code"),
    [
        ("regression", "breaks-3", ("--good", "1.0.0", "--bad", "1.5.0"), 0),
        ("fix", "breaks-0 fixed-4", ("--find", "fix"), 0),
        ("changed", "breaks-2 differs-4", (), 0),
        ("gone", "breaks-2 fixed-4", (), 0),
        ("never", "fine", ("--good", "1.0.0", "--bad", "1.5.0"), 3),
    ],
)
def test_bisect_releases(
    asked: Asked,
    with_releases: None,
    tmp_path: Path,
    name: str,
    program: str,
    words: tuple[str, ...],
    code: int,
) -> None:
    seen = asked("bisect", recipe(tmp_path, name, program), *words, code=code)
    shape = f"bisect-{name}" if name in ("changed", "gone") else "bisect"
    golden.check(f"bisect-{name}", seen, shape, tmp_path)


@pytest.mark.parametrize(
    ("name", "program", "code"),
    [("commits", "breaks-7", 0), ("commits-changed", "breaks-3 differs-9", 0)],
)
def test_bisect_commits(
    asked: Asked, home: Path, tmp_path: Path, name: str, program: str, code: int
) -> None:
    repo, project = tmp_path / "repo", tmp_path / "work" / "triage.yaml"
    project.write_text(repository(repo, 16, install(tmp_path / "base", 0)))
    words = (
        "--repo",
        repo,
        "--good",
        "commit:main~15",
        "--bad",
        "commit:main",
    )
    seen = asked("bisect", recipe(tmp_path, name, program), *words, code=code)
    golden.check(f"bisect-{name}", seen, "bisect-changed", tmp_path)


def test_history(asked: Asked, with_releases: None, tmp_path: Path) -> None:
    programs = {
        "breaks": "breaks-3",
        "window": "breaks-2 fixed-4",
        "changes": "breaks-1 differs-4",
        "fine": "fine",
    }
    paths = [recipe(tmp_path, name, program) for name, program in programs.items()]
    # what is known of every release counts, so that no window is missed
    releases = [word for minor in range(6) for word in ("-t", f"1.{minor}.0")]
    asked("run", *paths, *releases, code=1)
    golden.check(
        "history-fake",
        asked("history", *paths),
        "history",
        tmp_path,
    )


def test_nightly(asked: Asked, with_releases: None, tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    for name, program in {
        "broke": "breaks-3",
        "too": "breaks-4",
        "fixed": "breaks-0 fixed-4",
        "same": "fine",
    }.items():
        recipe(folder, name, program)
    recipe(folder, "still", "breaks-1")
    recipe(folder, "differs", "breaks-1 differs-5")
    recipe(folder, "known", "breaks-0", "expect: [{failure: shared-memory-overflow}]")
    words = (
        "nightly",
        folder,
        "-t",
        "1.5.0",
        "-b",
        "1.2.0",
        "--bisect",
        "--out",
        tmp_path / "out",
    )
    seen = asked(*words, code=1)
    golden.check("nightly-fake", seen, "nightly", tmp_path)
    stored = json.loads((tmp_path / "out/nightly.json").read_text())
    golden.check("nightly-fake", stored, "nightly", tmp_path)
    assert {"nightly.md", "nightly.xml", "nightly.json"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }


def test_reduce(asked: Asked, home: Path, tmp_path: Path, built: Path) -> None:
    lines = "\n".join(f"line {number}" for number in range(40))
    words = (
        command_recipe(tmp_path, "long", f"{lines}\nbreaks-3\n{lines}"),
        "-t",
        f"path:{built}",
        "--out",
        tmp_path / "out",
    )
    seen = asked("reduce", *words)
    golden.check("reduce-fake", seen, "reduce", tmp_path)
    folder = Path(seen["reproducer"])
    assert {"recipe.yaml", "reproducer.json", "README.md", "repro.sh"} <= {
        path.name for path in folder.iterdir()
    }


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, ("run", "{good}", "-t", "path:{built}")),
        (1, ("run", "{bad}", "-t", "path:{built}")),
        (2, ("run", "{good}", "-t", "banana")),
        (2, ("run", "nothing.yaml")),
        (2, ("frobnicate",)),
        (3, ("run", "{flagged}", "-t", "path:{built}")),
        (4, ("run", "{good}", "-t", "path:/nowhere")),
    ],
)
def test_exit_codes(
    triage: Triage,
    home: Path,
    tmp_path: Path,
    built: Path,
    code: int,
    words: tuple[str, ...],
) -> None:
    good, bad = (
        command_recipe(tmp_path, "good", "fine"),
        recipe(tmp_path, "bad", "breaks-3"),
    )
    flagged = recipe(tmp_path, "flagged", "fine", "flags: [--iree-nothing-of-the-kind]")
    done = triage(
        *(
            word.format(good=good, bad=bad, flagged=flagged, built=built)
            for word in words
        )
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
