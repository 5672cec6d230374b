from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bisect.letters import HistoryRunner, case_named, release_refs
from triage.bisect.history import histories


def changes(history: str) -> list[tuple[int, str, str]]:
    word = {"P": "passed", "F": "failed", "G": "failed", "U": "untestable"}
    pairs = [(index, word[history[index - 1]], word[history[index]]) for index in range(1, len(history))]
    return [one for one in pairs if one[1] != one[2]]


def found_changes(found: object) -> list[tuple[int, str, str]]:

    return [(int(one.after.name.split(".")[1]), one.from_, one.to) for one in found.changes]


@settings(max_examples=200)
@given(
    st.lists(st.text("PFU", min_size=9, max_size=9), min_size=1, max_size=4), st.floats(0.1, 1.0), st.sets(st.integers(0, 8))
)
def test_every_reported_change_is_true_and_known_results_are_used(rows: list[str], share: float, known: set[int]) -> None:
    patterns = {f"case-{number}": row for number, row in enumerate(rows)}
    bench = HistoryRunner(patterns)
    bench.known = {("case-0", index) for index in known}
    for one in histories(bench, [case_named(name) for name in patterns], release_refs(9), share=share):
        assert set(found_changes(one)) <= set(changes(patterns[one.case]))
    assert len(bench.asked) == len(set(bench.asked))
    assert bench.known <= {(name, index) for name, index, _ in bench.asked}
