from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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


def test_failures_are_not_recorded(costs: CostModel) -> None:
    with pytest.raises(ValueError, match="no"), costs.timing("x"):
        raise ValueError("no")
    assert costs.seconds("x", 7) == 7
    with costs.timing("x"):
        pass
    assert costs.seconds("x", 7) < 1


def test_threads_lose_no_timings(costs: CostModel) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: costs.learn("x", number), range(15)))
        list(pool.map(lambda number: costs.learn(f"k{number}", number), range(24)))
    assert costs.seconds("x", -1) == 7
    assert [costs.seconds(f"k{number}", -1) for number in range(24)] == list(range(24))


def test_a_store_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    costs = Workspace(tmp_path / "home").costs
    costs.learn("x", 3)
    assert costs.seconds("x", 7) == 7
