"""Results that machines share: a folder, a bucket or a web server that `TRIAGE_EVIDENCE` names, one object for each key.

Only facts are read from it, with their checksum and the types of all fields; nothing of it is ever run.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, TypeVar

from triage.execution.cache import Evidence, Record, parse_record, record_json, verified
from triage.execution.judge import RUN_MS
from triage.model.errors import BadInput, EnvironmentFailure, Interrupted
from triage.model.execution import Ending
from triage.toolchains.home import write_whole

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")

_FOLDER = "results-1"  # increase the number when the form of an object changes
_READ_ONLY = ("http", "https")
_EXTRAS = {"file": "shared", "s3": "s3", "gs": "gcs", "http": "shared", "https": "shared"}
_PATIENCE = 20.0  # seconds for one object
_TICK = 0.1  # seconds between looks at the stop signal
_LISTING = 600.0  # seconds for the list of all objects
_AT_ONCE = 16  # objects that are read at once
_KEY = 64  # characters
_LARGEST = 16 << 20  # bytes of an object; a result with all that a compiler may print has less
_PART = 1 << 16  # bytes that are read at once
_FAILURES = 3  # in a row, after which the store is not asked again


class DamagedResult(ValueError):
    """An object that does not fit its checksum or its name."""


class Unreachable(EnvironmentFailure):
    """The shared results cannot be read or written now."""


def is_portable(record: Record) -> bool:
    """Return whether a result holds on another machine: no measured run, no timeout, no code for the processor at hand."""
    execution = record.execution
    on_this_processor = any(word.endswith("=host") for word in execution.argv)
    return execution.ending is not Ending.TIMED_OUT and RUN_MS not in record.metrics and not on_this_processor


def packed(record: Record) -> bytes:
    """Return the object of a record: the checksum, a line end, the compressed JSON."""
    data = record_json(replace(record, origin="")).encode()
    return sha256(data).hexdigest().encode() + b"\n" + zlib.compress(data, 6)


@dataclass
class SharedEvidence:
    """The shared results at a URL. Safe for several threads.

    A problem costs one warning. After three in a row the store is not asked again by this process.
    """

    url: str
    warn: Callable[[str], None] = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)
    patience: float = _PATIENCE
    _failures: int = 0
    _damaged: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Raises BadInput for a URL that cannot be used, or whose extra is not installed."""
        self.scheme, _, place = self.url.partition("://")
        if self.scheme not in _EXTRAS or not place.strip("/"):
            raise BadInput(f"TRIAGE_EVIDENCE: {self.url!r}: write file:///FOLDER, s3://BUCKET/PREFIX, gs://... or https://...")
        extra = _EXTRAS[self.scheme]
        try:
            from fsspec import filesystem

            self._files: AbstractFileSystem = filesystem(self.scheme, use_listings_cache=False, skip_instance_cache=True)
        except ImportError as error:
            raise BadInput(f"{self.scheme}:// needs an extra: pip install 'iree-triage[{extra}]' ({error})") from error
        self._root = f"{self.url if self.scheme in _READ_ONLY else place}".rstrip("/") + f"/{_FOLDER}"

    @property
    def read_only(self) -> bool:
        return self.scheme in _READ_ONLY

    def find(self, key: str) -> Record | None:
        """Return the result of a key; None when there is none, it is damaged, or the store cannot be reached."""
        try:
            return self._asked(lambda: self.read(key))
        except FileNotFoundError:
            return None
        except DamagedResult as error:
            if not self._damaged:
                self.warn(f"a result in {self.url} is damaged and counts as unknown: {error}")
            self._damaged.add(key)
            return None
        except Unreachable:
            return None

    def publish(self, record: Record) -> bool:
        """Write a result that other machines can use, unless there is one; return whether it was written."""
        if self.read_only or record.origin or not is_portable(record):
            return False
        try:
            return self._asked(lambda: self.write(record))
        except Unreachable:
            return False
        except FileNotFoundError as error:  # there is no such bucket
            self._failed(error)
            return False

    def read(self, key: str) -> Record:
        """Return the result of a key. Raises FileNotFoundError, DamagedResult, and what the store raises."""
        digest, _, facts = self._content(self._path(key)).partition(b"\n")
        try:
            _, record = verified(digest.decode("ascii", "replace"), facts)
        except ValueError as error:
            raise DamagedResult(str(error)) from error
        if record.key != key:
            raise DamagedResult(f"the object {key} holds the result of {record.key}")
        return replace(record, origin=self.url)

    def _content(self, path: str) -> bytes:
        """Return the bytes of an object. Raises DamagedResult when they are more than any result has."""
        if self.read_only:  # a server may ignore the range, and go on for ever
            content = bytearray()
            with self._files.open(path, block_size=0, size=1) as source:
                while len(content) <= _LARGEST and (part := source.read(_PART)):
                    content += part
        else:
            content = self._files.cat_file(path, start=0, end=_LARGEST + 1)
        if len(content) > _LARGEST:
            raise DamagedResult(f"{path} has more than {_LARGEST >> 20} MiB")
        return bytes(content)

    def write(self, record: Record) -> bool:
        """Write the result in one step where there is none, or a damaged one; return whether it was written.

        Raises OSError when the folder does not exist, which may be a disk that is not mounted, and what the store raises.
        """
        path = self._path(record.key)
        if record.key not in self._damaged and self._files.exists(path):
            return False
        if self.scheme == "file":
            if not Path(self._root).parent.is_dir():
                raise NotADirectoryError(f"there is no folder {Path(self._root).parent}")
            write_whole(Path(path), packed(record))
        else:  # a bucket shows an object only when all of it is there
            self._files.pipe_file(path, packed(record))
        self._damaged.discard(record.key)
        return True

    def keys(self) -> dict[str, datetime | None]:
        """Return the key of every object and when it was written.

        Raises:
            BadInput: it is a web server, which has no list.
            EnvironmentFailure: the store cannot be reached.
        """
        if self.read_only:
            raise BadInput(f"{self.url} cannot be listed; name the folder or bucket behind it")
        listed = self._asked(lambda: self._files.find(self._root, detail=True), _LISTING)
        names = {name.rpartition("/")[2]: _written(info) for name, info in listed.items()}
        return {key: written for key, written in names.items() if len(key) == _KEY}  # no file that is still being written

    def push(self, evidence: Evidence) -> Iterator[bool]:
        """Publish the results of this machine that are not there; yield for each whether it could be written."""
        there = set(self.keys())
        for line in evidence.export():
            key = parse_record(line).key
            if key in there or len(key) != _KEY:
                continue
            there.add(key)
            record = evidence.find(key)
            if record and is_portable(record) and not record.origin:
                yield self.publish(record)

    def pull(self, evidence: Evidence) -> Iterator[bool]:
        """Add the results that are unknown here; yield for each whether it could be read."""
        missing = [key for key in self.keys() if evidence.find(key) is None]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for record in pool.map(self.find, missing):
                yield record is not None and evidence.add(record)

    def collect(self, older: datetime | None, *, check: bool) -> tuple[int, int]:
        """Remove results written before a time and, if `check`, damaged ones; return how many were removed and are left."""
        keys = self.keys()
        doomed = {key for key, written in keys.items() if older and written and written < older}
        if check:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                doomed |= {key for key, damaged in zip(keys, pool.map(self._is_damaged, keys), strict=True) if damaged}
        for key in doomed:
            with suppress(FileNotFoundError):  # another machine removed it meanwhile
                self._asked(partial(self._files.rm_file, self._path(key)))
        return len(doomed), len(keys) - len(doomed)

    def _is_damaged(self, key: str) -> bool:
        try:
            self._asked(lambda: self.read(key))
        except DamagedResult:
            return True
        except FileNotFoundError:  # removed meanwhile
            return False
        return False

    def _path(self, key: str) -> str:
        return f"{self._root}/{key[:2]}/{key}"

    def _asked(self, action: Callable[[], T], patience: float | None = None) -> T:
        """Return the answer of the store. Raises Unreachable when there is none in time, FileNotFoundError and
        DamagedResult as the action does, Interrupted when `stop` is set. A thread that hangs is left behind.
        """
        if self._failures >= _FAILURES:
            raise Unreachable(f"{self.url} is not asked again")
        answers: Queue[tuple[T | None, BaseException | None]] = Queue()

        def ask() -> None:
            try:
                answers.put((action(), None))
            except BaseException as error:  # raised again in the thread that waits
                answers.put((None, error))

        threading.Thread(target=ask, daemon=True).start()
        patience = patience or self.patience
        error: BaseException | None = TimeoutError(f"no answer within {patience:g} s")
        value: T | None = None
        for _ in range(max(1, int(patience / _TICK))):
            if self.stop.is_set():
                raise Interrupted("stopped")
            try:
                value, error = answers.get(timeout=_TICK)
                break
            except Empty:
                continue
        if error is None or isinstance(error, FileNotFoundError | DamagedResult):
            self._failures = 0
            if error is not None:
                raise error
            return value  # type: ignore[return-value]
        self._failed(error)
        raise Unreachable(str(error)) from error

    def _failed(self, error: BaseException) -> None:
        """Count a failure, and warn of the first and of the last one."""
        self._failures += 1
        if self._failures in (1, _FAILURES):
            last = "; this command does not ask for them again" if self._failures == _FAILURES else ""
            self.warn(f"the shared results at {self.url} cannot be used: {str(error)[:300] or type(error).__name__}{last}")


def _written(info: Any) -> datetime | None:
    """Return when an object was written, from what its store says about it."""
    value = next((info[name] for name in ("LastModified", "updated", "mtime") if info.get(name) is not None), None)
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return datetime.fromisoformat(value) if isinstance(value, str) else value
