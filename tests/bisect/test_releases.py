"""Bisects over releases: the same search as over commits, with the ends found where
they are not named.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.bisect.letters import HistoryEngine, case_named, release_refs
from triage.bisect.history import Histories, histories
from triage.bisect.plan import bisect_between
from triage.bisect.request import BisectRequest
from triage.bisect.result import Answer, Bisection, BisectKind, Transition
from triage.model.errors import BadInput
from triage.model.exit_codes import Exit
from triage.model.outcome import Cause


def bisect(
    history: str,
    jobs: int = 1,
    before: int | None = None,
    after: int | None = None,
    **options: object,
) -> tuple[Bisection, HistoryEngine]:
    engine = HistoryEngine({"case": history}, jobs)
    return run(engine, before, after, **options), engine


def run(
    engine: HistoryEngine,
    before: int | None = None,
    after: int | None = None,
    **options: object,
) -> Bisection:
    ends = [None if index is None else f"1.{index}.0" for index in (before, after)]
    return bisect_between(BisectRequest(engine, case_named("case"), **options), *ends)


def pair(found: Bisection | Transition) -> tuple[int, int]:
    return int(found.before.name.split(".")[1]), int(found.after.name.split(".")[1])


@pytest.mark.parametrize(
    ("history", "before", "after"),
    [("XPFF", 0, 3), ("XXXX", None, None), ("PPFX", None, 3)],
)
def test_an_end_that_cannot_be_obtained_is_the_cause(
    history: str, before: int | None, after: int | None
) -> None:
    found, _ = bisect(history, before=before, after=after)
    assert (found.status, found.cause) == (Answer.INCONCLUSIVE, Cause.TOOLCHAIN)


@pytest.mark.parametrize("letter", ["F", "P"])
@pytest.mark.parametrize(("before", "after", "most"), [(10, 20, 2), (None, None, 8)])
def test_a_case_that_ends_alike_everywhere_is_probed_at_few_releases(
    letter: str, before: int | None, after: int | None, most: int
) -> None:
    engine = HistoryEngine({"case": 60 * letter})
    engine.registry.installed = {0, 59}
    found = run(engine, before, after)
    verb = "fails" if letter == "F" else "compiles"
    ends = f"1.{before or 0}.0 and 1.{after or 59}.0"
    assert (found.status, found.cause) == (Answer.INCONCLUSIVE, Cause.NOT_FOUND)
    assert (found.reason or "").startswith(f"it {verb} at both ends, {ends}")
    assert len({index for _, index, _ in engine.asked}) <= most


@pytest.mark.parametrize("kind", BisectKind)
@pytest.mark.parametrize("look", ["known", "installed"])
@pytest.mark.parametrize("history", ["PPPFPPPPPPPPPPPP", "PPPPPPPPPPPPFPPP"])
def test_a_short_window_is_found_among_known_and_installed_releases(
    history: str, look: str, kind: BisectKind
) -> None:
    engine = HistoryEngine({"case": history})
    if look == "known":
        engine.registry.installed = set()
        engine.known = {("case", index) for index in range(16)}
    found = run(engine, kind=kind)
    fix = found if kind is BisectKind.FIX else found.fixed
    assert fix is not None
    assert pair(fix) == (history.rindex("F"), history.rindex("F") + 1)
    if kind is BisectKind.REGRESSION:
        assert pair(found) == (history.index("F") - 1, history.index("F"))


def test_a_failure_that_replaced_another_long_one_is_found_with_few_probes() -> None:
    engine = HistoryEngine({"case": "P" * 20 + "G" * 100 + "F" * 20})
    engine.registry.installed = set()
    found = run(engine)
    assert (found.status, pair(found)) == (Answer.CULPRIT, (119, 120))
    assert found.broke
    assert pair(found.broke) == (19, 20)
    assert len({index for _, index, _ in engine.asked}) <= 30


@settings(max_examples=300, deadline=None)
@given(
    st.text("PFGU", min_size=2, max_size=40),
    st.integers(1, 4),
    st.sampled_from(BisectKind),
)
# the part before the fix is searched after the fix was
@example("PFFFFUUPPPP", 1, BisectKind.REGRESSION)
def test_an_answer_is_always_true(history: str, jobs: int, kind: BisectKind) -> None:
    found, engine = bisect(history, jobs, kind=kind)
    assert len({index for _, index, fresh in engine.asked if not fresh}) <= len(history)
    if found.status is Answer.INCONCLUSIVE:
        assert found.reason
        assert not found.suspects
        return
    low, high = pair(found)
    reference = found.failure.failure_class[-1]
    path = found
    if found.kind is BisectKind.FIX:
        assert history[low] == reference
        assert path.fixed in (None, path.broke)
        steps = [(path.broke, "FG", "P"), (path.changed, reference, "FGP")]
        assert pair(path.changed or path.broke) == (low, high)
    else:
        main = path.changed or path.broke or path.fixed
        assert (pair(main), main.failure) == (pair(found), found.failure)
        assert (path.fixed is not None) == (history.rstrip("U")[-1:] == "P")
        steps = [
            (path.broke, "P", "FG"),
            (path.changed, "FG".replace(reference, ""), reference),
            (path.fixed, "FG", "P"),
        ]
    for step, old, new in steps:
        if step is not None:
            first, last = pair(step)
            assert history[first] in old
            assert history[last] in new
            assert set(history[first + 1 : last]) <= {"U"}
            assert (step.status is Answer.CULPRIT) == (last == first + 1)
    claimed = [step.status for step in (path.broke, path.changed) if step] or [
        path.fixed.status
    ]
    assert (found.status is Answer.CULPRIT) == (set(claimed) == {Answer.CULPRIT})
    assert found.confirmed


@settings(max_examples=200)
@given(
    st.lists(st.text("PFU", min_size=9, max_size=9), min_size=1, max_size=4),
    st.sets(st.integers(0, 8)),
)
def test_every_reported_change_is_true_and_known_results_are_used(
    rows: list[str], known: set[int]
) -> None:
    patterns = {f"case-{number}": row for number, row in enumerate(rows)}
    bench = HistoryEngine(patterns)
    bench.known = {("case-0", index) for index in known}
    cases = [case_named(name) for name in patterns]
    words = {"P": "passed", "F": "failed", "U": "untestable"}
    found = histories(bench, cases, release_refs(9))
    assert Histories(found).exit is Exit.OK  # it says how each ended
    for one in found:
        for change in one.changes:
            low, high = pair(change)
            states = [words[letter] for letter in patterns[one.case][low : high + 1]]
            assert states == [change.from_, change.to]
    assert len(bench.asked) == len(set(bench.asked))
    assert bench.known <= {(name, index) for name, index, _ in bench.asked}


@pytest.mark.parametrize("history", ["GGGGGGFFFFFF", "GGGGFGGGUUFF"])
def test_a_case_that_always_failed_says_where_its_failure_changed(
    history: str,
) -> None:
    found, _ = bisect(history)
    last = history.rindex("G")
    is_exact = history[last + 1] == "F"
    assert found.status is (Answer.CULPRIT if is_exact else Answer.SUSPECTS)
    assert pair(found) == (last, history.index("F", last))
    assert found.confirmed
    assert found.broke is None
    assert found.changed
    assert pair(found.changed) == pair(found)


@pytest.mark.parametrize("window", [1, 9])
@pytest.mark.parametrize("named", [False, True])
def test_a_fix_is_searched_among_all_releases_before_it_is_given_up(
    window: int, named: bool
) -> None:
    history = "P" * window + "F" + "P" * (15 - window)
    engine = HistoryEngine({"case": history})
    engine.registry.installed = set()
    found = run(engine, after=15 if named else None, kind=BisectKind.FIX)
    assert (found.status, pair(found)) == (Answer.CULPRIT, (window, window + 1))
    engine = HistoryEngine({"case": 16 * "P"})
    engine.registry.installed = set()
    found = run(engine, kind=BisectKind.FIX)
    assert (
        found.reason
        == "it compiles at both ends, 1.0.0 and 1.15.0; pass --bad with a revision that fails"
    )
    assert len({index for _, index, _ in engine.asked}) == 16


@pytest.mark.parametrize("kind", BisectKind)
def test_exchanged_ends_are_told_which_is_first(kind: BisectKind) -> None:
    with pytest.raises(BadInput, match="a regression needs --good before --bad, and"):
        bisect("PPFF", before=3, after=0, kind=kind)
