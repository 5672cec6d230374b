"""A number that nobody needs is refused, or costs no more than another one."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.fake_releases import recipe

LARGE = str(10**30)


@pytest.fixture
def little_memory() -> Iterator[None]:
    _, hard = limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.usefixtures("home", "in_time", "little_memory")
@pytest.mark.parametrize(
    "line",
    [
        f"run case.yaml --jobs {LARGE}",
        "reduce case.yaml -t path:. --jobs 1000000",
        f"nightly case.yaml --jobs {LARGE}",
        f"nightly case.yaml --shard 1/{'9' * 5000}",
        "bisect case.yaml --metric spills --above nan",
        f"bench case.yaml -t path:. --time {'9' * 5000}",
        f"toolchains prune --keep {LARGE}GiB",
    ],
)
def test_an_absurd_number_is_refused_at_once(
    triage: Triage, workplace: Path, line: str
) -> None:
    recipe(workplace, "case", "fine")
    done = triage(*line.split())
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
