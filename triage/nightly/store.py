"""Nights on disk: `nightly.json` in a folder of reports, and the stored nights of
TRIAGE_HOME. Each of these is one file: a line that lists show, two that histories need,
and the whole night. The classes of a whole night are slow to import, and lists do
without them.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.content import read_bytes
from triage.model.errors import BadInput
from triage.model.fields import UNPRINTED, key
from triage.model.revision import Revision
from triage.toolchains.home import Home, disk_errors, write_whole

if TYPE_CHECKING:
    from triage.nightly.history import NightsHistory
    from triage.nightly.result import Night

NIGHT_FILE = "nightly.json"
LARGEST_FILE = 1 << 20  # bytes of a file that a night names
_VERSION = 9  # of the files of the store
_LARGEST_NIGHT = 1 << 30  # bytes
_ISSUES = "issues.json"
_LOG_PART = 16 << 10  # bytes at the beginning and at the end of a log that are stored


@dataclass(frozen=True, slots=True)
class BackendVerdict:
    """The verdict of a night on one backend. `failures` counts different new failures,
    each of one or more cases.
    """

    backend: str
    """Empty for compilers without backends."""
    cases: int
    broken: int
    """Cases that fail in a new way."""
    fixed: int
    untestable: int = 0
    """Cases that one of the toolchains could not test."""
    failures: int = 0
    with_culprit: int = 0
    """New failures whose culprit a bisect found."""
    slower: int = 0
    """Cases that became slower."""


@dataclass(frozen=True, slots=True)
class NightSummary:
    """A stored night in the list of nights."""

    number: int = field(metadata=key("night"))
    started: str = field(metadata=key("at"))
    title: str = field(metadata=UNPRINTED)
    """The name of the compiler, as people write it."""
    toolchain: Revision
    baseline: Revision
    partial: bool
    verdict: Sequence[BackendVerdict]

    @property
    def day(self) -> str:
        return self.started[:10]

    @classmethod
    def of(cls, number: int, night: Night) -> NightSummary:
        ends = (night.toolchain, night.baseline)
        return cls(
            number, night.started, night.title, *ends, night.partial, night.verdict
        )

    def line(self) -> bytes:
        """Return the summary as a line of JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, number: int, line: bytes) -> NightSummary:
        """Read what `line` returned. Raises ValueError for something else."""
        values = json.loads(line)
        try:
            values["number"] = number
            for end in ("toolchain", "baseline"):
                values[end] = Revision(**values[end])
            verdicts = values["verdict"]
            values["verdict"] = [BackendVerdict(**verdict) for verdict in verdicts]
            return cls(**values)
        except (KeyError, TypeError) as error:
            raise ValueError("it is not the summary of a night") from error


def read_night(path: Path) -> Night:
    """Read `nightly.json`, or the one in a folder. Raises BadInput if it cannot be
    read, or if a path in it is a link.
    """
    from triage.nightly.result import parse_night

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


@dataclass(frozen=True)
class StoredNight:
    """A night as it lies in a file."""

    summary: NightSummary
    listed: bytes
    """The night in short, as JSON."""
    rows: bytes
    """A row for every case, as JSON."""
    whole: bytes
    """The JSON of the night, compressed."""


