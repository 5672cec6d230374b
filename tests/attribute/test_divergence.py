"""Aligned runs: the pass after which they diverge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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


def test_equal_runs_do_not_diverge() -> None:
    assert diverge("A:1 B:2 C:3", "A:1 B:2 C:3") is None


def test_the_first_persistent_difference() -> None:
    assert names(diverge("A:1 B:2 C:3", "A:1 B:9 C:8")) == ("BPass", None)


def test_an_undone_difference_is_reported_as_first() -> None:
    assert names(diverge("A:1 B:2 C:3 D:4", "A:1 B:9 C:3 D:7")) == ("DPass", "BPass")


def test_a_pass_on_one_side_only() -> None:
    found = diverge("A:1 C:3", "A:1 New:8 C:7")
    assert names(found) == ("NewPass", None)
    assert found is not None
    assert found.persistent.good is None
    assert [state.fingerprint.digest if state else None for state in found.persistent.states_after] == [1, 8]
    gone = diverge("A:1 Old:2 C:3", "A:1 C:7")
    assert names(gone) == ("OldPass", None)
    assert gone is not None
    assert gone.persistent.bad is None


def test_a_moved_pass_is_no_divergence() -> None:
    assert diverge("A:1 Moved:2 B:3", "A:1 B:1 Moved:3") is None


def test_the_state_after_a_failed_pass_is_ignored() -> None:
    assert diverge("A:1 B:2 C:3", "A:1 B:7!", (False, True)) is None


def test_passes_after_the_other_side_ended_early_are_ignored() -> None:
    assert diverge("A:1 B:2 C:3", "A:1 B:2", (False, True)) is None
    assert names(diverge("A:1 B:2 C:3", "A:1 B:2")) == ("CPass", None)
    assert diverge("A:1 B:2", "A:1 B:2 C:3", (True, False)) is None


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.integers(0, 11),
    st.lists(st.integers(4, 9), min_size=12, max_size=12),
)
def test_a_planted_change_is_found(states: list[int], at: int, others: list[int]) -> None:
    at %= len(states)
    good = " ".join(f"P{number}:{10 * number + state}" for number, state in enumerate(states))
    bad = " ".join(
        f"P{number}:{10 * number + (others[number] if number >= at else state)}" for number, state in enumerate(states)
    )
    assert names(diverge(good, bad)) == (f"P{at}Pass", None)
