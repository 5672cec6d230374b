"""A local build is bisected among nightlies, by the version that it reports."""

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


def test_a_local_build_is_placed_by_the_version_that_it_reports(
    tmp_path: Path, workplace: Path, triage: Triage
) -> None:
    # with the nightly of the third
    write_case(workplace / "cases", "breaks", "breaks-4")
    build = install(tmp_path / "built", 5, "1.2.0rc20260104")
    ends = ("-t", f"path:{build}", "-b", "1.0.0")
    with fake_releases(tmp_path / "releases", count=2, nightlies=4) as releases:
        write_project(workplace, releases)
        served = environment(releases, tmp_path / "home")
        words = ("nightly", "cases", *ends, "--bisect", "--format", "json")
        night = json.loads(triage(*words, env=served).stdout)
    [case] = night["regressed"]
    [bisection] = case["bisections"]
    names = [bisection[end]["name"] for end in ("before", "after")]
    assert names == ["1.2.0rc20260102", "1.2.0rc20260103"]
