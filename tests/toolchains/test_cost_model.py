from __future__ import annotations

from pathlib import Path

import pytest

from triage.toolchains.workspace import CostModel, Workspace


@pytest.fixture
def costs(tmp_path: Path) -> CostModel:
    return Workspace(tmp_path / "home").costs


def test_the_default_is_used_until_there_are_timings(costs: CostModel) -> None:
    assert costs.seconds("x", 7) == 7
    costs.learn("x", 3)
    assert costs.seconds("x", 7) == 3
    assert costs.seconds("y", 7) == 7


def test_a_slow_outlier_changes_little_and_old_timings_are_dropped(costs: CostModel) -> None:
    for seconds in (2, 2, 900, 2, 2):
        costs.learn("x", seconds)
    assert costs.seconds("x", 7) == 2
    for _ in range(20):
        costs.learn("x", 5)
    assert costs.seconds("x", 7) == 5


def test_a_store_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    costs = Workspace(tmp_path / "home").costs
    costs.learn("x", 3)
    assert costs.seconds("x", 7) == 7
