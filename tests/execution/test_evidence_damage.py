"""Damage to the evidence database: bits, rows, whole files, and processes killed while they set a file aside."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.execution.test_evidence import record
from triage.execution.cache import SCHEMA_VERSION, Evidence, Record
from triage.execution.evidence_recovery import check_store, repair_store, set_aside_files
from triage.model.errors import EnvironmentFailure, TriageError

ROOT = str(Path(__file__).parents[2])
COUNT = 40


def numbered(number: int, text: str = "error: x") -> Record:
    changed = replace(record(f"key{number}", text), case_name=f"case{number % 4}", toolchain=f"3.{number % 5}.0")
    # Random text does not compress: rows of some hundred bytes, and every tenth larger than a page.
    noise = random.Random(number).randbytes(4000 if number % 10 == 0 else 100).hex()
    return replace(changed, execution=replace(changed.execution, argv=("cc", noise)))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evidence") / "evidence.db"
    with closing(Evidence(path)) as store:
        for number in range(COUNT):
            store.add(numbered(number))
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "evidence.db"))


def lines_of(path: Path) -> list[str]:
    with closing(Evidence(path)) as store:
        return list(store.export())


def statement(path: Path, text: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(text, values)


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[] if seed < 30 else pytest.mark.slow) for seed in range(300)])
def test_a_flipped_bit_never_escapes_as_an_error_of_a_library(original: Path, path: Path, seed: int) -> None:
    """What the flip did not hit is still there after a repair, and nothing wrong is ever read."""
    intact = set(lines_of(original))
    place = random.Random(seed)
    data = bytearray(path.read_bytes())
    # Half of the flips hit headers of the file or of pages, where they do most damage.
    index = place.randrange(len(data)) if seed % 2 else place.randrange(len(data) // 4096) * 4096 + place.randrange(100)
    data[index] ^= 1 << place.randrange(8)
    path.write_bytes(data)
    try:
        check = check_store(path)
        with closing(Evidence(path)) as store:
            for number in place.sample(range(COUNT), 10):
                assert store.find(f"key{number}") in (None, numbered(number))
                store.last_peak_mb(f"case{number % 4}")
            assert {record.toolchain for record in store.newest_of("case1")} <= {f"3.{number}.0" for number in range(5)}
            store.load(list(intact)[:1], "file")
        assert set(lines_of(path)) <= intact
    except TriageError as error:
        assert error.exit_code == 4  # noqa: PT017 - one of two outcomes
        return
    assert len(intact) - check.results <= 20  # the rows of one page
    if not check.intact:
        repair_store(path, [check_store(source) for source in (path, *set_aside_files(path))])
        assert len(set(lines_of(path)) & intact) >= check.results
        assert check_store(path).intact


@pytest.mark.parametrize("column", ["facts", "digest"])
def test_a_damaged_row_is_unknown_and_the_newer_one_wins(path: Path, column: str) -> None:
    statement(path, f"UPDATE probes SET {column} = ? WHERE key = 'key7'", b"\xff" if column == "facts" else "0" * 64)
    warnings: list[str] = []
    store = Evidence(path, warnings.append)
    assert store.find("key7") is None
    assert store.find("key7") is None
    assert len(list(store.export())) == COUNT - 1
    assert store.find("key8") == numbered(8)
    newer = replace(numbered(7), at="2026-02-02T00:00:00+00:00")
    assert store.add(newer)
    assert store.find("key7") == newer
    store.close()
    assert len(warnings) == 1
    assert (check_store(path).results, check_store(path).damaged) == (COUNT, 1)


def test_an_import_replaces_a_damaged_row_of_the_same_digest(original: Path, path: Path) -> None:
    statement(path, "UPDATE probes SET facts = ? WHERE key = 'key7'", zlib.compress(b"{}"))
    lines = lines_of(original)
    store = Evidence(path)
    done = store.load(lines, "file")
    assert (done.added, done.known) == (1, COUNT - 1)
    assert store.find("key7") == numbered(7)


def test_a_row_that_an_index_names_by_mistake_is_not_the_answer(path: Path) -> None:
    statement(path, "UPDATE probes SET key = 'key8' WHERE key = 'key7'")
    store = Evidence(path)
    assert store.find("key7") is None
    assert store.find("key8") == numbered(8)
    assert check_store(path).damaged == 1


def test_rows_of_older_versions_that_cannot_be_read_are_skipped(path: Path) -> None:
    """Older versions stored infinite numbers. Their checksums fit."""
    text = lines_of(path)[7].replace('"cpu_seconds":2.5', '"cpu_seconds":Infinity').encode()
    digest = sha256(text).hexdigest()
    statement(path, "UPDATE probes SET digest = ?, facts = ? WHERE key = 'key7'", digest, zlib.compress(text))
    assert Evidence(path).find("key7") is None
    assert len(lines_of(path)) == COUNT - 1


def test_numbers_about_a_case_survive_a_damaged_row(path: Path) -> None:
    statement(path, "UPDATE probes SET facts = x'00' WHERE key = 'key39'")
    store = Evidence(path)
    assert store.last_peak_mb("case3") is None
    assert store.last_peak_mb("case2") == 300.0
    assert [record.toolchain for record in store.newest_of("case3")] == ["3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0"]


DAMAGE = {
    "no database": lambda data: b"this is not sqlite" * 1000,
    "half": lambda data: data[: len(data) // 2],
    "not a whole page": lambda data: data[: len(data) - 1000],
    "header": lambda data: b"\xff" * 100 + data[100:],
    "root pages": lambda data: data[:4096] + bytes(8192) + data[12288:],
    "read only": lambda data: data[:18] + b"\x03" + data[19:],
    "schema": lambda data: data.replace(b"facts BLOB", b"fakts BLOB"),
    "one page": lambda data: data[:100],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_corrupt_file_is_set_aside_and_its_readable_rows_come_back(original: Path, path: Path, damage: str) -> None:
    path.write_bytes(damaged := DAMAGE[damage](path.read_bytes()))
    warnings: list[str] = []
    with closing(Evidence(path, warnings.append)) as store:
        for number in range(COUNT):
            store.find(f"key{number}")
        assert store.add(numbered(3, "newer"))
    [aside] = set_aside_files(path)
    assert aside.read_bytes() == damaged
    assert len(warnings) == 1
    assert str(aside) in warnings[0]
    checks = repair_store(path, [check_store(source) for source in (path, aside)])
    assert checks[1].recovered == checks[1].results
    assert checks[1].results == COUNT or damage not in ("header", "read only", "schema")
    assert set_aside_files(path) == []
    assert len(lines_of(path)) == checks[1].results + 1
    with closing(Evidence(path)) as store:
        assert store.find("key3") == numbered(3, "newer")  # and not the recovered one, which is older
    assert check_store(path).intact


def test_an_export_of_a_corrupt_file_is_not_taken_for_complete(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:8192])
    with pytest.raises(EnvironmentFailure), closing(Evidence(path)) as store:
        list(store.export())


def test_the_write_ahead_log_goes_with_the_file(original: Path, tmp_path: Path) -> None:
    """A process that was killed leaves rows in the log only."""
    path = tmp_path / "home" / "evidence.db"
    path.parent.mkdir()
    store = Evidence(path)
    store.add(numbered(1))
    for name in ("evidence.db", "evidence.db-wal"):
        shutil.copy(path.parent / name, tmp_path / name)
    store.close()
    path = tmp_path / "evidence.db"
    path.write_bytes(b"")
    with closing(Evidence(path)) as store:
        assert store.find("key1") is None
    assert [check.recovered for check in repair_store(path, [check_store(source) for source in set_aside_files(path)])] == [1]
    with closing(Evidence(path)) as store:
        assert store.find("key1") == numbered(1)


def test_a_database_of_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    statement(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    for action in (Evidence, check_store):
        with pytest.raises(EnvironmentFailure, match="newer version"):
            action(path)
    assert path.read_bytes() == before
    assert {file.name for file in path.parent.iterdir()} <= {"evidence.db", "evidence.db.lock"}


def test_a_database_without_a_schema_number_is_migrated(path: Path) -> None:
    statement(path, "PRAGMA user_version = 0")
    assert len(lines_of(path)) == COUNT
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.execution.test_evidence_damage import numbered
from triage.execution.cache import Evidence
"""


