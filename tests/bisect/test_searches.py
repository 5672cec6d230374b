"""The search along releases and commits: it never names a wrong culprit, and asks few
compilers.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.bisect import letters
from tests.bisect.letters import HistoryEngine, case_named, index_of, pair, search_along
from triage.bisect.history import Histories, histories
from triage.bisect.line import BisectRequest
from triage.bisect.releases import bisect_between
from triage.bisect.result import Answer, BisectKind
from triage.bisect.search import find_changes
from triage.execution.task import ProbeJob
from triage.model.outcome import Cause, Exit

REGRESSION, FIX = BisectKind
ROWS = yaml.safe_load(Path(__file__).with_name("without_answer.yaml").read_text())


def bisect_releases(engine: HistoryEngine, kind: BisectKind, *ends: int | None) -> Any:
    names = [None if index is None else f"1.{index}.0" for index in ends]
    request = BisectRequest(engine, case_named("case"), kind=kind)  # type: ignore[arg-type]
    return bisect_between(request, *names)


@pytest.mark.parametrize("row", ROWS)
def test_a_bisect_without_an_answer_says_why_and_ends_soon(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "HEADLINE", "it failed " * 99)
    engine, kind = HistoryEngine(row["history"]), BisectKind(row["kind"])
    engine.installed = {"1.0.0", "1.59.0"}
    answer = bisect_releases(engine, kind, *row["ends"])
    assert (answer.status, answer.cause) == (Answer.INCONCLUSIVE, row["cause"])
    assert answer.reason.startswith(row["reason"])
    assert len(answer.reason) < 400
    tried = len(set(engine.indices))
    assert tried <= row["probes"]
    assert tried == row["probes"] or kind is REGRESSION


@pytest.mark.parametrize(
    ("kind", "after", "installed"),
    [
        # a short window is found among installed releases
        (REGRESSION, None, None),
        # who asks for a fix wants all releases to be tried
        (FIX, None, ()),
        (FIX, 15, ()),
    ],
)
@given(window=st.integers(1, 14))
def test_a_window_of_one_release_is_found(
    kind: BisectKind, after: int | None, installed: tuple[str, ...] | None, window: int
) -> None:
    engine = HistoryEngine("P" * window + "F" + "P" * (15 - window))
    engine.installed = installed
    answer = bisect_releases(engine, kind, None, after)
    assert answer.status is Answer.CULPRIT
    assert kind is FIX or pair(answer) == (window - 1, window)
    assert pair(answer.fixed or answer) == (window, window + 1)


def check_pair(change: Any, history: str, old: str, new: str, between: str) -> bool:
    """Check a pair of candidates, and what is between them. Return whether they are
    neighbours.
    """
    first, last = pair(change)
    assert history[first] in old
    assert history[last] in new
    assert set(history[first + 1 : last]) <= set(between)
    return last == first + 1


@settings(max_examples=300)
@given(
    st.text("PFGU", min_size=2, max_size=40),
    st.integers(1, 4),
    st.sampled_from(BisectKind),
)
# the part before the fix is searched after the fix was
@example("PFFFFUUPPPP", 1, REGRESSION)
def test_an_answer_about_releases_is_always_true(
    history: str, jobs: int, kind: BisectKind
) -> None:
    engine = HistoryEngine(history, jobs)
    answer = bisect_releases(engine, kind)
    assert sum(not job.fresh for job in engine.asked) <= len(history)
    if answer.status is Answer.INCONCLUSIVE:
        assert answer.reason
        assert not answer.suspects
        return
    reference = answer.failure.failure_class[-1]
    other = "FG".replace(reference, "")
    broke, changed, fixed = answer.broke, answer.changed, answer.fixed
    if answer.kind is FIX:
        assert fixed in (None, broke)
        changes = [(broke, "FG", "P"), (changed, reference, "FGP")]
    else:
        assert (fixed is not None) == (history.rstrip("U")[-1:] == "P")
        changes = [(broke, "P", "FG"), (changed, other, reference), (fixed, "FG", "P")]
    for change, old, new in changes:
        if change:
            is_exact = check_pair(change, history, old, new, "U")
            assert (change.status is Answer.CULPRIT) == is_exact
    claimed = [change for change in (broke, changed) if change] or [fixed]
    is_culprit = all(each and each.status is Answer.CULPRIT for each in claimed)
    assert (answer.status is Answer.CULPRIT) == is_culprit
    assert (answer.confirmed, answer.reason) == (True, None)


def search_commits(history: str, false_good: float = 0.0, seed: int = 0) -> Any:
    """Search all changes along commits with these outcomes."""
    alike = [1.0] * len(history)
    engine = HistoryEngine(history, 1, false_good, seed)
    return find_changes(search_along(engine, alike, alike))


def suspects_of(answer: Any) -> set[int]:
    return set(map(index_of, answer.suspects))


@settings(max_examples=500)
@given(
    st.text("PPPFFFGNUX", max_size=60),
    st.sampled_from(["F", "N"]),
    st.sampled_from(BisectKind),
    st.integers(1, 4),
    st.integers(0, 1 << 32),
)
def test_both_changes_of_commits_are_true_and_the_best_possible(
    inside: str, last: str, kind: BisectKind, jobs: int, seed: int
) -> None:
    """Prices and suspicions are of any kind, those of the culprit included. X is known
    to have no compiler.
    """
    history = f"P{inside}{last}"
    line = history if kind is REGRESSION else history[::-1]
    randomly = random.Random(seed)
    prices = [randomly.choice((0.0, 5.0, 1800.0)) for _ in line]
    suspicion = [randomly.gammavariate(0.3, 1) + 1e-4 for _ in line]
    shut = [index for index, letter in enumerate(line) if letter == "X"]
    engine = HistoryEngine(line, jobs)
    answer: Any = find_changes(search_along(engine, prices, suspicion, kind, shut))
    assert not set(engine.indices) & set(shut)
    assert answer.status is not Answer.INCONCLUSIVE
    assert abs(sum(suspect.probability for suspect in answer.suspects) - 1) < 0.01
    assert answer.broke.confirmed

    def check(change: Any, good: str, bad: str, between: str) -> bool:
        return check_pair(change, line, *kind.in_order(good, bad), between)

    # any failure and any refusal counts as not passing
    is_exact = check(answer.broke, "P", "FGN", "UX")
    assert (answer.broke.status is Answer.CULPRIT) == is_exact
    # this failure: what is refused says nothing about it
    if last == "N":
        assert answer.changed is None
        return
    broke, came = pair(answer.broke), pair(answer)
    inside = line[came[0] + 1 : came[1]]
    # not each of a stretch of refusals is probed
    is_exact &= check(answer, "PG", "F", inside if "N" in inside else "UX")
    assert (answer.status is Answer.CULPRIT) == is_exact
    assert sorted((broke, came)) == [*kind.in_order(broke, came)]
    assert (answer.changed is None) == (broke == came)


@pytest.mark.parametrize("runs", [4, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fails", [0.4, 0.5, 0.6, 0.75])
def test_a_failure_that_comes_and_goes_since_its_culprit_is_not_blamed_on_a_later_commit(
    fails: float, runs: int
) -> None:
    confirmed = wrong = 0
    for seed in range(runs):
        randomly = random.Random(seed)
        count = randomly.choice((16, 64, 200))
        culprit = randomly.randrange(1, count)
        history = "P" * culprit + "F" * (count - culprit)
        answer = search_commits(history, 1 - fails, seed)
        confirmed += answer.confirmed
        wrong += answer.confirmed and culprit not in suspects_of(answer)
    assert wrong <= 0.005 * confirmed
    assert confirmed >= (0.9 * runs if fails > 0.7 else 0)


def test_a_flaky_test_with_one_message_is_rarely_blamed_on_another_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(letters.failure, "__defaults__", ("codegen",))
    wrong = 0
    for seed in range(100):
        engine = HistoryEngine("P" * 20 + "F" * 80, 1, 1 / 3, seed)
        alike = [1.0] * 100
        search = search_along(engine, alike, alike, script=Path("check.sh"))
        answer: Any = find_changes(search)
        wrong += answer.confirmed and suspects_of(answer) != {20}
    assert wrong <= 2


@pytest.mark.parametrize(
    ("family", "count", "most"),
    [("codegen", 2, 4), ("codegen", 40, 12), ("crash", 2, 11), ("crash", 40, 20)],
)
def test_a_culprit_costs_few_probes_and_most_where_a_failure_may_come_and_go(
    family: str, count: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters.failure, "__defaults__", (family,))
    for culprit in range(1, count):
        answer = search_commits("P" * culprit + "F" * (count - culprit))
        assert answer.status is Answer.CULPRIT
        assert suspects_of(answer) == {culprit}
        assert answer.probes <= most


def test_a_search_ends_soon_if_no_compiler_can_be_obtained_between_its_ends() -> None:
    answer = search_commits("P" + "X" * 38 + "F")
    assert (answer.status, answer.confirmed) == (Answer.SUSPECTS, False)
    assert answer.unanswered.cause is Cause.ENVIRONMENT
    assert answer.probes <= 7


@settings(max_examples=200)
@given(
    st.lists(st.text("PFU", min_size=9, max_size=9), min_size=1, max_size=4),
    st.sets(st.integers(0, 8)),
)
def test_histories_report_true_changes_and_use_known_results(
    rows: list[str], known: set[int]
) -> None:
    patterns = {f"case-{number}": row for number, row in enumerate(rows)}
    engine: Any = HistoryEngine(patterns)
    stored = {("case-0", index) for index in known}

    def key(job: ProbeJob) -> tuple[str, int]:
        return job.case.name, index_of(job.ref.revision)

    engine.cached_probe = lambda job: key(job) in stored
    answer = histories(engine, [*map(case_named, patterns)], engine.releases("iree"))
    assert Histories(answer).exit is Exit.OK  # it says how each ended
    states = {"passed": "P", "failed": "F", "untestable": "U"}
    for history in answer:
        for change in history.changes:
            ends = states[change.from_], states[change.to]
            assert check_pair(change, patterns[history.case], *ends, "")
    asked = [*map(key, engine.asked)]
    assert len(asked) == len(set(asked))
    assert stored <= set(asked)


def test_a_short_window_is_found_where_another_case_changes() -> None:
    patterns = {"window": "PPPPPFPPPPPPPPPP", "broken": "PPPPPFFFFFFFFFFF"}
    engine: Any = HistoryEngine(patterns)
    engine.cached_probe = lambda job: None
    answer = histories(engine, [*map(case_named, patterns)], engine.releases("iree"))
    assert [len(history.changes) for history in answer] == [2, 1]
    assert len(engine.asked) <= 16  # of 32
