from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from triage.toolchains.sources import Prices


def test_the_default_stands_until_there_is_better(prices: Prices) -> None:
    assert prices.seconds("x", 7) == 7
    prices.learn("x", 3)
    assert prices.seconds("x", 7) == 3
    assert prices.seconds("y", 7) == 7


def test_one_slow_one_changes_little_and_old_ones_are_forgotten(prices: Prices) -> None:
    for seconds in (2, 2, 900, 2, 2):
        prices.learn("x", seconds)
    assert prices.seconds("x", 7) == 2
    for _ in range(20):
        prices.learn("x", 5)
    assert prices.seconds("x", 7) == 5


def test_failures_are_not_learnt(prices: Prices) -> None:
    with pytest.raises(ValueError, match="no"), prices.timing("x"):
        raise ValueError("no")
    assert prices.seconds("x", 7) == 7
    with prices.timing("x"):
        pass
    assert prices.seconds("x", 7) < 1


@pytest.mark.parametrize("text", ["", "[]", '{"x": "soon"}', '{"x": [null]}', "\0"])
def test_a_damaged_note_is_no_matter(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    prices = Prices(tmp_path / "p.json")
    assert prices.seconds("x", 7) == 7
    prices.learn("x", 3)
    assert prices.seconds("x", 7) == 3


def test_many_threads_lose_nothing(prices: Prices) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: prices.learn(f"k{number}", number), range(24)))
    assert [prices.seconds(f"k{number}", -1) for number in range(24)] == list(range(24))
