"""The search for remedies, with a compiler that is a function of its flags."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from tests.remedy.flag_compiler import FlagRunner, a_case, a_place, failed, fixed_by
from triage.classify.rules import GiveFlag, LeastValue
from triage.model.outcome import Cause, Compiled, Measured, Outcome, Probe, Untestable
from triage.remedy.change import CaseChange, ChangeStep, Neighbour, RewrittenInput, SetOption
from triage.remedy.result import NothingToRemedy, Remedies, Remedy
from triage.remedy.search import Trials, pairs, search, with_smallest_value
from triage.remedy.workflow import RemedyRequest, find_remedies, ranked
from triage.report.remedy import RemedyReport
from triage.report.shapes import as_json


def single(step: ChangeStep) -> CaseChange:
    return CaseChange((step,))


IGEMM = "--iree-codegen-llvmgpu-use-igemm=false"
TILE = "--iree-codegen-llvmgpu-test-tile-and-fuse-vectorize=true"
THING = "--iree-codegen-new-thing=true"


def found(runner: FlagRunner, *flags: str, good: str | None = None, budget: int = 60) -> Remedies:
    order = RemedyRequest(a_case(*flags), a_place(), a_place(good) if good else None, budget)
    answer = find_remedies(runner, order)  # type: ignore[arg-type]
    assert isinstance(answer, Remedies)
    return answer


def flags_of(answer: Remedies) -> list[tuple[str, ...]]:
    return [remedy.change.flags for remedy in answer.found]


def test_a_known_remedy_ends_the_search() -> None:
    runner = FlagRunner(fixed_by(IGEMM))
    answer = found(runner)
    assert flags_of(answer) == [(IGEMM,)]
    assert ("3.3.0", frozenset({THING})) not in runner.asked
    assert answer.left == 0


def test_the_whole_first_tier_is_tried_and_a_flag_for_users_comes_first() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        return Compiled() if flags & {IGEMM, TILE} else failed()

    answer = found(FlagRunner(behaviour, seconds=lambda flags: 0.5 if TILE in flags else 8.0))
    assert flags_of(answer) == [(IGEMM,), (TILE,)]


def test_a_flag_for_tests_does_not_end_the_search() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        return Compiled() if flags & {TILE, THING} else failed()

    assert flags_of(found(FlagRunner(behaviour)))[:2] == [(THING,), (TILE,)]


def test_a_flag_for_tests_is_the_answer_if_no_other_works() -> None:
    runner = FlagRunner(fixed_by(TILE))
    answer = found(runner)
    assert flags_of(answer)[0] == (TILE,)
    assert ("3.3.0", frozenset({THING})) in runner.asked


def test_an_exhaustive_search_reports_all_that_works() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        return Compiled() if flags & {IGEMM, THING} else failed()

    request = RemedyRequest(a_case(), a_place(), None, 500, exhaustive=True)
    answer = find_remedies(FlagRunner(behaviour), request)  # type: ignore[arg-type]
    assert isinstance(answer, Remedies)
    assert {(IGEMM,), (THING,)} <= set(flags_of(answer))
    assert answer.left == 0


def test_the_cheapest_remedy_comes_first() -> None:
    other = "--iree-opt-data-tiling=false"

    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        return Compiled() if flags & {IGEMM, other} else failed("segfault")

    answer = found(FlagRunner(behaviour, seconds=lambda flags: 0.5 if other in flags else 8.0))
    assert flags_of(answer) == [(other,), (IGEMM,)]


def test_the_second_tier_is_tried_if_the_first_does_not_help() -> None:
    answer = found(FlagRunner(fixed_by(THING)))
    assert flags_of(answer) == [(THING,)]
    assert answer.tried < 60


def test_a_pair_is_tried_if_one_change_leads_to_another_failure() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        if IGEMM not in flags:
            return failed()
        return Compiled() if TILE in flags else failed("distribution")

    answer = found(FlagRunner(behaviour))
    assert [set(flags) for flags in flags_of(answer)] == [{IGEMM, TILE}]
    assert answer.promising[0][0].flags == (IGEMM,)


@pytest.mark.parametrize("budget", [1, 5, 12])
def test_the_budget_limits_the_candidates(budget: int) -> None:
    runner = FlagRunner(fixed_by("--never"))
    answer = found(runner, budget=budget)
    assert (answer.tried, answer.found) == (budget, ())
    assert answer.left > 0
    assert len([flags for name, flags in runner.asked if name == "3.3.0"]) == budget + 1
    answered = as_json(RemedyReport(answer).shape())
    assert answered["remedies"] == []
    assert answered["left"] == answer.left


def test_nothing_is_tried_twice() -> None:
    runner = FlagRunner(fixed_by("--never"))
    found(runner, budget=500)
    assert len(runner.asked) == len(set(runner.asked))


def test_an_unknown_flag_is_not_promising() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        return Untestable(Cause.FLAG, "does not know the flag") if flags else failed()

    answer = found(FlagRunner(behaviour))
    assert (answer.found, answer.promising) == ((), ())


def test_a_remedy_that_breaks_another_release_ranks_last() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        if name == "3.3.0":
            return Compiled() if flags & {IGEMM, TILE} else failed()
        return Untestable(Cause.FLAG, f"does not know the flag {IGEMM}") if IGEMM in flags else Compiled()

    answer = found(FlagRunner(behaviour, newest="3.13.0"), good="3.2.0")
    assert flags_of(answer) == [(TILE,), (IGEMM,)]
    answered = as_json(RemedyReport(answer).shape())["remedies"]
    assert [[one["name"] for one in remedy["verified_on"]] for remedy in answered] == [["3.3.0", "3.2.0", "3.13.0"], ["3.3.0"]]
    assert [[one["name"] for one in remedy["breaks"]] for remedy in answered] == [[], ["3.2.0", "3.13.0"]]


def test_a_release_that_fails_anyway_is_not_broken() -> None:
    behaviour = fixed_by(IGEMM)
    answer = found(FlagRunner(lambda flags, name: behaviour(flags, name) if name == "3.3.0" else failed(), newest="3.13.0"))
    assert [one.breaks for one in answer.found] == [()]
    assert [[revision.name for revision in one.verified_on] for one in answer.found] == [["3.3.0"]]


def test_a_missing_newest_release_is_a_note() -> None:
    assert "no network" in found(FlagRunner(fixed_by(IGEMM))).notes[0]


def test_an_own_flag_that_the_version_lacks_is_dropped() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        unknown = failed("unknown-flag").failure
        return Untestable(Cause.FLAG, "does not know --iree-opt-level", unknown) if flags else Compiled()

    answer = found(FlagRunner(behaviour), "--iree-opt-level=O3")
    assert [remedy.change.text for remedy in answer.found] == ["without --iree-opt-level"]
    assert as_json(RemedyReport(answer).shape())["remedies"][0]["dropped_flags"] == ["--iree-opt-level"]


@pytest.mark.parametrize(
    "outcome",
    [
        Compiled(),
        Untestable(Cause.INPUT, "does not parse", failed("parse-error").failure),
        Untestable(Cause.TARGET, "no such chip", failed("missing-target").failure),
    ],
)
def test_a_case_that_does_not_fail_has_nothing_to_remedy(outcome: Outcome) -> None:
    runner = FlagRunner(lambda flags, name: outcome)
    answer = find_remedies(runner, RemedyRequest(a_case(), a_place()))  # type: ignore[arg-type]
    assert isinstance(answer, NothingToRemedy)
    assert len(runner.asked) == 1
    answered = as_json(RemedyReport(answer).shape())
    assert (answered["remedies"], answered["tried"]) == ([], 0)


def trials(runner: FlagRunner, budget: int = 60) -> Trials:
    return Trials(runner, a_case(), a_place(), failed().failure, budget)  # type: ignore[arg-type]


def test_candidates_after_the_deadline_are_not_tried() -> None:
    runner = FlagRunner(lambda flags, name: failed())
    first, second = [single(GiveFlag("--a"))], [single(GiveFlag(f"--b{number}")) for number in range(9)]
    search(in_time := replace(trials(runner), deadline=inf), first, second)
    assert (in_time.tried, in_time.is_out_of_time) == (10, False)
    search(late := replace(trials(runner), deadline=-inf), first, second)
    assert (late.tried, late.is_out_of_time) == (0, True)
    request = RemedyRequest(a_case(), a_place(), seconds=0.0)
    answer = find_remedies(runner, request)  # type: ignore[arg-type]
    assert isinstance(answer, Remedies)
    assert (answer.tried, answer.is_out_of_time) == (0, True)


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("needed", [33, 34, 137, 1024, 65535, 65536])
def test_the_smallest_value_is_found(needed: int, jobs: int) -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        [text] = flags
        return Compiled() if int(text.partition("=")[2]) >= needed else failed()

    runner = FlagRunner(behaviour, jobs=jobs)
    largest = CaseChange((GiveFlag("--limit=65536"),), LeastValue("limit", 32, 65536))
    change, probe, seen_to_fail = with_smallest_value(trials(runner), largest, runner.probe(a_case("--limit=65536"), a_place()))
    assert change.flags == (f"--limit={needed}",)
    assert isinstance(probe.outcome, Compiled)
    assert seen_to_fail is (needed > 33)
    assert len(runner.asked) <= 20 * jobs


def test_the_smallest_power_of_two() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        [text] = flags
        value = int(text.partition("=")[2])
        assert value & (value - 1) == 0
        return Compiled() if value >= 200_000 else failed()

    runner = FlagRunner(behaviour)
    largest = CaseChange((GiveFlag("--limit=16777216"),), LeastValue("limit", 32768, 1 << 24, doubling=True))
    change, _, seen_to_fail = with_smallest_value(trials(runner), largest, runner.probe(a_case("--limit=16777216"), a_place()))
    assert (change.flags, seen_to_fail) == (("--limit=262144",), True)


@pytest.mark.parametrize(
    "half",
    [
        single(GiveFlag("--half", checks_less=True)),
        single(GiveFlag("--half", recomputes=True)),
        CaseChange((GiveFlag("--half"), RewrittenInput(Path("/nowhere/other.mlir"), "another", "It is another."))),
    ],
)
def test_a_partial_remedy_does_not_end_the_search(half: CaseChange) -> None:
    runner = FlagRunner(lambda flags, name: Compiled() if flags & {"--half", "--b"} else failed())
    run = trials(runner)
    search(run, [half], [single(GiveFlag("--a")), single(GiveFlag("--b"))])
    assert [change for change, _ in run.working] == [half, single(GiveFlag("--b"))]
    again = trials(runner)
    search(again, [single(GiveFlag("--half"))], [single(GiveFlag("--a")), single(GiveFlag("--b"))])
    assert [change.text for change, _ in again.working] == ["--half"]


def test_pairs_never_contradict_each_other() -> None:
    names = ("--a=true", "--a=false", "--b=true", "--c=true")
    changes = [single(GiveFlag(text)) for text in names]
    made = pairs([(change, failed().failure) for change in changes[:3]], changes)
    assert {frozenset(change.flags) for change in made} == {
        frozenset(pair) for pair in (
            ("--a=true", "--b=true"), ("--a=false", "--b=true"), ("--a=true", "--c=true"), ("--a=false", "--c=true"),
            ("--b=true", "--c=true"),
        )
    }  # fmt: skip


def test_the_same_program_ranks_before_a_cheaper_neighbour() -> None:
    def remedy(step: ChangeStep, registers: float) -> Remedy:
        measured = Measured(cpu_seconds=0.3, metrics={"registers": registers})
        return Remedy(single(step), Probe(a_case(), a_place().revision, "3.3.0", Compiled(), measured, cached=False))

    launched = remedy(SetOption("num_warps", 4), 103)
    another = remedy(Neighbour(a_case(), (("n", "32"),)), 44)
    assert ranked([another, launched]) == (launched, another)
