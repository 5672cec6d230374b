from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.conftest import Triage
from tests.fake_releases import environment, fake_releases

Command = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def with_releases(tmp_path: Path, triage: Triage) -> Iterator[Command]:
    """Runs a command where IREE has releases 1.0.0 to 1.4.0."""
    with fake_releases(tmp_path / "releases", count=5, logged=False) as releases:
        yield partial(triage, env=environment(releases, tmp_path / "home"))


@pytest.fixture
def night(tmp_path: Path, with_releases: Command) -> Callable[..., Any]:
    """Runs a nightly of the recipes in `cases` with two of these releases and writes
    its reports to `out`.
    """

    def run(new: int, old: int, *words: str) -> CompletedProcess[str]:
        ends = ("-t", f"1.{new}.0", "-b", f"1.{old}.0", "--out", tmp_path / "out")
        return with_releases("nightly", tmp_path / "cases", *ends, *words)

    return run
