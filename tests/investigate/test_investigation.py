"""From a night's new failures to culprits, reproducers and issue drafts; the compilers
are small programs.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
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
from tests.nightly.test_nightly_stopped import continued, stop_when

NIGHTLY = (
    "triage",
    "nightly",
    "cases",
    "-t",
    "latest",
    "-b",
    "1.1.0",
    "--jobs",
    "2",
    "--investigate",
    "--out",
    "out",
)
CASES = {
    "steady": (),
    "breaks": ("breaks-3",),
    "alike": ("breaks-3",),
    "later": ("breaks-4",),
    "fixed": ("breaks-0", "fixed-3"),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    with fake_releases(tmp_path_factory.mktemp("releases"), count=6) as made:
        yield made


@pytest.fixture
def releases(served: FakeReleases, tmp_path: Path) -> FakeReleases:
    served.log.unlink(missing_ok=True)
    for name, words in CASES.items():
        write_case(tmp_path / "cases", name, *words)
    return served


def run(
    folder: Path, releases: FakeReleases, *words: str
) -> subprocess.CompletedProcess[str]:
    env = environment(releases, folder / "home")
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def compiled(releases: FakeReleases) -> set[tuple[str, str]]:
    """Return what was compiled; a pair is confirmed anew in each run."""
    return set(releases.events("start"))


def report(folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((folder / "out" / "nightly.json").read_text())
    return answer


def left_steps(night: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        step["step"]: step
        for cluster in night["clusters"]
        for step in cluster["steps"]
        if step["status"] == "left"
    }


def culprits(night: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The revisions around the culprit of each case."""
    pairs = {}
    for cluster in night["clusters"]:
        for name in cluster["cases"]:
            pairs[name] = (
                cluster["culprit"]["before"]["name"],
                cluster["culprit"]["after"]["name"],
            )
    return pairs


@pytest.mark.slow
def test_each_cluster_ends_with_culprit_reproducer_and_issue(
    releases: FakeReleases, tmp_path: Path
) -> None:
    done = run(tmp_path, releases, *NIGHTLY)
    assert done.returncode == 1, done.stderr
    night = report(tmp_path)
    at, after = ("1.2.0", "1.3.0"), ("1.3.0", "1.4.0")
    assert culprits(night) == {"alike": at, "breaks": at, "later": after}
    first, second = night["clusters"]
    # the first that fails as fast
    assert [cluster["representative"] for cluster in (first, second)] == [
        "alike",
        "later",
    ]
    assert {tuple(sorted(cluster["cases"])) for cluster in (first, second)} == {
        ("alike", "breaks"),
        ("later",),
    }
    assert first["different"] == second["cases"]
    assert [cluster["confirmed"] for cluster in (first, second)] == [
        [name for name in cluster["cases"] if name != cluster["representative"]]
        for cluster in (first, second)
    ]
    assert second["id"] == f"{first['id']}.2"
    for cluster in night["clusters"]:
        steps = {step["step"]: step["status"] for step in cluster["steps"]}
        assert {steps[name] for name in ("bisect", "reduce")} == {"done"}
        # the compiler has no options that print IR
        assert steps["attribute"] == "failed"
        first_bad = cluster["culprit"]["after"]["name"]
        bad = [version for version in releases.versions if version >= first_bad]
        assert [
            name for name, state in cluster["replays"].items() if state == "reproduces"
        ] == bad
        issue = (tmp_path / "out" / cluster["issue"]).read_text()
        assert (
            tmp_path / "out" / cluster["reproducer"] / "input.mlir"
        ).read_text().strip() in issue
        assert first_bad in issue
    assert left_steps(night) == {}
    assert night["regressed"][0]["bisections"][0]["after"]["name"] == "1.3.0"


@pytest.mark.slow
def test_what_a_budget_leaves_is_listed_with_the_line_that_does_it(
    releases: FakeReleases, tmp_path: Path
) -> None:
    assert run(tmp_path, releases, *NIGHTLY, "--budget", "0.001s").returncode == 1
    night = report(tmp_path)
    left = left_steps(night)
    assert list(left) == [
        "bisect",
        "narrow",
        "confirm",
        "attribute",
        "remedy",
        "reduce",
    ]
    # what the two toolchains say is not lost
    culprit = night["clusters"][0]["culprit"]
    ends = (culprit["before"]["name"], culprit["after"]["name"])
    assert (*ends, culprit["confirmed"]) == ("1.1.0", "1.5.0", False)
    assert (
        "286720 bytes" in (tmp_path / "out" / night["clusters"][0]["issue"]).read_text()
    )
    assert (night["investigation"]["budget_seconds"], night["partial"]) == (
        0.001,
        False,
    )
    assert (
        run(
            tmp_path, releases, *shlex.split(night["investigation"]["command"])[:-2]
        ).returncode
        == 1
    )
    [first, _] = report(tmp_path)["clusters"]
    assert "last good: 1.2.0" in (tmp_path / "out" / first["issue"]).read_text()


@pytest.mark.slow
def test_a_second_run_continues_and_compiles_nothing_else(
    releases: FakeReleases, tmp_path: Path
) -> None:
    def is_reducing() -> bool:
        return (tmp_path / "out" / "nightly.json").is_file() and len(
            {digest for _, digest in releases.events("start")}
        ) > 5

    message = stop_when(tmp_path, releases, NIGHTLY, is_reducing, signal.SIGTERM)
    night = report(tmp_path)
    assert night["partial"]
    assert "investigation" in night["stopped"]
    assert night["clusters"][0]["culprit"]["after"]["name"] == "1.3.0"
    assert "reduce" in left_steps(night)
    done = continued(tmp_path, releases, message)
    assert done.returncode == 1, done.stderr
    assert not report(tmp_path)["partial"]
    assert culprits(report(tmp_path))["later"] == ("1.3.0", "1.4.0")
    known = compiled(releases)
    assert run(tmp_path, releases, *NIGHTLY).returncode == 1
    assert compiled(releases) == known


@pytest.mark.slow
def test_a_pair_of_releases_is_narrowed_by_nightlies(tmp_path: Path) -> None:
    write_case(tmp_path / "cases", "breaks", "breaks-4")
    write_case(tmp_path / "cases", "later", "breaks-5", "private")
    write_case(tmp_path / "cases", "changed", "breaks-0", "differs-3")
    with fake_releases(
        tmp_path / "releases", count=2, nightlies=5, then_released=True
    ) as releases:
        write_project(tmp_path, releases)
        done = run(tmp_path, releases, *NIGHTLY)
        assert done.returncode == 1, done.stderr
        days = {
            name: tuple(end[-2:] for end in ends)
            for name, ends in culprits(report(tmp_path)).items()
        }
        assert days == {
            "breaks": ("02", "03"),
            "later": ("03", "04"),
            "changed": ("01", "02"),
        }
        for cluster in report(tmp_path)["clusters"]:
            steps = {step["step"]: step["status"] for step in cluster["steps"]}
            assert {steps[name] for name in ("bisect", "narrow", "reduce")} == {"done"}
            releases_around = cluster["release_culprit"]
            assert [releases_around[side]["name"] for side in ("before", "after")] == [
                "1.1.0",
                "1.2.0",
            ]
            assert "between 1.1.0" in (tmp_path / "out" / cluster["issue"]).read_text()
        known = compiled(releases)
        assert run(tmp_path, releases, *NIGHTLY).returncode == 1
        assert compiled(releases) == known
