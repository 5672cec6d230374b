"""Nights are stored, read again and removed; damage loses only what is damaged.
Failures live from night to night.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.nights.documents import case_result, night, nights
from triage.cli.nights import earlier_nights, open_nights
from triage.investigate.result import StepResult
from triage.model.revision import Revision, ToolchainKind
from triage.nightly.history import NightsHistory, find_steps
from triage.nightly.lives import FailureLife, failure_lives
from triage.nightly.result import Night
from triage.nightly.store import NightStore
from triage.toolchains.home import Home

HISTORIES = {
    "stable": "PPPPP",
    "breaks": "PPFFF",
    "mended": "FFFPP",
    "flips": "PGPGP",
    "late": "---PU",
    "known": "XXXXX",
}


def stored(folder: Path, *records: Night) -> NightStore:
    store = NightStore(Home(folder))
    for record in records:
        store.add(record)
    return store


@pytest.fixture
def store(tmp_path: Path) -> NightStore:
    return stored(tmp_path, *nights(HISTORIES))


def history_of(tmp_path: Path, **histories: str) -> NightsHistory:
    return stored(tmp_path, *nights(histories)).history()


def test_the_same_night_is_stored_once(store: NightStore) -> None:
    assert store.add(nights(HISTORIES)[2]) is None
    assert store.numbers() == [1, 2, 3, 4, 5]


def parts_of(content: bytes) -> list[int]:
    """Return where each part of a stored night ends."""
    ends, rest = [], content
    while rest:
        reader = zlib.decompressobj()
        reader.decompress(rest)
        rest = reader.unused_data
        ends.append(len(content) - len(rest))
    return ends


def test_a_damaged_night_is_left_out(store: NightStore) -> None:
    [damaged] = (store.path / "3").glob("*.z")
    content = damaged.read_bytes()
    needed = parts_of(content)[1] - 10  # by histories
    cuts = [content[:size] for size in range(0, needed, 10)]
    for damage in (b"garbage" * 1000, zlib.compress(b"{}"), *cuts):
        damaged.write_bytes(damage)
        warnings: list[str] = []
        history = NightStore(Home(store.path.parent), warn=warnings.append).history()
        assert [night.summary.number for night in history.nights] == [1, 2, 4, 5]
        assert len(warnings) == 1


def test_a_nightly_learns_from_stored_nights_which_cases_are_flaky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_HOME", str(tmp_path))
    letters = {"flaky": "PFPF", "other": "FGFG", "once": "FFPP", "skipped": "PUPU"}
    same = Revision("path:build", "a" * 40)
    for record in nights(letters):
        open_nights().add(replace(record, toolchain=same))
    history = earlier_nights()()
    assert list(filter(history.is_flaky, letters)) == ["flaky", "other"]


def lives_of(history: NightsHistory, signature: str = "") -> list[FailureLife]:
    return [
        life
        for life in failure_lives(history)
        if signature in ("", life.failure.signature)
    ]


def cases_of(life: FailureLife) -> list[str]:
    return sorted(case.case for case in life.cases)


@pytest.mark.parametrize(
    ("histories", "cases"),
    [
        ({"a": "PFF", "b": "PFF"}, [["a", "b"]]),
        ({"a": "PFFF", "b": "PPPF"}, [["b"], ["a"]]),
        ({"a": "PFFP", "b": "P--F"}, [["a", "b"]]),
        ({"a": "PFFF", "b": "P-FF"}, [["a", "b"]]),
        ({"a": "FFFF", "b": "PFFF"}, [["b"], ["a"]]),
        ({"a": "FFFF", "b": "FFFF"}, [["a", "b"]]),
        ({"a": "PFPF"}, [["a"], ["a"]]),
        ({"a": "PFUF"}, [["a"]]),
        ({"a": "PFXF"}, [["a"]]),
        ({"a": "PFGF"}, [["a"], ["a"]]),
    ],
)
def test_failures_with_one_signature_are_told_apart_by_when_they_came(
    tmp_path: Path, histories: dict[str, str], cases: list[list[str]]
) -> None:
    history = history_of(tmp_path, **histories)
    assert list(map(cases_of, lives_of(history, "legalize:x"))) == cases
    pages = [life.page for life in failure_lives(history)]
    assert len(set(pages)) == len(pages)


def test_a_failure_keeps_what_the_night_that_knew_most_found_out(
    tmp_path: Path,
) -> None:
    first, second, last = nights({"a": "FFF", "b": "PFF"})
    found = replace(
        second.clusters[0],
        steps=[StepResult("reduce", "done")],
        representative="a",
    )
    second = replace(second, clusters=[found])
    lives = failure_lives(stored(tmp_path, first, second, last).history())
    [of_b, of_a] = [life.found_in for life in lives]
    assert of_a
    assert of_a.started == second.started
    # another compiler may have brought it to the case that was not investigated
    assert of_b
    assert of_b.started == last.started


@pytest.mark.parametrize(
    ("letters", "state", "is_new"),
    [
        ("PF--", "open", False),
        ("PFUU", "open", False),
        ("PFXX", "known", False),
        ("PFGG", "gone", False),
        ("PPPF", "open", True),
        ("PPFF", "open", False),
        ("PPPX", "known", False),
        ("PPGF", "open", True),
        ("FFFF", "open", False),
        # compared with the baseline
        ("F", "open", True),
    ],
)
def test_a_failure_has_a_state_and_only_the_last_night_brings_it(
    tmp_path: Path, letters: str, state: str, is_new: bool
) -> None:
    history = history_of(tmp_path, a=letters, b="P" * len(letters))
    [life] = lives_of(history, "legalize:x")
    assert (life.state, life.is_new) == (state, is_new)


def test_nothing_is_compared_across_tracks(tmp_path: Path) -> None:
    """A pass with a release says nothing about a nightly, and neither does one of
    another compiler.
    """
    release = Revision("3.9.0", None, "2026-01-02")
    history = stored(
        tmp_path,
        night(1, {"a": "F"}),
        night(2, {"a": "P"}, toolchain=release, kind=ToolchainKind.RELEASE),
        night(3, {}, cases=[case_result("a", "P", compiler="triton")]),
    ).history()
    assert [life.state for life in failure_lives(history)] == ["open"]
    assert len(history.tracks) == 3


def test_a_pass_with_an_older_toolchain_closes_nothing(tmp_path: Path) -> None:
    records = [
        night(day, {"a": letter, f"only with {name}": "P"}, toolchain=Revision(name))
        for day, (name, letter) in enumerate([("3.3.0", "F"), ("3.2.0", "P")], 1)
    ]
    history = stored(tmp_path, *records).history()
    assert [life.state for life in failure_lives(history)] == ["open"]
    # a case without a result that counts is left out
    assert [case.case for case in history.cases] == ["a", "only with 3.3.0"]


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
