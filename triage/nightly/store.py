"""Nights on disk: `nightly.json` in a folder of reports, and the stored nights of
TRIAGE_HOME. Each of these is one file of three parts: what lists show, what histories
need, and the whole night. The classes of a whole night are slow to import, and lists do
without them.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from triage.model.content import read_bytes
from triage.model.errors import BadInput
from triage.model.fields import UNPRINTED, key
from triage.model.revision import Revision
from triage.toolchains.home import Home, disk_errors, lock_file, write_whole

if TYPE_CHECKING:
    from triage.nightly.history import NightsHistory
    from triage.nightly.result import Night

NIGHT_FILE = "nightly.json"
LARGEST_FILE = 1 << 20  # bytes of a file that a night names
Parsed = TypeVar("Parsed")
_VERSION = 13  # of the files of the store
_SUMMARY, _ROWS, _WHOLE = range(3)  # parts of a stored night
_LARGEST_NIGHT = 1 << 30  # bytes
_ISSUES = "issues.json"
_LOG_PART = 16 << 10  # bytes at the beginning and at the end of a log that are stored


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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

    @classmethod
    def read(cls, number: int, content: bytes) -> NightSummary:
        """Read the JSON of `asdict`. Raises ValueError for something else."""
        try:
            values = json.loads(content) | {"number": number}
            for end in ("toolchain", "baseline"):
                values[end] = Revision(**values[end])
            values["verdict"] = [BackendVerdict(**row) for row in values["verdict"]]
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
        from triage.nightly.history import rows_of
        from triage.nightly.result import stored_bytes

        night = replace(night, reports={})
        whole = stored_bytes(night)
        name = f"{sha256(whole).hexdigest()[:16]}.json.z"
        with self._writing("store the night"):
            if any(self.path.glob(f"*/{name}")):
                return None
            number = max(self.numbers(), default=0) + 1
            if folder:
                self._add_logs(number, night, folder)
            summary = json.dumps(asdict(NightSummary.of(number, night))).encode()
            parts = map(zlib.compress, (summary, stored_bytes(rows_of(night)), whole))
            write_whole(self.path / str(number) / name, b"".join(parts))
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
        with disk_errors(f"{action} in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            with lock_file(self.path / ".lock"):
                yield

    def numbers(self) -> list[int]:
        """Return the numbers of all nights, the oldest first."""
        names = {path.parent.name for path in self.path.glob("*/*.json.z")}
        return sorted(int(name) for name in names if name.isdecimal())

    def summaries(self) -> list[NightSummary]:
        """Return the summaries of all nights, the oldest first."""
        stored = [
            self._read(number, _SUMMARY, partial(NightSummary.read, number))
            for number in self.numbers()
        ]
        return sorted(filter(None, stored), key=attrgetter("started", "number"))

    def history(self, tracks: str = "*") -> NightsHistory:
        """Read all nights. tracks: a shell pattern of the names of tracks; BadInput if
        none fits.
        """
        from triage.nightly.history import history_of, parse_rows

        nights = []
        for summary in self.summaries():
            rows = self._read(summary.number, _ROWS, parse_rows)
            if rows:
                nights.append((summary, rows))
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

        parse = partial(parse_night, name=f"night {number}")
        return self._read(number, _WHOLE, parse)

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

    def _read(
        self, number: int, part: int, parse: Callable[[bytes], Parsed]
    ) -> Parsed | None:
        """Return a part of a night; None if it is damaged."""
        folder = self.path / str(number)
        try:
            [file] = folder.glob("*.json.z")
            rest = file.read_bytes()
            for _ in range(part + 1):
                reader = zlib.decompressobj()
                content, rest = reader.decompress(rest), reader.unused_data
            return parse(content)  # of a file that was cut, it is not JSON
        except (OSError, ValueError, BadInput, zlib.error):
            self._warn(f"night {number} is damaged and left out; remove {folder}")
            return None
