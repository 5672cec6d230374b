"""Nights on disk: `nightly.json` in a folder of reports, and the stored nights of
TRIAGE_HOME.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

from filelock import FileLock
from pydantic import TypeAdapter

from triage.investigate.result import CaseResult
from triage.model.errors import BadInput
from triage.model.foreign_file import read_bytes
from triage.nightly.history import NightsHistory, history_of
from triage.nightly.result import SCHEMA, Night, night_bytes, parse_night
from triage.nightly.stored_night import StoredNight
from triage.toolchains.home import Home, disk_errors, write_whole

NIGHT_FILE = "nightly.json"
LARGEST_FILE = 1 << 20  # bytes of a file that a night names
_LARGEST_NIGHT = 1 << 30  # bytes
_SHORT, _ISSUES = "short.z", "issues.json"
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
        cases = [case if case.is_new_failure else _short(case) for case in night.cases]
        night = replace(night, cases=cases, reports={})
        content = night_bytes(night)
        name = f"{sha256(content).hexdigest()[:16]}.json.z"
        with disk_errors(f"store the night in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock"):
                if any(self.path.glob(f"*/{name}")):
                    return None
                number = max(self.numbers(), default=0) + 1
                own = self.path / str(number)
                if folder:
                    _store_logs(night, folder, own)
                document = b"%s%s}" % (_begin(number), content)
                write_whole(own / name, zlib.compress(document))
                _write_short(own / name, StoredNight.of(number, night))
        return number

    def history(self, tracks: str = "*") -> NightsHistory:
        """Read all nights. tracks: a shell pattern of the names of tracks; BadInput if
        none fits.
        """
        return history_of(self.stored(), tracks)

    def numbers(self) -> list[int]:
        """Return the numbers of all nights, the oldest first."""
        names = {path.parent.name for path in self.path.glob("*/*.json.z")}
        return sorted(int(name) for name in names if name.isdecimal())

    def stored(self) -> list[StoredNight]:
        """Return all nights, the oldest first."""
        nights = filter(None, map(self._stored, self.numbers()))
        return sorted(
            nights, key=lambda night: (night.summary.night.started, night.number)
        )

    def night_named(self, name: str) -> tuple[int, Night]:
        """Return the night with a number or a date, or `latest` or `previous`. Raises
        BadInput if there is none.
        """
        stored = self.stored()
        while True:  # until one that is not damaged is found
            number = _number_of(name, stored)
            if number is None:
                raise BadInput(
                    f"there is no night {name!r} in {self.path}; `triage nights list` "
                    "shows those that are stored"
                )
            night = self.night(number)
            if night is not None:
                return number, night
            stored = [entry for entry in stored if entry.number != number]

    def night(self, number: int) -> Night | None:
        """Return a night, unless it is missing or damaged."""
        path = self._file(number)
        try:
            document = zlib.decompress(path.read_bytes())
            content = document.removeprefix(_begin(number))[:-1]
            if sha256(content).hexdigest()[:16] == path.name.partition(".")[0]:
                return parse_night(content, str(path))
            damage = "it is another night's file"
        except (OSError, zlib.error, BadInput) as error:
            damage = str(error)
        self._warn(f"night {number} in {self.path} is damaged and left out: {damage}")
        return None

    def _file(self, number: int) -> Path:
        folder = self.path / str(number)
        return next(folder.glob("*.json.z"), folder / "none")

    def _stored(self, number: int) -> StoredNight | None:
        """Return the short form of a night, which is made again where its file is
        damaged.
        """
        path = self._file(number)
        with suppress(OSError, ValueError, zlib.error):
            content = (path.parent / _SHORT).read_bytes()
            begin = _owner_of(path)
            if content.startswith(begin):
                return StoredNight.read(number, content.removeprefix(begin))
        night = self.night(number)
        if night is None:
            return None
        short = StoredNight.of(number, night)
        with suppress(OSError):  # a folder that is only read
            _write_short(path, short)
        return short

    def log(self, number: int, name: str) -> str | None:
        """Return the output of a failure that was stored with a night. name: its path
        in the night.
        """
        try:
            return (self.path / str(number) / name).read_text("utf-8", "replace")
        except OSError:
            return None

    def remove(self, numbers: Iterable[int]) -> None:
        with disk_errors(f"remove nights in {self.path}"):
            for number in numbers:
                shutil.rmtree(self.path / str(number))

    def add_issues(self, started: str, issues: Mapping[str, str]) -> None:
        """Store the issue of each cluster of a night, as `owner/repository#number` or
        as its address.
        """
        with disk_errors(f"store issues in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock"):
                known = self.issues()
                known[started] = {**known.get(started, {}), **issues}
                write_whole(self.path / _ISSUES, json.dumps(known))

    def issues(self) -> dict[str, dict[str, str]]:
        """Return the issues by the start of a night and the id of a cluster in it."""
        try:
            content = read_bytes(self.path / _ISSUES, _LARGEST_NIGHT)
            return _issues().validate_json(content)
        except (OSError, ValueError):
            return {}


@cache
def _issues() -> TypeAdapter[dict[str, dict[str, str]]]:
    return TypeAdapter(dict[str, dict[str, str]])


def _begin(number: int) -> bytes:
    """Return how the file of a night begins, so that no other night's file is read in
    its place.
    """
    return b'{"number":%d,"night":' % number


def _owner_of(path: Path) -> bytes:
    """Return the first line of the short form of the night in a file."""
    return f"{path.parent.name}/{path.name}\n".encode()


def _write_short(path: Path, night: StoredNight) -> None:
    write_whole(path.parent / _SHORT, _owner_of(path) + night.content())


def _number_of(name: str, stored: Sequence[StoredNight]) -> int | None:
    """Return the number of the night with a number or a date, or `latest` or
    `previous`, if there is one.
    """
    if name in ("latest", "previous"):
        # several suites alternate
        same = [
            each.number
            for each in stored
            if each.summary.suites == stored[-1].summary.suites
        ]
        back = 2 if name == "previous" else 1
        return same[-back] if len(same) >= back else None
    fitting = None
    for each in stored:
        started = each.summary.night.started
        if name == str(each.number):
            return each.number
        if name in (started[:10], started):
            fitting = each.number
    return fitting


def _short(case: CaseResult) -> CaseResult:
    """Return a case without the numbers of the baseline: nights show those of their own
    toolchain.
    """
    baseline = replace(
        case.baseline,
        seconds=0.0,
        cpu_seconds=0.0,
        peak_rss_mb=0.0,
        metrics={},
        warnings=(),
    )
    return replace(case, baseline=baseline)


def _store_logs(night: Night, folder: Path, own: Path) -> None:
    """Store the beginning and the end of the logs of new failures. folder: of the
    reports; own: of the night.
    """
    for case in night.cases:
        if not (case.log and case.is_new_failure):
            continue
        try:
            content = read_bytes(folder / case.log, LARGEST_FILE, folder)
        except OSError:  # it is missing, or not what a nightly writes
            continue
        if len(content) > 2 * _LOG_PART:
            content = content[:_LOG_PART] + b"\n...\n" + content[-_LOG_PART:]
        write_whole(own / case.log, content)
