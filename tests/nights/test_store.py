"""Nights are stored, read again, compared and removed; damage loses only what is damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.nights.documents import night, nights
from triage.cli.nights import flaky_in_nights, open_nights
from triage.model.errors import EnvironmentFailure
from triage.model.revision import Revision
from triage.nights.history import load_history
from triage.nights.store import NightStore
from triage.report.night_record import ClusterRecord
from triage.report.site import Site
from triage.report.stored_nights import record_in, stored_night

HISTORIES = {"stable": "PPPPP", "breaks": "PPFFF", "mended": "FFFPP", "flips": "PGPGP", "late": "---PU", "known": "XXXXX"}
AT = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def store(tmp_path: Path) -> NightStore:
    store = NightStore(tmp_path)
    for record in nights(HISTORIES):
        assert store.add(stored_night(record, None, AT))
    return store


def test_a_stored_night_is_the_night_that_was_stored(tmp_path: Path) -> None:
    written, store = night(1, {name: letters[-1] for name, letters in HISTORIES.items()}), NightStore(tmp_path)
    number = store.add(stored_night(written, None, AT))
    assert number
    stored = store.night(number)
    assert stored
    read = record_in(stored)
    assert {case.case: case for case in read.cases} == {case.case: case for case in written.cases}
    assert replace(read, cases=[]) == replace(written, cases=[])


def test_the_same_night_is_stored_once(store: NightStore) -> None:
    assert store.add(stored_night(nights(HISTORIES)[2], None, AT)) is None
    assert len(store.heads()) == 5


def test_a_history_has_the_runs_of_equal_states(store: NightStore) -> None:
    history = load_history(store)
    runs = {name: [(run.first, run.last, run.failed) for run in history.runs[row]] for name, row in history.numbers.items()}
    assert runs["stable"] == [(0, 4, False)]
    assert runs["breaks"] == [(0, 1, False), (2, 4, True)]
    assert runs["late"] == [(3, 3, False), (4, 4, False)]
    assert history.kind_of(history.numbers["breaks"], 2)["signature"] == "legalize:x"
    assert history.facts[history.numbers["late"]]["backend"] == "llvm-cpu"
    assert history.metrics["cpu_seconds"][history.numbers["stable"]].tolist() == [1.5] * 5


def test_a_nightly_learns_from_stored_nights_which_cases_are_flaky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_HOME", str(tmp_path))
    store = open_nights()
    letters = {"flaky": "PFPF", "edited": "FFPP", "classified": "FGFG", "steady": "FFFF", "skipped": "PUPU"}
    for day in range(4):
        record = night(day + 1, {name: states[day] for name, states in letters.items()})
        assert store.add(stored_night(replace(record, toolchain=Revision("path:build", "a" * 40)), None, AT))
    is_flaky = flaky_in_nights()
    assert [name for name in (*letters, "unknown") if is_flaky(name)] == ["flaky"]
    assert not load_history(store).is_unsteady("flaky", nights=2)


def test_a_case_is_flaky_if_only_its_result_changes(tmp_path: Path) -> None:
    store = NightStore(tmp_path)
    for day, letter in enumerate("PFPF", 1):
        same = night(1, {}).toolchain if day < 3 else night(9, {}).toolchain
        store.add(stored_night(night(day, {"a": letter, "b": "P"}, toolchain=same), None, AT))
    assert load_history(store).flaky == {"a": 2}  # from the second night to the third, the compiler changed


def test_a_removed_night_takes_its_texts_and_files_with_it(tmp_path: Path) -> None:
    (tmp_path / "out" / "r").mkdir(parents=True)
    (tmp_path / "out" / "r" / "input.mlir").write_text("module {}")
    store = NightStore(tmp_path)
    cluster = ClusterRecord(signature="legalize:x", id="1", cases=["gone"], reproducer="r", representative="gone")
    first = store.add(stored_night(night(1, {"gone": "F"}, clusters=[cluster]), tmp_path / "out", AT))
    store.add(stored_night(night(2, {"stays": "P"}), None, AT))
    assert first
    assert store.file("r/input.mlir", first) == b"module {}"
    store.remove([first])
    assert [len(store.heads()), store.file("r/input.mlir", first)] == [1, None]
    assert not any("gone" in text for text in store.texts().values())
    assert load_history(store).cases == ("stays",)


def test_a_damaged_night_is_left_out_with_a_warning(store: NightStore) -> None:
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE columns SET data = x'00' WHERE night = 3 AND name = 'state'")
    warnings: list[str] = []
    history = load_history(NightStore(store.path.parent, warn=warnings.append))
    assert [night.number for night in history.nights] == [1, 2, 4, 5]
    assert len(warnings) == 1


@pytest.mark.parametrize("change", ["UPDATE texts SET text = '{' || id WHERE text LIKE '{%'", "DELETE FROM texts"])
def test_damaged_texts_hide_no_night(store: NightStore, tmp_path: Path, change: str) -> None:
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute(change)
    history = load_history(store)
    assert (len(history.nights), len(history.cases)) == (5, len(HISTORIES))
    assert Site(store, tmp_path / "public").write().nights == 5


def test_a_damaged_database_is_set_aside(store: NightStore) -> None:
    store.path.write_bytes(b"garbage" * 1000)
    warnings: list[str] = []
    again = NightStore(store.path.parent, warn=warnings.append)
    assert again.heads() == ()
    assert len(warnings) == 1
    assert store.path.with_name("nights.db.corrupt").read_bytes() == b"garbage" * 1000


def test_a_database_of_a_newer_version_is_refused(store: NightStore) -> None:
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(EnvironmentFailure):
        NightStore(store.path.parent).heads()
