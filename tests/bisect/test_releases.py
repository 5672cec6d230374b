from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bisect.history_of import HistoryBench, case_named, places
from triage.bisect.releases import bisect_releases
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.judge import any_failure, same_family


def bisect(history: str, jobs: int = 1, **options: object) -> tuple[Bisection, HistoryBench]:
    bench = HistoryBench({"case": history}, jobs)
    return bisect_releases(bench, case_named("case"), places(len(history)), **options), bench


def at(found: Bisection) -> tuple[int, int]:
    return int(found.before.name.split(".")[1]), int(found.after.name.split(".")[1])


def test_a_regression_is_found_confirmed_and_costs_little() -> None:
    found, bench = bisect("PPPPPPPPPPFFFFFF")
    assert (found.answer, at(found), found.confirmed) == (Answer.CULPRIT, (9, 10), True)
    assert [index for _, index, fresh in bench.asked if fresh] == [9, 10]
    assert len([one for one in bench.asked if not one[2]]) <= 8


def test_the_change_that_led_to_the_newest_state_is_found_and_not_an_older_one() -> None:
    found, _ = bisect("PFFFPPPPPPPPPFFF")
    assert at(found) == (12, 13)


def test_a_fix_is_found_from_the_newest_passing_release() -> None:
    found, _ = bisect("PPFFFFFFPPPPPPPP", kind=BisectKind.FIX)
    assert (found.kind, at(found), found.answer) == (BisectKind.FIX, (7, 8), Answer.CULPRIT)


def test_the_bounds_given_are_verified() -> None:
    found, bench = bisect("PPPPPPFF", before=0, after=4)
    assert found.answer is Answer.INCONCLUSIVE
    assert "1.4.0 was to fail but compiles" in found.reason
    assert len(bench.asked) == 2
    found, _ = bisect("FFFFFFFF", before=0, after=7)
    assert "1.0.0 was to compile but fails" in found.reason


def test_a_passing_newest_release_is_no_regression() -> None:
    found, _ = bisect("PPFFPP")
    assert found.answer is Answer.INCONCLUSIVE
    assert "was to fail but compiles" in found.reason


def test_what_never_worked_is_no_regression() -> None:
    found, bench = bisect("FFFFFFFF")
    assert found.answer is Answer.INCONCLUSIVE
    assert "never worked" in found.reason
    assert len(bench.asked) == 8


def test_a_short_good_window_is_found_even_where_the_strides_miss_it() -> None:
    found, _ = bisect("FFFFFPFFFFFF")
    assert at(found) == (5, 6)


def test_untestable_releases_between_leave_suspects() -> None:
    found, _ = bisect("PPPPUUFFFF")
    assert found.answer is Answer.SUSPECTS
    assert [one.name for one, _ in found.suspects] == ["1.4.0", "1.5.0", "1.6.0"]
    assert sum(chance for _, chance in found.suspects) == 1 or abs(sum(c for _, c in found.suspects) - 1) < 0.001
    assert not found.confirmed
    assert {one.name for one, _ in found.untestable} == {"1.4.0", "1.5.0"}


def test_another_failure_is_never_taken_for_this_one() -> None:
    found, _ = bisect("PPPPPGGGFFFF")
    assert found.answer is Answer.SUSPECTS
    assert [one.name for one, _ in found.suspects] == ["1.5.0", "1.6.0", "1.7.0", "1.8.0"]
    assert {failure.failure_class for _, failure in found.other_failures} == {"class-G"}


def test_a_family_is_followed_through_its_change_of_class() -> None:
    found, _ = bisect("PPPPPGGGFFFF", match=same_family)
    assert (found.answer, at(found)) == (Answer.CULPRIT, (4, 5))
    found, _ = bisect("PPPPPGGGFFFF", match=lambda _: any_failure)
    assert at(found) == (4, 5)


def test_the_newest_release_that_can_be_tested_is_the_end() -> None:
    found, _ = bisect("PPPPFFFUU")
    assert at(found) == (3, 4)


def test_nothing_testable_is_inconclusive() -> None:
    found, _ = bisect("UUUU")
    assert found.answer is Answer.INCONCLUSIVE


def test_a_pair_that_does_not_agree_with_itself_is_no_culprit() -> None:
    bench = HistoryBench({"case": "PPPPPPPPFFFF"})
    bench.flips["case", 8] = ["F", "P"]  # fails when searched, passes when confirmed
    found = bisect_releases(bench, case_named("case"), places(12))
    assert not (found.answer is Answer.CULPRIT and found.after.name == "1.8.0")
    assert "1.8.0" in [one.name for one, _ in found.suspects]


def test_an_end_that_does_not_agree_with_itself_is_inconclusive() -> None:
    bench = HistoryBench({"case": "PF"})
    bench.flips["case", 1] = ["F", "P"]
    found = bisect_releases(bench, case_named("case"), places(2), before=0, after=1)
    assert found.answer is Answer.INCONCLUSIVE


@settings(max_examples=300)
@given(st.text("PFGU", min_size=2, max_size=40), st.integers(1, 4), st.sampled_from(BisectKind))
def test_an_answer_is_always_true(history: str, jobs: int, kind: BisectKind) -> None:
    found, bench = bisect(history, jobs, kind=kind)
    assert len({index for _, index, fresh in bench.asked if not fresh}) <= len(history)
    if found.answer is Answer.INCONCLUSIVE:
        assert found.reason
        assert not found.suspects
        return
    low, high = at(found)
    reference = found.failure.failure_class[-1]
    old, new = ("P", reference) if kind is BisectKind.REGRESSION else (reference, "P")
    assert (history[low], history[high]) == (old, new)
    assert not set(history[low + 1 : high]) & {"P", reference}
    assert [one.name for one, _ in found.suspects] == [f"1.{index}.0" for index in range(low + 1, high + 1)]
    assert (found.answer is Answer.CULPRIT) == (high == low + 1) == found.confirmed
