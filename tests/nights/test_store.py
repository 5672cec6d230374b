"""Nights are stored and read again; damage loses only what is damaged. Failures live
from night to night.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.nightly.test_night import FIX, TILE
from tests.nights.conftest import Stored
from tests.nights.documents import case_result, night, nights
from triage.cli.nights import earlier_nights
from triage.investigate.result import StepResult
from triage.model.errors import BadInput
from triage.model.revision import Revision, ToolchainKind
from triage.nightly.history import find_steps
from triage.nightly.lives import FailureLife, failure_lives
from triage.nightly.result import Night
from triage.nightly.store import NightStore
from triage.toolchains.home import Home

LIVES = yaml.safe_load(Path(__file__).with_name("lives.yaml").read_text())
HISTORIES = {
    "stable": "PPPPP",
    "breaks": "PPFFF",
    "mended": "FFFPP",
    "flips": "PGPGP",
    "late": "---PU",
    "known": "XXXXX",
}


def test_the_same_night_is_stored_once(stored: Stored) -> None:
    assert stored(*nights(HISTORIES), nights(HISTORIES)[2]).numbers() == [1, 2, 3, 4, 5]


def test_a_damaged_night_is_left_out(stored: Stored) -> None:
    records = nights(HISTORIES)
    place = stored(*records).path
    [damaged] = (place / "3").glob("*.z")
    content = damaged.read_bytes()
    cuts = [content[:size] for size in range(0, len(content) - 5, 10)]
    are_listed = set()
    for damage in (b"garbage" * 1000, zlib.compress(b"{}"), *cuts):
        damaged.write_bytes(damage)
        warnings: list[str] = []
        store = NightStore(Home(place.parent), warn=warnings.append)
        # histories need the first parts of a file only
        numbers = [night.summary.number for night in store.history().nights]
        assert len(numbers) + len(warnings) == 5
        assert {1, 2, 4, 5} <= set(numbers)
        are_listed.add(3 in numbers)
        with pytest.raises(BadInput):
            store.night_named("3")
    assert are_listed == {True, False}


def test_a_nightly_learns_from_stored_nights_which_cases_are_flaky(
    stored: Stored,
) -> None:
    letters = {"flaky": "PFPF", "other": "FGFG", "once": "FFPP", "skipped": "PUPU"}
    same = Revision("path:build", "a" * 40)
    stored(*(replace(record, toolchain=same) for record in nights(letters)))
    history = earlier_nights()()
    assert list(filter(history.is_flaky, letters)) == ["flaky", "other"]


def lives_of(stored: Stored, *records: Night) -> list[FailureLife]:
    return failure_lives(stored(*records).history())


@pytest.mark.parametrize("row", LIVES["apart"])
def test_failures_with_one_signature_are_told_apart_by_when_they_came(
    stored: Stored, row: Any
) -> None:
    lives = lives_of(stored, *nights(row["nights"]))
    assert len({life.page for life in lives}) == len(lives)
    names = [
        " ".join(sorted(case.case for case in life.cases))
        for life in lives
        if life.failure.signature == "legalize:x"
    ]
    assert names == row["lives"]


def test_a_failure_keeps_what_the_night_that_knew_most_found_out(
    stored: Stored,
) -> None:
    first, second, last = nights({"a": "FFF", "b": "PFF"})
    steps = [StepResult("reduce", "done")]
    known = replace(second.clusters[0], steps=steps, representative="a")
    second = replace(second, clusters=[known])
    nights_of = [life.found_in for life in lives_of(stored, first, second, last)]
    # another compiler may have brought it to `b`, which was not investigated
    assert [night and night.started for night in nights_of] == [
        last.started,
        second.started,
    ]


def test_a_failure_keeps_its_culprit_next_to_a_case_without_one(
    stored: Stored,
) -> None:
    [record] = nights({"a": "F"})
    [known] = record.clusters
    clusters = [replace(known, culprit=culprit) for culprit in (TILE, FIX)]
    [life] = lives_of(stored, replace(record, clusters=clusters))
    assert life.cluster.culprit == TILE


def test_a_night_that_found_two_changes_has_two_failures(stored: Stored) -> None:
    first, second = nights({"a": "PF", "b": "PF"})
    [whole] = second.clusters
    parts = [replace(whole, cases=["a"]), replace(whole, id="x.2", cases=["b"])]
    assert len(lives_of(stored, first, replace(second, clusters=parts))) == 2


@pytest.mark.parametrize("row", LIVES["states"])
def test_a_failure_has_a_state_and_only_the_last_night_brings_it(
    stored: Stored, row: Any
) -> None:
    letters = row["nights"]
    lives = lives_of(stored, *nights({"a": letters, "b": "P" * len(letters)}))
    [life] = [life for life in lives if life.failure.signature == "legalize:x"]
    assert (life.state, life.is_new) == (row["state"], row.get("is_new", False))


def test_nothing_is_compared_across_tracks(stored: Stored) -> None:
    """A pass with a release says nothing about a nightly, and neither does one of
    another compiler.
    """
    release = Revision("3.9.0", None, "2026-01-02")
    history = stored(
        night(1, {"a": "F"}),
        night(2, {"a": "P"}, toolchain=release, kind=ToolchainKind.RELEASE),
        night(3, {}, cases=[case_result("a", "P", compiler="triton")]),
    ).history()
    assert [life.state for life in failure_lives(history)] == ["open"]
    assert len(history.tracks) == 3


def test_a_pass_with_an_older_toolchain_closes_nothing(stored: Stored) -> None:
    history = stored(
        night(1, {"a": "F", "first": "P"}, toolchain=Revision("3.3.0")),
        night(2, {"a": "P", "second": "P"}, toolchain=Revision("3.2.0")),
    ).history()
    assert [life.state for life in failure_lives(history)] == ["open"]
    # a case without a result that counts is left out
    assert [case.case for case in history.cases] == ["a", "first"]


@pytest.mark.parametrize("at", [20, 115])
def test_a_step_is_found_where_it_is(at: int) -> None:
    noise = np.random.default_rng(at)
    values = dict(enumerate(10 * np.exp(noise.normal(0, 0.02, 120))))
    values |= {night: 1.2 * values[night] for night in range(at, 120)}
    del values[5]
    [step] = find_steps(values)
    assert (step.before, step.at) == (at - 1, at)
    assert step.ratio == pytest.approx(1.2, rel=0.03)


def test_outliers_are_no_step() -> None:
    noise = np.random.default_rng(1)
    for values in 10 * np.exp(noise.normal(0, 0.02, (20, 120))):
        values[30] *= 3
        values[77] *= 0.5
        assert list(find_steps(dict(enumerate(values)))) == []
    assert list(find_steps(dict.fromkeys(range(50), 2.0))) == []