class NightStore:
    """Stored nights by number. A damaged night counts as missing."""

    def __init__(
        self, home: Home, warn: Callable[[str], None] = lambda _: None
    ) -> None:
        """`warn` receives what the user must know about damage."""
        self.path = home.path / f"nights-{_VERSION}"
        self._warn = warn

    def add(self, night: Night, folder: Path | None = None) -> int | None:
        """Store a night and return its number, unless it is stored already. folder: of
        its reports, for logs of failures.
        """
        from triage.nightly.history import history_lines
        from triage.nightly.result import night_bytes

        night = replace(night, reports={})
        content = night_bytes(night)
        name = f"{sha256(content).hexdigest()[:16]}.json.z"
        with self._writing("store the night"):
            if any(self.path.glob(f"*/{name}")):
                return None
            number = max(self.numbers(), default=0) + 1
            if folder:
                self._add_logs(number, night, folder)
            lines = [NightSummary.of(number, night).line(), *history_lines(night)]
            parts = zlib.compress(b"\n".join(lines)) + zlib.compress(content)
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

    @contextmanager
    def _writing(self, action: str) -> Iterator[None]:
        """Let no other process change the store, and report errors of the disk."""
        from filelock import FileLock  # slow to import

        with disk_errors(f"{action} in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock"):
                yield

    def numbers(self) -> list[int]:
        """Return the numbers of all nights, the oldest first."""
        names = {path.parent.name for path in self.path.glob("*/*.json.z")}
        return sorted(int(name) for name in names if name.isdecimal())

    def summaries(self) -> list[NightSummary]:
        """Return the summaries of all nights, the oldest first."""
        return [stored.summary for stored in self._stored()]

    def history(self, tracks: str = "*") -> NightsHistory:
        """Read all nights. tracks: a shell pattern of the names of tracks; BadInput if
        none fits.
        """
        from triage.nightly.history import history_of, parse_rows
        from triage.nightly.result import parse_night

        nights = (
            (
                stored.summary,
                parse_night(stored.listed, str(self.path)),
                parse_rows(stored.rows),
            )
            for stored in self._stored()
        )
        return history_of(nights, tracks, self.issues())

    def night_named(self, name: str) -> Night:
        """Return the night with a number or a date, or the `latest`. Raises BadInput if
        there is none.
        """
        for summary in reversed(self.summaries()):
            if name in ("latest", str(summary.number), summary.day):
                night = self.night(summary.number)
                if night:
                    return night
        raise BadInput(
            f"there is no night {name!r} in {self.path}; `triage nights list` shows "
            "those that are stored"
        )

    def night(self, number: int) -> Night | None:
        """Return a night, unless it is missing or damaged."""
        from triage.nightly.result import parse_night

        for stored in self._read(number):
            try:
                return parse_night(zlib.decompress(stored.whole), f"night {number}")
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
        with self._writing("remove nights"):
            for number in numbers:
                shutil.rmtree(self.path / str(number))

    def add_issues(self, started: str, issues: Mapping[str, str]) -> None:
        """Store the issue of each failing case of a night, as `owner/repository#number`
        or as its address.
        """
        with self._writing("store issues"):
            stored = self.issues()
            stored[started] = {**stored.get(started, {}), **issues}
            write_whole(self.path / _ISSUES, json.dumps(stored))

    def issues(self) -> dict[str, dict[str, str]]:
        """Return the issues by the start of a night and a case that failed in it."""
        from pydantic import TypeAdapter

        try:
            content = read_bytes(self.path / _ISSUES, _LARGEST_NIGHT)
            return TypeAdapter(dict[str, dict[str, str]]).validate_json(content)
        except (OSError, ValueError):
            return {}

    def _stored(self) -> list[StoredNight]:
        """Read all nights, the oldest first."""
        nights = [night for number in self.numbers() for night in self._read(number)]
        return sorted(
            nights, key=lambda night: (night.summary.started, night.summary.number)
        )

    def _read(self, number: int) -> Iterator[StoredNight]:
        """Yield a night; nothing if it is damaged."""
        folder = self.path / str(number)
        reader = zlib.decompressobj()
        try:
            [file] = folder.glob("*.json.z")
            lines = reader.decompress(file.read_bytes()).splitlines()
            if not reader.eof:  # the file was cut
                lines = []
            line, listed, rows = lines
            summary = NightSummary.read(number, line)
            yield StoredNight(summary, listed, rows, reader.unused_data)
        except (OSError, ValueError, zlib.error):
            self._warn(f"night {number} is damaged and left out; remove {folder}")
