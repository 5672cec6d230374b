"""Two runs side by side: the pass after which they are never the same again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.attribute.align import Parting, parting
from triage.attribute.ir_reader import PassName
from triage.attribute.structure import Structure
from triage.attribute.trace import FunctionState


def run(text: str) -> list[FunctionState]:
    """`Fuse:1 Tile:2`: passes and what each left, told apart by a number; `!` marks the pass that failed."""
    states = []
    for index, word in enumerate(text.split()):
        name, _, left = word.partition(":")
        failed = left.endswith("!")
        states.append(FunctionState(PassName(f"{name}Pass"), Structure(int(left.rstrip("!"))), index, 1, failed))
    return states


def part(good: str, bad: str, broke_off: tuple[bool, bool] = (False, False)) -> Parting | None:
    return parting(run(good), run(bad), {"Melt": "Fuse"}, broke_off=broke_off)


def names(found: Parting | None) -> tuple[str | None, str | None]:
    if found is None:
        return None, None
    return found.lasting.pass_name, found.first.pass_name if found.first else None


def test_the_same_runs_do_not_part() -> None:
    assert part("A:1 B:2 C:3", "A:1 B:2 C:3") is None


def test_the_first_pass_that_lasts() -> None:
    assert names(part("A:1 B:2 C:3", "A:1 B:9 C:8")) == ("BPass", None)


def test_a_difference_that_is_undone_is_told_behind_the_one_that_lasts() -> None:
    assert names(part("A:1 B:2 C:3 D:4", "A:1 B:9 C:3 D:7")) == ("DPass", "BPass")


def test_what_is_undone_in_the_end_is_no_parting() -> None:
    assert part("A:1 B:2 C:3", "A:1 B:9 C:3") is None


def test_a_pass_of_one_side_alone() -> None:
    found = part("A:1 C:3", "A:1 New:8 C:7")
    assert names(found) == ("NewPass", None)
    assert found is not None
    assert found.lasting.good is None
    assert [state.structure.print_ if state else None for state in found.lasting.after] == [1, 8]
    gone = part("A:1 Old:2 C:3", "A:1 C:7")
    assert names(gone) == ("OldPass", None)
    assert gone is not None
    assert gone.lasting.bad is None


def test_a_pass_that_only_went_elsewhere_parts_nothing() -> None:
    assert part("A:1 Moved:2 B:3", "A:1 B:1 Moved:3") is None


def test_passes_that_were_split_part_nothing_when_they_end_the_same() -> None:
    assert names(part("A:1 Both:3 B:4", "A:1 One:2 Other:3 B:5")) == ("BPass", "OnePass")


def test_renamed_passes_are_the_same_pass() -> None:
    found = part("A:1 Melt:2", "A:1 Fuse:9")
    assert found is not None
    assert found.lasting.good is not None
    assert found.lasting.bad is not None


def test_the_suffix_of_a_class_means_nothing() -> None:
    good, bad = run("A:1 B:2"), run("A:1 B:3")
    old = [FunctionState(PassName(state.by.name.removesuffix("Pass")), state.structure, state.index, 1) for state in good]
    found = parting(old, bad, {})
    assert found is not None
    assert found.lasting.good is not None


def test_what_a_failed_pass_left_behind_is_not_compared() -> None:
    assert part("A:1 B:2 C:3", "A:1 B:7!", (False, True)) is None


def test_passes_after_the_other_side_broke_off_are_no_difference() -> None:
    assert part("A:1 B:2 C:3", "A:1 B:2", (False, True)) is None
    assert names(part("A:1 B:2 C:3", "A:1 B:2")) == ("CPass", None)
    assert part("A:1 B:2", "A:1 B:2 C:3", (True, False)) is None


def test_choices_alone_can_part() -> None:
    def chosen(tiles: str) -> Structure:
        return Structure(5, choices=frozenset({("config.tiles", tiles)}))

    good = [*run("A:1"), FunctionState(PassName("Choose"), chosen("[4]"), 1, 1)]
    bad = [*run("A:1"), FunctionState(PassName("Choose"), chosen("[8]"), 1, 1)]
    assert names(parting(good, bad, {})) == ("Choose", None)


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
    assert names(part(good, bad)) == (f"P{at}Pass", None)
