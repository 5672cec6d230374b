"""Bisects over releases: the same search as over commits, with the ends found where
they are not named.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.bisect.letters import HistoryEngine, case_named, pair, release_refs
from triage.bisect.history import Histories, histories
from triage.bisect.line import BisectRequest
from triage.bisect.plan import bisect_between
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Exit


def bisect(
    history: str | HistoryEngine,
    before: int | None = None,
    after: int | None = None,
    kind: BisectKind = BisectKind.REGRESSION,
) -> Bisection:
    engine = HistoryEngine(history) if isinstance(history, str) else history
    ends = [None if index is None else f"1.{index}.0" for index in (before, after)]
    request = BisectRequest(engine, case_named("case"), kind=kind)  # type: ignore[arg-type]
    return bisect_between(request, *ends)


def uninstalled(history: str, *installed: int) -> HistoryEngine:
    engine = HistoryEngine(history)
    engine.registry.installed = set(installed)
    return engine


@pytest.mark.parametrize(
    ("history", "before", "after"),
    [("XPFF", 0, 3), ("XXXX", None, None), ("PPFX", None, 3)],
)
def test_an_end_that_cannot_be_obtained_is_the_cause(
    history: str, before: int | None, after: int | None
) -> None:
    found = bisect(history, before, after)
    assert (found.status, found.cause) == (Answer.INCONCLUSIVE, Cause.TOOLCHAIN)


@pytest.mark.parametrize(("letter", "verb"), [("F", "fails"), ("P", "compiles")])
@pytest.mark.parametrize(("before", "after", "most"), [(10, 20, 2), (None, None, 8)])
def test_a_case_that_ends_alike_everywhere_is_probed_at_few_releases(
    letter: str, verb: str, before: int | None, after: int | None, most: int
) -> None:
    engine = uninstalled(60 * letter, 0, 59)
    found = bisect(engine, before, after)
    ends = f"1.{before or 0}.0 and 1.{after or 59}.0"
    assert (found.status, found.cause) == (Answer.INCONCLUSIVE, Cause.NOT_FOUND)
    assert (found.reason or "").startswith(f"it {verb} at both ends, {ends}")
    assert len(set(engine.indices)) <= most


@pytest.mark.parametrize("kind", BisectKind)
@pytest.mark.parametrize("history", ["PPPFPPPPPPPPPPPP", "PPPPPPPPPPPPFPPP"])
def test_a_short_window_is_found_among_installed_releases(
    history: str, kind: BisectKind
) -> None:
    found = bisect(history, kind=kind)
    fix = found if kind is BisectKind.FIX else found.fixed
    window = history.index("F")
    assert fix is not None
    assert pair(fix) == (window, window + 1)
    if kind is BisectKind.REGRESSION:
        assert pair(found) == (window - 1, window)


@pytest.mark.parametrize("window", [1, 9])
@pytest.mark.parametrize("after", [None, 15])
def test_a_fix_is_searched_among_all_releases_before_it_is_given_up(
    window: int, after: int | None
) -> None:
    history = "P" * window + "F" + "P" * (15 - window)
    found = bisect(uninstalled(history), after=after, kind=BisectKind.FIX)
    assert (found.status, pair(found)) == (Answer.CULPRIT, (window, window + 1))
    engine = uninstalled(16 * "P")
    found = bisect(engine, kind=BisectKind.FIX)
    assert (found.reason or "").startswith("it compiles at both ends, 1.0.0 and 1.15.0")
    assert len(set(engine.indices)) == 16


@pytest.mark.parametrize("kind", BisectKind)
def test_exchanged_ends_are_told_which_is_first(kind: BisectKind) -> None:
    with pytest.raises(BadInput, match="a regression needs --good before --bad, and"):
        bisect("PPFF", before=3, after=0, kind=kind)


@settings(max_examples=300, deadline=None)
@given(
    st.text("PFGU", min_size=2, max_size=40),
    st.integers(1, 4),
    st.sampled_from(BisectKind),
)
# the part before the fix is searched after the fix was
@example("PFFFFUUPPPP", 1, BisectKind.REGRESSION)
def test_an_answer_is_always_true(history: str, jobs: int, kind: BisectKind) -> None:
    engine = HistoryEngine(history, jobs)
    found = bisect(engine, kind=kind)
    first_probes = {index for _, index, fresh in engine.asked if not fresh}
    assert len(first_probes) <= len(history)
    if found.status is Answer.INCONCLUSIVE:
        assert found.reason
        assert not found.suspects
        return
    assert found.failure
    reference = found.failure.failure_class[-1]
    other = "FG".replace(reference, "")
    broke, changed, fixed = found.broke, found.changed, found.fixed
    main = changed or broke or fixed
    if found.kind is BisectKind.FIX:
        assert fixed in (None, broke)
        changes = [(broke, "FG", "P"), (changed, reference, "FGP")]
    else:
        assert (fixed is not None) == (history.rstrip("U")[-1:] == "P")
        changes = [(broke, "P", "FG"), (changed, other, reference), (fixed, "FG", "P")]
    for change, old, new in changes:
        if change is not None:
            first, last = pair(change)
            assert history[first] in old
            assert history[last] in new
            assert set(history[first + 1 : last]) <= {"U"}
            assert (change.status is Answer.CULPRIT) == (last == first + 1)
    claimed = [change for change in (broke, changed) if change] or [main]
    is_culprit = all(change.status is Answer.CULPRIT for change in claimed)
    assert (found.status is Answer.CULPRIT) == is_culprit
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
    engine = HistoryEngine(patterns)
    engine.known = {("case-0", index) for index in known}
    found = histories(engine, [*map(case_named, patterns)], release_refs(9))  # type: ignore[arg-type]
    assert Histories(found).exit is Exit.OK  # it says how each ended
    letters = {"passed": "P", "failed": "F", "untestable": "U"}
    for history in found:
        for change in history.changes:
            low, high = pair(change)  # type: ignore[arg-type]
            inside = patterns[history.case][low : high + 1]
            assert inside == letters[change.from_] + letters[change.to]
    assert len(engine.asked) == len(set(engine.asked))
    assert engine.known <= {(name, index) for name, index, _ in engine.asked}
