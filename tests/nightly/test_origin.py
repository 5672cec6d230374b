"""Regressions between nightlies and local builds are bisected by version, and a night
says what it can bisect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.fake_releases import (
    FakeReleases,
    environment,
    fake_releases,
    install,
    write_case,
    write_project,
)
from triage.cli.app import app

LAST, FIRST_NIGHTLY, LAST_NIGHTLY = "1.1.0", "1.2.0rc20260101", "1.2.0rc20260104"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    with fake_releases(
        tmp_path_factory.mktemp("releases"), count=2, nightlies=4
    ) as made:
        yield made


@pytest.fixture
def releases(
    served: FakeReleases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> FakeReleases:
    for name, value in environment(served, tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    write_project(tmp_path, served)
    monkeypatch.chdir(tmp_path)
    # with the nightly of the third
    write_case(tmp_path / "cases", "breaks", "breaks-4")
    return served


def answer(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*words, "--jobs", "2", "--format", "json"])
    assert result.exit_code in (0, 1), result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def origin(night: dict[str, Any]) -> tuple[str, str]:
    [case] = night["regressed"]
    return case["bisections"][0]["before"]["name"], case["bisections"][0]["after"][
        "name"
    ]


def test_a_local_build_is_placed_by_the_version_that_it_reports(
    releases: FakeReleases, tmp_path: Path
) -> None:
    build = install(tmp_path / "built", 5, LAST_NIGHTLY)
    night = answer("nightly", "cases", "-t", f"path:{build}", "-b", "1.0.0", "--bisect")
    assert origin(night) == ("1.2.0rc20260102", "1.2.0rc20260103")
