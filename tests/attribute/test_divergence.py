"""Aligned runs: the pass after which they diverge."""

from __future__ import annotations

import pytest

from triage.attribute.align import Divergence, FunctionState, find_divergence
from triage.mlir.fingerprint import Fingerprint
from triage.mlir.ir_reader import PassName


def run(text: str) -> list[FunctionState]:
    """`Fuse:1 Tile:2`: passes and a number for the state after each; `!` marks the pass that failed."""
    states = []
    for index, word in enumerate(text.split()):
        name, _, left = word.partition(":")
        failed = left.endswith("!")
        states.append(FunctionState(PassName(f"{name}Pass"), Fingerprint(int(left.rstrip("!"))), index, 1, failed))
    return states


def diverge(good: str, bad: str, ended_early: tuple[bool, bool] = (False, False)) -> Divergence | None:
    return find_divergence(run(good), run(bad), {"Melt": "Fuse"}, ended_early=ended_early)


def names(found: Divergence | None) -> tuple[str | None, str | None]:
    if found is None:
        return None, None
    return found.persistent.pass_name, found.first.pass_name if found.first else None


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        pytest.param("A:1 B:2 C:3", "A:1 B:9 C:8", ("BPass", None), id="the first that persists"),
        pytest.param("A:1 B:2 C:3 D:4", "A:1 B:9 C:3 D:7", ("DPass", "BPass"), id="one that is undone is the first"),
        pytest.param("A:1 C:3", "A:1 New:8 C:7", ("NewPass", None), id="a pass of the bad side only"),
        pytest.param("A:1 Old:2 C:3", "A:1 C:7", ("OldPass", None), id="a pass of the good side only"),
        pytest.param("A:1 Moved:2 B:3", "A:1 B:1 Moved:3", (None, None), id="a moved pass"),
        pytest.param("A:1 B:2 C:3", "A:1 B:2", ("CPass", None), id="passes after the end of the other side"),
    ],
)
def test_the_pass_after_which_runs_diverge(good: str, bad: str, expected: tuple[str | None, str | None]) -> None:
    assert names(diverge(good, bad)) == expected


def test_what_follows_an_early_end_is_ignored() -> None:
    assert diverge("A:1 B:2 C:3", "A:1 B:7!", (False, True)) is None
    assert diverge("A:1 B:2 C:3", "A:1 B:2", (False, True)) is None
    assert diverge("A:1 B:2", "A:1 B:2 C:3", (True, False)) is None