def run_child(path: Path, code: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CHILD + code, str(path), ROOT, *words])


def test_processes_that_meet_a_corrupt_file_together_all_go_on(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9000])
    code = "store = Evidence(Path(sys.argv[1]))\nfor n in range(20): store.add(numbered(100 + 20 * int(sys.argv[3]) + n))\n"
    children = [run_child(path, code, str(number)) for number in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    assert len(set_aside_files(path)) == 1
    assert len(lines_of(path)) == 80


def test_a_process_follows_when_another_one_sets_the_file_aside(path: Path) -> None:
    first, second = Evidence(path), Evidence(path)
    aside = first.start_anew()
    assert second.add(numbered(100))
    assert first.find("key100") == numbered(100)
    second.close()
    first.add(numbered(101))
    first.close()
    assert len(lines_of(path)) == 2
    assert check_store(aside).results == COUNT


SLOW_STEPS = [pytest.param(step, marks=pytest.mark.slow) for step in ("hardlink_to", "unlink")]


@pytest.mark.parametrize("step", ["replace", *SLOW_STEPS])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_while_a_file_is_set_aside_loses_nothing(path: Path, step: str, moment: str) -> None:
    killed = run_child(path, "Evidence(Path(sys.argv[1])).add(numbered(100))\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert killed.wait() == -signal.SIGKILL
    code = f"""
store = Evidence(Path(sys.argv[1]))
step = Path.{step}
def kill(*words, **options):
    if {moment == "after"}: step(*words, **options)
    os.kill(os.getpid(), signal.SIGKILL)
Path.{step} = kill
store.start_anew()
"""
    assert run_child(path, code).wait() == -signal.SIGKILL
    with closing(Evidence(path)) as store:
        store.add(numbered(101))
    repair_store(path, [check_store(source) for source in (path, *set_aside_files(path))])
    assert {json.loads(line)["key"] for line in lines_of(path)} == {f"key{number}" for number in (*range(COUNT), 100, 101)}
