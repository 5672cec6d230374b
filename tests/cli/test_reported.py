"""Answers name the releases that were tried, and look for the failure that is reported."""

from __future__ import annotations

import json
import os
import shlex
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


@settings(max_examples=6)
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


def test_the_same_command_continues_after_a_spent_budget(
    triage: Triage, asked: Asked, tmp_path: Path, installed: Callable[..., None]
) -> None:
    installed(*VERSIONS)
    path = recipe(tmp_path, "window", "breaks-2 fixed-5")
    words = ("why", path, "--budget", "0.05s", "--format", "json")
    spent = json.loads(triage(*words).stdout)
    assert spent["left"]
    assert spent["next"][0] == f"triage why {path} --budget 10m"
    found = asked("why", *shlex.split(spent["next"][0])[2:], code=1)
    assert not [step for step in found["left"] if step["status"] == "left"]
    assert found["bisection"]["confirmed"]
    assert after(found["bisection"]) == "1.2.0"
    assert after(found["bisection"]["fixed"]) == "1.5.0"


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


def test_the_release_that_a_text_names_and_its_neighbours_are_tried(
    asked: Asked, tmp_path: Path, installed: Callable[..., None]
) -> None:
    installed("1.0.0", "1.7.0")
    path = issue(tmp_path, REPORTED, "breaks-2 fixed-3")
    found = asked("why", path, code=1)
    assert found["failure"]["class"] == "shared-memory-overflow"
    assert after(found["bisection"]) == "1.2.0"


def test_a_reported_failure_that_was_not_seen_is_said(
    triage: Triage, asked: Asked, tmp_path: Path, installed: Callable[..., None]
) -> None:
    installed("1.0.0", "1.7.0")
    path, unseen = issue(tmp_path, REPORTED, "fine"), "shared-memory-overflow"
    found = asked("why", path, code=3)
    assert (found["status"], found["unseen"]) == ("inconclusive", unseen)
    assert found["next"] == [f"triage history {path}"]
    tried = {version for version, one in outcomes(found).items() if one == "passed"}
    assert {"1.2.0", "1.3.0", "1.4.0", "1.7.0"} <= tried
    shown = " ".join(triage("why", path).stdout.split())
    assert f"the reported {unseen} was not seen" in shown
    assert "not tried on 1.5.0 to 1.6.0" in shown
    # what was asked for is all that is tried
    one = asked("why", path, "-t", "1.7.0", code=3)
    assert (one["unseen"], one["releases"]) == (unseen, [])


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


def test_an_error_for_which_nothing_can_be_tested_may_be_the_reported_one(
    triage: Triage, asked: Asked, tmp_path: Path, installed: Callable[..., None]
) -> None:
    """The text calls it an error of the verifier; while it is read, it is a mistake."""
    installed(*VERSIONS)
    text = issue(tmp_path, "With IREE 1.5.0:", "unreadable-4")
    answer = asked("why", text, code=3)
    reason = answer["reason"]
    text.write_text(f"```\nm.mlir:1:1: error: {reason}\n```\n{text.read_text()}")
    answer = asked("why", text, code=3)
    assert (answer["toolchain"]["name"], answer["unseen"]) == ("1.5.0", None)
    shown = triage("why", text).stdout
    assert "1.5.0 cannot read this program; 1.3.0" in shown
