"""Check an evidence database, and read the intact rows of one that SQLite can no longer read, page by page.

The pages are laid out as in https://www.sqlite.org/fileformat2.html. Reading them can be simple, because the checksum of a row
tells whether it was read correctly.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from triage.execution.cache import DAMAGED, SCHEMA_VERSION, Evidence, verified
from triage.toolchains.home import disk_errors
from triage.toolchains.sqlite_files import check_version, connect_read_only, exclusive, set_aside, when_free

RECOVERED = ".recovered-"
_TABLE_LEAF = 0x0D
_COLUMNS = 8
_DIGEST, _FACTS = 1, 7
_INT_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8}
_WAL_HEADER, _FRAME_HEADER = 32, 24
_DEFAULT_PAGE_SIZE = 4096


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """What an evidence database holds. problem: what SQLite reports about the file; recovered: rows added to the store."""

    path: Path
    results: int
    damaged: int
    problem: str | None = None
    recovered: int | None = None

    @property
    def intact(self) -> bool:
        return not self.damaged and self.problem is None

    @property
    def readable(self) -> bool:
        return self.problem is None or self.results > 0


def check_store(path: Path) -> StoreCheck:
    """Verify every row and the file's structure. Nothing is written.

    Raises:
        EnvironmentFailure: the file cannot be read, or a newer version of the program wrote it.
    """
    with disk_errors(f"read {path}"):
        path.open("rb").close()
        try:
            return when_free(lambda: _check_rows(path), threading.Event())
        except sqlite3.Error as error:
            intact, damaged = _rows_of_pages(path)
            return StoreCheck(path, len(intact), damaged, str(error))


def _check_rows(path: Path) -> StoreCheck:
    check_version(path, SCHEMA_VERSION, "update triage")
    results = damaged = 0
    query = "SELECT digest, facts, key, case_name, toolchain, at, peak_rss_mb FROM probes ORDER BY id"
    with closing(connect_read_only(path)) as db:
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        for digest, facts, *columns in db.execute(query):
            try:
                record = verified(digest, facts)[1]
            except ValueError:
                damaged += 1
                continue
            expected = [record.key, record.case_name, record.toolchain, record.at, record.execution.peak_rss_mb]
            damaged += columns != expected
            results += columns == expected
        [answer] = db.execute("PRAGMA integrity_check(1)").fetchone()
    return StoreCheck(path, results, damaged, None if answer == "ok" else str(answer))


def set_aside_files(store: Path) -> list[Path]:
    """Return the databases that were set aside as damaged and not yet recovered, the oldest first."""
    return sorted(path for path in store.parent.glob(f"{store.name}{DAMAGED}*") if not path.name.endswith("-wal"))


def repair_store(store: Path, checks: Sequence[StoreCheck]) -> list[StoreCheck]:
    """Add the intact rows of checked databases to the store, as older than those it has. Return the checks with counts.

    A store that is damaged itself is set aside first. Files that were set aside get another name once they are recovered.
    """
    done = []
    warnings: list[str] = []
    with closing(Evidence(store, warnings.append)) as evidence:
        for check in sorted(checks, key=lambda check: check.path == store, reverse=True):  # its rows are the newest
            source = check.path
            if source.samefile(store) and not check.intact:
                source = evidence.last_aside or evidence.start_anew()
            recovered = None if source == store else _recover(source, evidence)
            if source in set_aside_files(store):
                target = source.with_name(source.name.replace(DAMAGED, RECOVERED))
                with exclusive(store, threading.Event()), disk_errors(f"rename {source}"):
                    set_aside(source, target)
            done.append(replace(check, recovered=recovered))
    return done


def _recover(source: Path, store: Evidence) -> int:
    with disk_errors(f"read {source}"):
        rows, _ = _rows_of_pages(source)
    return store.add_older([rows[number] for number in sorted(rows, reverse=True)])


def _rows_of_pages(path: Path) -> tuple[dict[int, tuple[str, bytes]], int]:
    """Return the intact rows (digest, facts) of a database by number, and how many damaged ones its pages hold."""
    data = path.read_bytes()
    log = path.with_name(f"{path.name}-wal")
    frames = log.read_bytes() if log.exists() else b""
    size = int.from_bytes(data[16:18], "big")
    if size not in {1 << bits for bits in range(9, 16)}:
        size = _DEFAULT_PAGE_SIZE
    pages = {number + 1: data[start : start + size] for number, start in enumerate(range(0, len(data), size))}
    intact: dict[int, tuple[str, bytes]] = {}
    damaged: set[int] = set()
    for view in (pages, pages | _logged_pages(frames, size)) if frames else (pages,):
        for number, digest, facts in _rows(view):
            try:
                verified(digest, facts)
            except ValueError:
                damaged.add(number)
            else:
                assert isinstance(digest, str)
                assert isinstance(facts, bytes)
                intact[number] = digest, facts
    return intact, len(damaged - intact.keys())


def _logged_pages(log: bytes, size: int) -> dict[int, bytes]:
    """Return the pages of a write-ahead log. Frames of an earlier use of the log have another salt."""
    pages: dict[int, bytes] = {}
    for start in range(_WAL_HEADER, len(log), _FRAME_HEADER + size):
        frame = log[start : start + _FRAME_HEADER + size]
        if frame[8:16] == log[16:24]:
            pages[int.from_bytes(frame[:4], "big")] = frame[_FRAME_HEADER:]
    return pages


def _rows(pages: Mapping[int, bytes]) -> Iterator[tuple[int, object, object]]:
    """Yield the number, the digest and the facts of whatever looks like a row; the digest may not fit."""
    for page in pages.values():
        if page[:1] != bytes([_TABLE_LEAF]):
            continue
        cells = min(int.from_bytes(page[3:5], "big"), len(page) // 4)
        for place in range(8, 8 + 2 * cells, 2):
            start = int.from_bytes(page[place : place + 2], "big") % len(page)  # as SQLite does
            length, start = _varint(page, start)
            number, start = _varint(page, start)
            values = _values(_payload(pages, page, start, length))
            if len(values) == _COLUMNS:
                yield number, values[_DIGEST], values[_FACTS]


def _payload(pages: Mapping[int, bytes], page: bytes, start: int, length: int) -> bytes:
    """Return the payload of a cell, with what does not fit into its page."""
    usable = len(page)
    if length <= usable - 35:
        return page[start : start + length]
    least = (usable - 12) * 32 // 255 - 23
    local = least + (length - least) % (usable - 4)
    if local > usable - 35:
        local = least
    payload = bytearray(page[start : start + local])
    following = int.from_bytes(page[start + local : start + local + 4], "big")
    for _ in range(len(pages)):
        overflow = pages.get(following)
        if overflow is None or len(payload) >= length:
            break
        payload += overflow[4:]
        following = int.from_bytes(overflow[:4], "big")
    return bytes(payload[:length])


def _values(payload: bytes) -> list[object]:
    """Return the columns of a row; numbers, which are not needed, as None."""
    values: list[object] = []
    body, place = _varint(payload, 0)
    end = body
    while place < end and len(values) <= _COLUMNS:
        kind, place = _varint(payload, place)
        length = (kind - 12) // 2 if kind >= 12 else _INT_SIZES.get(kind, 0)
        data = payload[body : body + length]
        body += length
        values.append(None if kind < 12 else data.decode("utf-8", "replace") if kind % 2 else data)
    return values


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Return the variable-length integer at a place, and the place after it."""
    value = 0
    for place in range(start, start + 9):
        byte = data[place] if place < len(data) else 0
        if place == start + 8:
            return value << 8 | byte, place + 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    raise AssertionError
