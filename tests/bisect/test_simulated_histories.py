"""Of the answers that a search calls confirmed, at most 1 - confidence are wrong, whatever the history is like."""

from __future__ import annotations

import pytest

from tests.bisect.letters import case_named, plain_range
from tests.bisect.simulated import JOBS, RUNS, FlakyRunner, Trouble, history, tally, troubles
from triage.bisect.belief import FLAKY
from triage.bisect.result import CONFIDENCE
from triage.bisect.search import BisectSearch

FAMILIES = [pytest.param(commits, trouble) for commits in (True, False) for trouble in troubles(commits=commits)]


@pytest.mark.parametrize(("commits", "trouble"), FAMILIES)
def test_no_wrong_answer_is_confirmed(commits: bool, trouble: Trouble) -> None:
    total = tally(6, commits=commits, jobs=JOBS, trouble=trouble, rate=0.2, first=3_000_000)
    assert total.wrong == 0


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("jobs", JOBS)
def test_histories_without_flaky_probes_are_answered_at_once(commits: bool, jobs: int) -> None:
    total = tally(10, commits=commits, jobs=[jobs], trouble=Trouble.NONE, rate=0)
    assert (total.confirmed, total.wrong) == (10, 0)


@pytest.mark.slow
@pytest.mark.parametrize("rate", RUNS)
@pytest.mark.parametrize(("commits", "trouble"), FAMILIES)
def test_wrong_answers_are_rarely_confirmed_in_twenty_thousand_histories(commits: bool, trouble: Trouble, rate: float) -> None:
    total = tally(RUNS[rate], commits=commits, jobs=JOBS, trouble=trouble, rate=rate)
    assert total.wrong <= (1 - CONFIDENCE) * total.confirmed


def test_a_repeated_probe_is_not_read_from_the_cache() -> None:
    world = history(1, commits=True, jobs=1, trouble=Trouble.NONE, rate=0)
    runner = FlakyRunner(world, 1)
    search = BisectSearch(runner, case_named("case"), plain_range(len(world.letters)), kind=world.kind)
    assert search.begin()
    search.belief = search.belief.with_noise(FLAKY)
    for _ in range(2):
        search.ask([1])
    assert runner.asked.count(1) == 2
    assert search.cached == 0
