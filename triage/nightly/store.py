"""Nights on disk: `nightly.json` in a folder of reports, and the stored nights of
TRIAGE_HOME. Each of these is one file: its short form, and the whole night.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from filelock import FileLock
from pydantic import TypeAdapter

from triage.model.errors import BadInput
from triage.model.foreign_file import read_bytes
from triage.nightly.history import NightsHistory, history_of
from triage.nightly.result import SCHEMA, Night, night_bytes, parse_night
from triage.nightly.stored_night import StoredNight
from triage.toolchains.home import Home, disk_errors, write_whole

NIGHT_FILE = "nightly.json"
LARGEST_FILE = 1 << 20  # bytes of a file that a night names
_LARGEST_NIGHT = 1 << 30  # bytes
_ISSUES = "issues.json"
_LOG_PART = 32 << 10  # bytes at the beginning and at the end of a log that are stored


def read_night(path: Path) -> Night:
    """Read `nightly.json`, or the one in a folder. Raises BadInput if it cannot be
    read, or if a path in it is a link.
    """
    file = path / NIGHT_FILE if path.is_dir() else path
    try:
        content = read_bytes(file, _LARGEST_NIGHT)
    except OSError as error:
        raise BadInput(
            f"{file}: {error.strerror or error}; pass the folder that `triage nightly "
            "--out` wrote"
        ) from error
    night = parse_night(content, str(file))
    names = [case.log for case in night.cases]
    for cluster in night.clusters:
        names += [cluster.reproducer, cluster.issue]
    for name in filter(None, names):
        if (file.parent / name).resolve() != file.parent.resolve() / name:
            raise BadInput(f"{file}: {name} is a link; a nightly writes only files")
    return night


class NightStore:
    """Stored nights by number. A damaged night counts as missing."""

    def __init__(
        self, home: Home, warn: Callable[[str], None] = lambda _: None
    ) -> None:
        """`warn` receives what the user must know about damage."""
        self.path = home.path / f"nights-{SCHEMA}"
        self._warn = warn

    def add(self, night: Night, folder: Path | None = None) -> int | None:
        """Store a night and return its number, unless it is stored already. folder: of
        its reports, for logs of failures.
        """
        night = replace(night, reports={})
        content = night_bytes(night)
        name = f"{sha256(content).hexdigest()[:16]}.json.z"
        with disk_errors(f"store the night in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock"):
                if any(self.path.glob(f"*/{name}")):
                    return None
                number = max(self.numbers(), default=0) + 1
                if folder:
                    self._add_logs(number, night, folder)
                short = StoredNight.of(number, night).content()
                parts = zlib.compress(short) + zlib.compress(content)
                write_whole(self.path / str(number) / name, parts)
        return number

    def _add_logs(self, number: int, night: Night, folder: Path) -> None:
        """Store the beginning and the end of the logs of new failures."""
        for case in night.cases:
            if not (case.log and case.is_new_failure):
                continue
            try:
                content = read_bytes(folder / case.log, LARGEST_FILE, folder)
            except OSError:  # it is missing, or not what a nightly writes
                continue
            if len(content) > 2 * _LOG_PART:
                content = content[:_LOG_PART] + b"\n...\n" + content[-_LOG_PART:]
            write_whole(self.path / str(number) / case.log, content)

    def numbers(self) -> list[int]:
        """Return the numbers of all nights, the oldest first."""
        names = {path.parent.name for path in self.path.glob("*/*.json.z")}
        return sorted(int(name) for name in names if name.isdecimal())

    def stored(self) -> list[StoredNight]:
        """Return all nights, the oldest first."""
        parts = filter(None, map(self._parts, self.numbers()))
        nights = [short for short, _ in parts]
        return sorted(nights, key=lambda night: (night.night.started, night.number))

    def history(self, tracks: str = "*") -> NightsHistory:
        """Read all nights. tracks: a shell pattern of the names of tracks; BadInput if
        none fits.
        """
        return history_of(self.stored(), tracks)

    def night_named(self, name: str) -> Night:
        """Return the night with a number or a date, or `latest` or `previous`. Raises
        BadInput if there is none.
        """
        stored = self.stored()
        named = {"latest": stored[-1:], "previous": stored[-2:-1]}
        numbered = [entry for entry in stored if str(entry.number) == name]
        dated = [
            entry
            for entry in stored
            if name in (entry.night.started, entry.night.started[:10])
        ]
        for entry in reversed(named.get(name) or numbered or dated):
            night = self.night(entry.number)
            if night:
                return night
        raise BadInput(
            f"there is no night {name!r} in {self.path}; `triage nights list` shows "
            "those that are stored"
        )

    def night(self, number: int) -> Night | None:
        """Return a night, unless it is missing or damaged."""
        parts = self._parts(number)
        if parts is None:
            return None
        try:
            return parse_night(zlib.decompress(parts[1]), str(self.path / str(number)))
        except (zlib.error, BadInput) as error:
            self._warn(f"night {number} cannot be read: {error}")
            return None

    def log(self, number: int, log_path: str) -> str | None:
        """Return the output of a failure that was stored with a night. log_path: in the
        night.
        """
        try:
            return (self.path / str(number) / log_path).read_text("utf-8", "replace")
        except OSError:
            return None

    def remove(self, numbers: Iterable[int]) -> None:
        with disk_errors(f"remove nights in {self.path}"):
            for number in numbers:
                shutil.rmtree(self.path / str(number))

    def add_issues(self, started: str, issues: Mapping[str, str]) -> None:
        """Store the issue of each failing case of a night, as `owner/repository#number`
        or as its address.
        """
        with disk_errors(f"store issues in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock"):
                stored = self.issues()
                stored[started] = {**stored.get(started, {}), **issues}
                write_whole(self.path / _ISSUES, json.dumps(stored))

    def issues(self) -> dict[str, dict[str, str]]:
        """Return the issues by the start of a night and a case that failed in it."""
        try:
            content = read_bytes(self.path / _ISSUES, _LARGEST_NIGHT)
            return _issues().validate_json(content)
        except (OSError, ValueError):
            return {}

    def _parts(self, number: int) -> tuple[StoredNight, bytes] | None:
        """Return the short form of a night, and the whole one compressed."""
        folder = self.path / str(number)
        reader = zlib.decompressobj()
        try:
            [file] = folder.glob("*.json.z")
            short = StoredNight.read(reader.decompress(file.read_bytes()))
        except (OSError, ValueError, zlib.error):
            short = None
        if short and short.number == number:
            return short, reader.unused_data
        self._warn(f"night {number} is damaged and left out; remove {folder}")
        return None


@cache
def _issues() -> TypeAdapter[dict[str, dict[str, str]]]:
    return TypeAdapter(dict[str, dict[str, str]])
