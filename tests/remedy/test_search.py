"""The search for remedies, with a compiler that is a function of its flags."""

from __future__ import annotations

import time

import pytest

from tests.remedy.flag_compiler import Behaviour, FlagEngine, a_case, a_place, failed
from triage.model.errors import Interrupted
from triage.model.fields import as_json
from triage.model.outcome import Cause, NoAnswer, Outcome, Passed
from triage.remedy.candidates import RemedyRequest
from triage.remedy.result import Remedies
from triage.remedy.search import find_remedies

LIMIT = "iree-stream-affinity-solver-max-iterations"
IGEMM = "--iree-codegen-llvmgpu-use-igemm=false"
TILE = "--iree-codegen-llvmgpu-test-tile-and-fuse-vectorize=true"


def searched(engine: FlagEngine, *flags: str, **more: object) -> Remedies:
    """Find remedies. more: of the request."""
    request = RemedyRequest(a_case(*flags), **{"bad": a_place()} | more)  # type: ignore[arg-type]
    return find_remedies(engine, request)  # type: ignore[arg-type]


def flags_of(answer: Remedies) -> list[tuple[str, ...]]:
    return [remedy.flags for remedy in answer.remedies]


def works_with(*wanted: str) -> Behaviour:
    """Fail on 3.3.0 without one of these flags."""
    return lambda flags, name: (
        Passed() if name != "3.3.0" or flags & {*wanted} else failed()
    )


def test_the_whole_first_tier_is_tried_and_a_flag_for_users_comes_first() -> None:
    seconds = {TILE: 0.5, IGEMM: 8.0}
    engine = FlagEngine(
        works_with(*seconds),
        seconds=lambda flags: min(
            (seconds.get(flag, 8.0) for flag in flags), default=8.0
        ),
    )
    assert flags_of(searched(engine)) == [(IGEMM,), (TILE,)]


@pytest.mark.parametrize(
    ("limit", "tried", "cause"),
    [({"budget": 12}, 12, Cause.NOT_FOUND), ({"seconds": -1.0}, 0, Cause.TIME)],
)
def test_budget_and_time_limit_the_candidates(
    limit: dict[str, object], tried: int, cause: Cause
) -> None:
    engine = FlagEngine(works_with())
    answer = searched(engine, **limit)
    assert (answer.tried, answer.cause, answer.remedies) == (tried, cause, ())
    assert len(engine.asked) == 1 + tried
    assert answer.left > 0
    assert f"{tried} of {tried + answer.left} candidates tried" in (answer.reason or "")


def test_a_remedy_that_breaks_another_release_ranks_last() -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        if name != "3.3.0" and IGEMM in flags:
            return NoAnswer(Cause.FLAG, "does not know it")
        return works_with(IGEMM, TILE)(flags, name)

    engine = FlagEngine(behaviour, newest="3.13.0")
    answer = searched(engine, good=a_place("3.2.0"))
    remedies = {remedy["flags"][0]: remedy for remedy in as_json(answer)["remedies"]}
    assert [
        [
            flag,
            *(
                [one["name"] for one in remedy[key]]
                for key in ("verified_on", "breaks")
            ),
        ]
        for flag, remedy in remedies.items()
    ] == [
        [TILE, ["3.3.0", "3.2.0", "3.13.0"], []],
        [IGEMM, ["3.3.0"], ["3.2.0", "3.13.0"]],
    ]
    assert remedies[IGEMM]["cost"]["dispatches"] == 5


@pytest.mark.parametrize(("bad", "upgrade"), [("3.3.0", "3.13.0"), ("3.14.0rc1", None)])
def test_an_upgrade_is_a_remedy_also_if_no_flag_works(
    bad: str, upgrade: str | None
) -> None:
    engine = FlagEngine(
        lambda flags, name: failed() if name == bad else Passed(), newest="3.13.0"
    )
    answer = searched(engine, bad=a_place(bad))
    assert answer.remedies == ()
    assert (answer.upgrade and answer.upgrade.name) == upgrade


@pytest.mark.parametrize(
    "outcome",
    [
        Passed(),
        NoAnswer(Cause.INPUT, "does not parse", failed("parse-error").failure),
    ],
)
def test_a_case_that_does_not_fail_has_nothing_to_remedy(outcome: Outcome) -> None:
    engine = FlagEngine(lambda flags, name: outcome)
    answer = searched(engine)
    assert answer.failure is None
    assert len(engine.asked) == 1
    answered = as_json(answer)
    assert (answered["remedies"], answered["tried"]) == ([], 0)


@pytest.mark.parametrize("checked_on", ["3.2.0", "3.3.0"])
def test_remedies_that_were_found_outlive_the_end_of_the_time(checked_on: str) -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        if name == "3.2.0" or (checked_on == name and len(engine.asked) > 7):
            time.sleep(0.3)
            raise Interrupted("stopped")
        return Passed() if IGEMM in flags else failed()

    engine, good = FlagEngine(behaviour, seconds=lambda flags: 0.0), a_place("3.2.0")
    assert flags_of(searched(engine, good=good, seconds=0.2)) == [(IGEMM,)]
    with pytest.raises(Interrupted):  # Ctrl-C
        searched(engine, good=good)


@pytest.mark.parametrize(("needed", "value"), [(33, 64), (65536, 65536)])
def test_the_first_value_that_works_is_found(needed: int, value: int) -> None:
    def behaviour(flags: frozenset[str], name: str) -> Outcome:
        values = [int(text.rpartition("=")[2]) for text in flags if LIMIT in text]
        failure = failed("affinity-non-convergence")
        return Passed() if any(value >= needed for value in values) else failure

    assert flags_of(searched(FlagEngine(behaviour))) == [(f"--{LIMIT}={value}",)]
