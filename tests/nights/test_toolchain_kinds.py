"""The kind of a toolchain decides which nights are compared. A nightly has a name that
reads like a pre-release.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Triage
from tests.fake_releases import (
    environment,
    fake_releases,
    install,
    write_case,
    write_project,
)


def test_a_night_is_of_the_kind_of_toolchain_that_was_named(
    tmp_path: Path, triage: Triage, workplace: Path
) -> None:
    write_case(tmp_path / "cases", "steady", "breaks-2", "fixed-3")
    build = install(tmp_path / "build", 5)
    revs = (
        "nightly:2026-01-01",
        "1.2.0rc20260102",  # by its version
        "1.1.0",  # a release that is older than the nightlies
        "1.2.0rc20260102",  # as it is installed now
        f"path:{build}",
    )
    with fake_releases(
        tmp_path / "releases", count=2, nightlies=2, logged=False
    ) as releases:
        write_project(workplace, releases)
        env = environment(releases, tmp_path / "home")
        for rev in revs:
            words = ("nightly", tmp_path / "cases", "-t", rev, "-b", "1.0.0")
            done = triage(*words, "--out", tmp_path / "out", env=env)
            assert done.returncode in (0, 1), done.stderr
    nights = json.loads(triage("nights", "list", "--format", "json", env=env).stdout)
    assert [one["toolchain"]["name"] for one in nights["nights"]] == [
        "1.2.0rc20260101",
        "1.2.0rc20260102",
        "1.1.0",
        "1.2.0rc20260102",
        f"path:{build}",
    ]
    case = json.loads(triage("show", "steady", "--format", "json", env=env).stdout)
    assert {
        state["track"].rpartition(" ")[2]: (state["status"], state["toolchain"]["name"])
        for state in case["now"]
    } == {
        "nightly": ("passed", "1.2.0rc20260102"),
        "release": ("passed", "1.1.0"),
        "folder": ("passed", f"path:{build}"),
    }
    assert [(run["track"].split()[-1], run["nights"]) for run in case["runs"]] == [
        ("nightly", 2),
        ("nightly", 1),
        ("release", 1),
        ("folder", 1),
    ]
