from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bisect.letters import HistoryRunner, case_named, release_refs
from triage.bisect.history import histories
from triage.model.case import Expectation
from triage.report.history import HistoryReport
from triage.report.shapes import as_json

# States of real patterns across sixteen releases.
PATTERNS = {
    "attention": "PPPPFPPPPPPPPPPP",
    "i4": "PPPPFFFPPPPPPPPP",
    "globals": "PPPPFFPPPPPPPPPP",
    "matmul": "PPFFFFFFPPPPPPPP",
    "gather": "PPPFFPPPPPPPPPPP",
    "grouped": "PPPPPFFGGGGGGPPP",
    "while": "PPPPPPFFFFFFFPPP",
    "updates": "PPPFFFFFFFFFFFFF",
    "resnet": "PPPPPPPPPPPPPPPP",
    "transformer": "PPPPPPPPPPPPPPPP",
}


def changes(history: str) -> list[tuple[int, str, str]]:
    word = {"P": "passed", "F": "failed", "G": "failed", "U": "untestable"}
    pairs = [(index, word[history[index - 1]], word[history[index]]) for index in range(1, len(history))]
    return [one for one in pairs if one[1] != one[2]]


def found_changes(found: object) -> list[tuple[int, str, str]]:
    from triage.bisect.history import plain_status

    return [
        (int(one.after.revision.name.split(".")[1]), plain_status(one.before.outcome), plain_status(one.after.outcome))
        for one in found.changes
    ]


def test_a_full_share_compiles_everything() -> None:
    bench = HistoryRunner(PATTERNS)
    found = histories(bench, [case_named(name) for name in PATTERNS], release_refs(16), share=1.0)
    assert len(bench.asked) == 160
    assert {one.case.name: found_changes(one) for one in found} == {name: changes(h) for name, h in PATTERNS.items()}
    [grouped] = [one for one in found if one.case.name == "grouped"]
    assert [one.after.revision.name for one in grouped.failure_changes] == ["1.7.0"]


def test_half_the_compiles_find_the_changes_of_real_patterns() -> None:
    bench = HistoryRunner(PATTERNS)
    found = histories(bench, [case_named(name) for name in PATTERNS], release_refs(16))
    assert {one.case.name: found_changes(one) for one in found} == {name: changes(h) for name, h in PATTERNS.items()}
    assert len(bench.asked) <= 80
    assert sum(one.compiles for one in found) == len(bench.asked)


def test_a_window_named_by_the_recipe_is_probed() -> None:
    history = "PFPPPPPPPPPPPPPP"
    case = case_named("softmax", Expectation("stack-limit", since="1.1.0", until="1.2.0"))
    found = histories(HistoryRunner({"softmax": history}), [case], release_refs(16), share=0.3)
    assert found_changes(found[0]) == changes(history)


@settings(max_examples=200)
@given(st.lists(st.text("PFU", min_size=9, max_size=9), min_size=1, max_size=4), st.floats(0.1, 1.0))
def test_every_reported_change_is_true(rows: list[str], share: float) -> None:
    patterns = {f"case-{number}": row for number, row in enumerate(rows)}
    bench = HistoryRunner(patterns)
    for one in histories(bench, [case_named(name) for name in patterns], release_refs(9), share=share):
        assert set(found_changes(one)) <= set(changes(patterns[one.case.name]))
    assert len(bench.asked) == len(set(bench.asked))


def test_states_have_a_signature_and_untestable_ones_their_reason() -> None:
    runner = HistoryRunner({"case": "UUPPFFGGP"})
    [found] = histories(runner, [case_named("case")], release_refs(9), share=1.0)
    [shape] = as_json(HistoryReport([([ref.revision.name for ref in release_refs(9)], [found])]).shape())["cases"]
    states = [(state["first"], state["last"], state["status"]) for state in shape["states"]]
    assert states == [
        ("1.0.0", "1.1.0", "untestable"),
        ("1.2.0", "1.3.0", "passed"),
        ("1.4.0", "1.5.0", "failed"),
        ("1.6.0", "1.7.0", "failed"),
        ("1.8.0", "1.8.0", "passed"),
    ]
    assert [state["failure"]["signature"] for state in shape["states"] if state["status"] == "failed"] == [
        "class-F:same text",
        "class-G:same text",
    ]
    assert shape["states"][0]["reason"] == "unknown flag"
