"""From a night's new failures to culprits, reproducers and issue drafts; the compilers
are small programs.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_releases import (
    FakeReleases,
    environment,
    fake_releases,
    write_case,
    write_project,
)
from tests.nightly.test_nightly_stopped import started

NIGHTLY = "triage nightly cases -t latest -b 1.1.0 --jobs 2 --investigate --out out"
CASES = {
    "steady": (),
    "breaks": ("breaks-3",),
    "alike": ("breaks-3",),
    "later": ("breaks-4",),
    "fixed": ("breaks-0", "fixed-3"),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    folder = tmp_path_factory.mktemp("releases")
    with fake_releases(folder, count=6, paced=True) as made:
        yield made


@pytest.fixture
def releases(served: FakeReleases, tmp_path: Path) -> FakeReleases:
    served.log.unlink(missing_ok=True)
    for name, words in CASES.items():
        write_case(tmp_path / "cases", name, *words)
    return served


def night_of(folder: Path, releases: FakeReleases, line: str) -> dict[str, Any]:
    """Run a nightly, in which cases fail, and return its report."""
    env = environment(releases, folder / "home")
    words = shlex.split(line)
    done = subprocess.run(words, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1, done.stderr
    return report(folder)


def report(folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((folder / "out" / "nightly.json").read_text())
    return answer


def issue_of(folder: Path, cluster: dict[str, Any]) -> str:
    return (folder / "out" / cluster["issue"]).read_text()


def names(change: dict[str, Any]) -> tuple[str, str]:
    return change["before"]["name"], change["after"]["name"]


def culprits(night: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The revisions around the culprit of each case."""
    return {
        name: names(cluster["culprit"])
        for cluster in night["clusters"]
        for name in cluster["cases"]
    }


def statuses(cluster: dict[str, Any]) -> dict[str, str]:
    return {step["step"]: step["status"] for step in cluster["steps"]}


@pytest.mark.slow
def test_each_cluster_ends_with_culprit_reproducer_and_issue(
    releases: FakeReleases, tmp_path: Path
) -> None:
    night = night_of(tmp_path, releases, NIGHTLY)
    at, after = ("1.2.0", "1.3.0"), ("1.3.0", "1.4.0")
    assert culprits(night) == {"alike": at, "breaks": at, "later": after}
    first, second = night["clusters"]
    # the first that fails as fast
    assert (first["representative"], second["representative"]) == ("alike", "later")
    assert sorted(first["cases"]) == ["alike", "breaks"]
    assert first["confirmed"] == ["breaks"]
    assert first["different"] == second["cases"] == ["later"]
    assert second["id"] == f"{first['id']}.2"
    for cluster in night["clusters"]:
        steps = statuses(cluster)
        # the compiler has no options that print IR
        assert (steps["bisect"], steps["attribute"]) == ("done", "failed")
        assert steps["reduce"] == "done"
        first_bad = cluster["culprit"]["after"]["name"]
        replays = cluster["replays"]
        bad = [version for version in releases.versions if version >= first_bad]
        assert [name for name in replays if replays[name] == "reproduces"] == bad
        program = tmp_path / "out" / cluster["reproducer"] / "input.mlir"
        issue = issue_of(tmp_path, cluster)
        assert program.read_text().strip() in issue
        assert first_bad in issue
        assert "left" not in steps.values()
    assert night["regressed"][0]["bisections"][0]["after"]["name"] == "1.3.0"


@pytest.mark.slow
def test_what_a_budget_leaves_is_listed_with_the_line_that_does_it(
    releases: FakeReleases, tmp_path: Path
) -> None:
    night = night_of(tmp_path, releases, f"{NIGHTLY} --budget 0.001s")
    cluster = night["clusters"][0]
    names_of_steps = ["bisect", "narrow", "confirm", "attribute", "remedy", "reduce"]
    assert statuses(cluster) == dict.fromkeys(names_of_steps, "left")
    # what the two toolchains say is not lost
    assert names(cluster["culprit"]) == ("1.1.0", "1.5.0")
    assert not cluster["culprit"]["confirmed"]
    assert "286720 bytes" in issue_of(tmp_path, cluster)
    assert night["investigation"]["budget_seconds"] == 0.001
    assert not night["partial"]
    line = night["investigation"]["command"].partition(" --budget")[0]
    [first, _] = night_of(tmp_path, releases, line)["clusters"]
    assert "last good: 1.2.0" in issue_of(tmp_path, first)


@pytest.mark.slow
def test_a_second_run_continues_and_compiles_nothing_else(
    releases: FakeReleases, tmp_path: Path
) -> None:
    def is_reducing() -> bool:
        programs = {digest for _, digest in releases.events("start")}
        return (tmp_path / "out" / "nightly.json").is_file() and len(programs) > 5

    running = started(tmp_path, releases, f"exec {NIGHTLY}")
    while not is_reducing():
        assert running.poll() is None, running.communicate()
        time.sleep(0.005)
    running.send_signal(signal.SIGTERM)
    _, message = running.communicate(timeout=60)
    assert running.returncode == 130, message
    night = report(tmp_path)
    assert night["partial"]
    assert night["stopped"] == "interrupted"
    assert night["clusters"][0]["culprit"]["after"]["name"] == "1.3.0"
    assert "left" in [statuses(cluster)["reduce"] for cluster in night["clusters"]]
    [line] = [line for line in message.splitlines() if line.startswith("  triage ")]
    night = night_of(tmp_path, releases, line)
    assert not night["partial"]
    assert culprits(night)["later"] == ("1.3.0", "1.4.0")
    known = set(releases.events("start"))
    night_of(tmp_path, releases, NIGHTLY)
    assert set(releases.events("start")) == known  # a pair is confirmed anew


@pytest.mark.slow
def test_a_pair_of_releases_is_narrowed_by_nightlies(tmp_path: Path) -> None:
    write_case(tmp_path / "cases", "breaks", "breaks-4")
    write_case(tmp_path / "cases", "later", "breaks-5", "private")
    write_case(tmp_path / "cases", "changed", "breaks-0", "differs-3")
    with fake_releases(
        tmp_path / "releases", count=2, nightlies=5, then_released=True
    ) as releases:
        write_project(tmp_path, releases)
        night = night_of(tmp_path, releases, NIGHTLY)
        days = {
            name: tuple(end[-2:] for end in ends)
            for name, ends in culprits(night).items()
        }
        assert days == {
            "breaks": ("02", "03"),
            "later": ("03", "04"),
            "changed": ("01", "02"),
        }
        for cluster in night["clusters"]:
            steps = statuses(cluster)
            assert {steps[name] for name in ("bisect", "narrow", "reduce")} == {"done"}
            assert names(cluster["release_culprit"]) == ("1.1.0", "1.2.0")
            assert "between 1.1.0" in issue_of(tmp_path, cluster)
        known = set(releases.events("start"))
        night_of(tmp_path, releases, NIGHTLY)
        assert set(releases.events("start")) == known
