"""The result cache: what it keeps, and what damage, kills and other processes do to it."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from triage.execution.cache import Record, ResultCache
from triage.model.execution import Captured, Ending, Execution, PassName

COUNT = 40


@cache
def record(number: int) -> Record:
    # Random text does not compress: rows of some hundred bytes, and every tenth larger
    # than a page.
    noise = random.Random(number).randbytes(4000 if number % 10 == 0 else 100).hex()
    execution = Execution(
        ("cc", noise),
        Ending.EXITED,
        1,
        stderr=Captured("error: x", "tail", 7),
        failing_pass=PassName("SomePass", "iree-some-pass"),
        flaky=True,
    )
    names = f"key{number}", f"case{number % 4}", f"3.{number % 5}.0"
    return Record(*names, execution)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evidence") / "evidence.db"
    with closing(ResultCache(path)) as store:
        for number in range(COUNT):
            store.add(record(number))
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "evidence.db"))


def test_what_another_version_wrote_is_not_found(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        [(version,)] = db.execute("PRAGMA user_version").fetchall()
        db.execute(f"PRAGMA user_version = {version - 1}")
    with closing(ResultCache(path)) as store, closing(ResultCache(path)) as other:
        assert store.find_all("key1") == [None]
        other.add(record(100))
        assert store.find_all("key100") == [record(100).execution]


SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 300)]


@pytest.mark.parametrize("seed", [*range(20), *SLOW])
def test_a_flipped_bit_is_a_miss_or_a_new_file(path: Path, seed: int) -> None:
    place = random.Random(seed)
    data = bytearray(path.read_bytes())
    index = place.randrange(len(data))
    if seed % 2:  # headers of the file or of pages, where it does most damage
        index = index // 4096 * 4096 + place.randrange(100)
    data[index] ^= 1 << place.randrange(8)
    path.write_bytes(data)
    with closing(ResultCache(path)) as store:
        for number in place.sample(range(COUNT), 10):
            [execution] = store.find_all(f"key{number}")
            assert execution in (None, record(number).execution)
        store.newest_of("case1")
        store.add(record(100))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:8192],
        lambda data: b"no database" * 400,
        lambda data: data[:100] + b"\xff" * 4000 + data[4100:],
        lambda data: data[:18] + b"\x09\x09" + data[20:],  # a format that is read only
    ],
)
def test_a_corrupt_file_is_deleted_and_the_run_goes_on(
    path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path.write_bytes(damage(path.read_bytes()))
    warnings: list[str] = []
    with closing(ResultCache(path, warnings.append)) as store:
        store.find_all("key1")
        store.add(record(100))
        store.newest_of("case0")
        assert store.find_all("key100") == [record(100).execution]
    [warning] = warnings
    assert str(path) in warning
