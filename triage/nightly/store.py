"""The stored nights: a folder for each in TRIAGE_HOME, with `nightly.json` and the output of new failures."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from filelock import FileLock

from triage.model.errors import BadInput
from triage.nightly.result import SCHEMA, Night, night_bytes, parse_night
from triage.toolchains.home import disk_errors, write_whole

_FILE = "nightly.json.z"
_LOG_PART = 32 << 10  # bytes at the beginning and at the end of a log that are stored
_ISSUES = "issues.json"


class NightStore:
    """Stored nights by number. A damaged night counts as not there."""

    def __init__(self, home: Path, warn: Callable[[str], None] = lambda _: None) -> None:
        """`warn` receives what the user must know about damage."""
        self.path = home / f"nights-{SCHEMA}"
        self._warn = warn

    def add(self, night: Night, folder: Path | None = None) -> int | None:
        """Store a night and return its number; None when it is there already. folder: of its reports, for logs of failures."""
        passed = [replace(case, baseline=replace(case.baseline, metrics={}, warnings=[])) for case in night.cases]
        kept = [whole if whole.counts else short for whole, short in zip(night.cases, passed, strict=True)]
        content = night_bytes(replace(night, cases=kept, reports={}))
        digest = sha256(content).hexdigest()[:16]
        with disk_errors(f"store the night in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock"):
                numbers = self.numbers()
                if any((self.path / str(number) / digest).exists() for number in numbers):
                    return None
                number = max(numbers, default=0) + 1
                own = self.path / str(number)
                for case in night.cases:
                    if folder and case.log and case.counts and (folder / case.log).is_file():
                        write_whole(own / case.log, _shortened((folder / case.log).read_bytes()))
                write_whole(own / digest, "")
                write_whole(own / _FILE, zlib.compress(content))
        return number

    def numbers(self) -> list[int]:
        """Return the numbers of all nights, the oldest first."""
        names = (path.parent.name for path in self.path.glob(f"*/{_FILE}"))
        return sorted(int(name) for name in names if name.isdecimal())

    def nights(self) -> Iterator[tuple[int, Night]]:
        """Yield all nights with their numbers, in the order in which they were stored."""
        for number in self.numbers():
            if (night := self.night(number)) is not None:
                yield number, night

    def night(self, number: int) -> Night | None:
        """Return a night; None where there is none, or it is damaged."""
        path = self.path / str(number) / _FILE
        try:
            return parse_night(zlib.decompress(path.read_bytes()), str(path))
        except (OSError, zlib.error, BadInput) as error:
            self._warn(f"night {number} in {self.path} is damaged and left out: {error}")
            return None

    def log(self, number: int, name: str) -> str | None:
        """Return the output of a failure that was stored with a night. name: its path in the night."""
        try:
            return (self.path / str(number) / name).read_text("utf-8", "replace") if re.match(r"logs/", name) else None
        except OSError:
            return None

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove nights."""
        with disk_errors(f"remove nights in {self.path}"):
            for number in numbers:
                shutil.rmtree(self.path / str(number))

    def add_issues(self, issues: Mapping[str, str]) -> None:
        """Store the issue of each cluster, as `owner/repository#number` or as its address."""
        with disk_errors(f"store issues in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock"):
                write_whole(self.path / _ISSUES, json.dumps({**self.issues(), **issues}))

    def issues(self) -> dict[str, str]:
        """Return the issues by the id of their cluster."""
        try:
            values = json.loads((self.path / _ISSUES).read_bytes())
        except (OSError, ValueError):
            return {}
        return {str(key): str(value) for key, value in values.items()} if isinstance(values, dict) else {}


def _shortened(content: bytes) -> bytes:
    """Return a log without its middle where it is long."""
    if len(content) <= 2 * _LOG_PART:
        return content
    return content[:_LOG_PART] + b"\n...\n" + content[-_LOG_PART:]
