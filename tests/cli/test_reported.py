"""Answers name the releases that were tried, and look for the failure that is reported."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.cli.conftest import Asked
from tests.conftest import Triage
from tests.fake_releases import FakeReleases, recipe
from triage.cli.app import app

RELEASES = 8
VERSIONS = [f"1.{minor}.0" for minor in range(RELEASES)]
OVERFLOW = "error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes"
REPORTED = f"IREE 1.3.0:\n```\n{OVERFLOW}\n```\n"


@pytest.fixture(scope="module")
def every_release(
    releases: FakeReleases, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A home in which all releases are installed."""
    home = tmp_path_factory.mktemp("every")
    call(releases, home, "toolchains", "install", "all")
    return home


def call(releases: FakeReleases, home: Path, *words: str) -> Any:
    """Run a command with a home, and return its JSON."""
    env = {"TRIAGE_INDEX_URL": releases.url, "TRIAGE_HOME": str(home)}
    return json.loads(
        CliRunner().invoke(app, [*words, "--format", "json"], env=env).stdout
    )


def fill(home: Path, every: Path, releases: FakeReleases, versions: list[str]) -> None:
    """Install some releases into a home of its own."""
    toolchains = home / "toolchains"
    toolchains.mkdir(parents=True)
    for path in (every / "toolchains").iterdir():
        if any(f"-{version}-" in path.name for version in versions):
            (toolchains / path.name).symlink_to(path)
    releases.log.unlink(missing_ok=True)


@pytest.fixture
def installed(
    home: Path, every_release: Path, releases: FakeReleases, released: None
) -> Callable[..., None]:
    """Installs some releases."""
    return lambda *versions: fill(home, every_release, releases, list(versions))


def outcomes(answer: Any) -> dict[str, str]:
    """The outcome on each release, as the ranges of an answer name it."""
    named = {}
    for known in answer["releases"]:
        first, last = (VERSIONS.index(known[end]["name"]) for end in ("first", "last"))
        for version in VERSIONS[first : last + 1]:
            assert version not in named
            named[version] = known["outcome"]
    return named


def positions(change: Any) -> list[int]:
    return [VERSIONS.index(change[end]["name"]) for end in ("before", "after")]


def after(change: Any) -> str:
    """The first revision of the new state."""
    return str(change["after"]["name"])


def issue(folder: Path, words: str, program: str, name: str = "issue.md") -> Path:
    path = folder / name
    path.write_text(
        f"{words}\n\n```mlir\nfunc.func @f() {{ // {program}\n  return\n}}\n```\n"
    )
    return path


@settings(max_examples=4)
@given(
    st.sets(st.sampled_from(VERSIONS), min_size=1),
    st.integers(0, RELEASES),
    st.integers(0, RELEASES),
    st.sampled_from([None, "0.05s", "0.4s", "1s", "2s"]),
)
def test_only_what_was_compiled_is_named_and_it_is_true(
    every_release: Path,
    releases: FakeReleases,
    tmp_path_factory: pytest.TempPathFactory,
    present: set[str],
    broken: int,
    length: int,
    budget: str | None,
) -> None:
    """For any installed releases, window of failures and budget."""
    folder = tmp_path_factory.mktemp("any")
    fill(folder / "home", every_release, releases, sorted(present))
    path = recipe(folder, "window", f"breaks-{broken} fixed-{broken + length} {folder}")
    words = ["--budget", budget] if budget else []
    answer = call(releases, folder / "home", "why", str(path), *words)
    ended = outcomes(answer)
    for version, outcome in ended.items():
        fails = broken <= VERSIONS.index(version) < broken + length
        assert outcome in ("not tried", "failed" if fails else "passed")
    tried = {version for version, outcome in ended.items() if outcome != "not tried"}
    compiled = {version for version, _ in releases.events("end")}
    assert tried <= compiled
    # those that were compiling when the time was over
    stopped = (os.cpu_count() or 1) if answer["left"] else 0
    assert len(compiled - tried) <= stopped
    bisection = answer["bisection"]
    if bisection and bisection["status"] != "inconclusive":
        first, last = positions(bisection)
        change = broken if bisection["kind"] == "regression" else broken + length
        assert first < change <= last
        if bisection["fixed"]:
            first, last = positions(bisection["fixed"])
            assert first < broken + length <= last


def test_what_a_recipe_expects_decides_what_is_tried(
    asked: Asked, tmp_path: Path, installed: Callable[..., None]
) -> None:
    installed("1.0.0", "1.7.0")
    expect = (
        'expect: [{failure: shared-memory-overflow, since: "1.2.0", until: "1.5.0"}]'
    )
    found = asked("why", recipe(tmp_path, "window", "breaks-2 fixed-5", expect), code=1)
    assert (found["status"], found["fails_on"]["name"]) == ("fixed", "1.4.0")
    assert after(found["bisection"]) == "1.2.0"
    assert after(found["bisection"]["fixed"]) == "1.5.0"
    unseen = asked("why", recipe(tmp_path, "fine", "fine", expect), code=3)
    assert (unseen["status"], unseen["unseen"]) == (
        "inconclusive",
        "shared-memory-overflow",
    )
    # an older toolchain that was asked for need not have it
    path = recipe(tmp_path, "fine", "fine", expect)
    assert asked("why", path, "-t", "1.7.0", code=0)["status"] == "passes"


def test_another_failure_is_never_taken_for_the_reported_one(
    triage: Triage, asked: Asked, tmp_path: Path, installed: Callable[..., None]
) -> None:
    installed("1.0.0", "1.7.0")
    found = asked("why", issue(tmp_path, REPORTED, "differs-3"), code=3)
    assert (found["status"], found["failure"], found["bisection"]) == (
        "inconclusive",
        None,
        None,
    )
    path = tmp_path / "issue.md"
    shown = triage("why", path).stdout
    assert "the reported shared-memory-overflow was not seen" in shown
    assert "fails otherwise on 1.7.0" in shown
    # where both are seen, the reported one is explained
    both = asked(
        "why",
        issue(tmp_path, REPORTED, "breaks-4 fixed-5 differs-6", "both.md"),
        code=1,
    )
    assert both["failure"]["class"] == "shared-memory-overflow"
    other = triage("why", path, "-t", "1.7.0")
    assert other.returncode == 1
    assert "shared-memory-overflow, which is another failure" in other.stdout
