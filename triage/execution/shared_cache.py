"""Results that machines share: a folder, a bucket or a web server that
`TRIAGE_EVIDENCE` names, one object for each key.

Only facts are read from it, with their checksum and the types of all fields; nothing of
it is ever run.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from triage.execution.metric import RUN_MS
from triage.execution.record import Record, record_json, record_of_row
from triage.model.errors import BadInput, Interrupted
from triage.model.execution import Ending
from triage.processes.process import within
from triage.toolchains.home import write_whole

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")

_FOLDER = "results-1"  # increase the number when the form of an object changes
_READ_ONLY = ("http", "https")
_EXTRAS = {
    "file": "shared",
    "s3": "s3",
    "gs": "gcs",
    "http": "shared",
    "https": "shared",
}
_PATIENCE = 20.0  # seconds for one object
# bytes of an object; a result with all that a compiler may print has less
_LARGEST = 16 << 20
_PART = 1 << 16  # bytes that are read at once
_FAILURES = 3  # in a row, after which the store is not asked again


def is_portable(record: Record) -> bool:
    """Return whether a result holds on another machine: no measured run, no timeout, no
    code for the processor at hand.
    """
    execution = record.execution
    on_this_processor = any(word.endswith("=host") for word in execution.argv)
    return (
        execution.ending is not Ending.TIMED_OUT
        and RUN_MS not in record.metrics
        and not on_this_processor
    )


def stored_object(record: Record) -> bytes:
    """Return the object of a record: the checksum, a line end, the compressed JSON."""
    data = record_json(replace(record, origin="")).encode()
    return sha256(data).hexdigest().encode() + b"\n" + zlib.compress(data, 6)


class SharedCache:
    """The shared results at a URL. After three problems in a row this process does not
    ask the store again.
    """

    def __init__(
        self,
        url: str,
        warn: Callable[[str], None] = lambda _: None,
        stop: threading.Event | None = None,
    ) -> None:
        """Raises BadInput for a URL that cannot be used, or whose extra is not
        installed.
        """
        self.url, self._warn, self._stop = url, warn, stop or threading.Event()
        self._scheme, _, place = url.partition("://")
        if self._scheme not in _EXTRAS or not place.strip("/"):
            raise BadInput(
                f"TRIAGE_EVIDENCE: {url!r}: write file:///FOLDER, s3://BUCKET/PREFIX, "
                "gs://... or https://..."
            )
        try:
            from fsspec import filesystem

            self._files: AbstractFileSystem = filesystem(
                self._scheme, use_listings_cache=False, skip_instance_cache=True
            )
        except ImportError as error:
            extra = _EXTRAS[self._scheme]
            raise BadInput(
                f"{self._scheme}:// needs an extra: pip install "
                f"'iree-triage[{extra}]' ({error})"
            ) from error
        self._root = (url if self._scheme in _READ_ONLY else place).rstrip(
            "/"
        ) + f"/{_FOLDER}"
        self._failures = 0
        self._has_warned = False

    def find(self, key: str) -> Record | None:
        """Return the result of a key, if there is an intact one and the store can be
        reached.
        """
        return self._ask_store(lambda: self._read(key))

    def publish(self, record: Record) -> None:
        """Write a result that other machines can use, in one step."""
        if self._scheme not in _READ_ONLY and is_portable(record):
            self._ask_store(
                lambda: self._write(self._path(record.key), stored_object(record))
            )

    def _read(self, key: str) -> Record | None:
        """Return the record of a key; None without one. ValueError if it is damaged."""
        content = bytearray()
        if self._scheme in _READ_ONLY:
            streaming = {"block_size": 0, "size": 1}
        else:
            streaming = {}
        try:
            with self._files.open(self._path(key), **streaming) as source:
                # a server may go on for ever
                while len(content) <= _LARGEST and (part := source.read(_PART)):
                    content += part
        except FileNotFoundError:
            return None
        digest, _, facts = bytes(content).partition(b"\n")
        return replace(
            record_of_row(digest.decode("ascii", "replace"), facts, key),
            origin=self.url,
        )

    def _write(self, path: str, content: bytes) -> None:
        if self._scheme != "file":
            # a bucket shows an object only when all of it is there
            self._files.pipe_file(path, content)
            return
        if not Path(self._root).parent.is_dir():  # perhaps a disk that is not mounted
            raise NotADirectoryError(f"there is no folder {Path(self._root).parent}")
        write_whole(Path(path), content)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key[:2]}/{key}"

    def _ask_store(self, action: Callable[[], T]) -> T | None:
        """Return the answer of the store; None if there is none in time, or with a
        warning after a problem. A thread that hangs is left behind.

        Raises Interrupted when `stop` is set.
        """
        if self._failures >= _FAILURES:
            return None
        try:
            answer = within(_PATIENCE, self._stop, action)
        except Interrupted:
            raise
        except Exception as error:  # damage, or whatever the library of a store raises
            self._failures += 1
            if self._failures == _FAILURES or not self._has_warned:
                if self._failures == _FAILURES:
                    last = "; this command does not ask for them again"
                else:
                    last = ""
                self._warn(
                    f"the shared results at {self.url} cannot be used: "
                    f"{str(error)[:300]}{last}"
                )
                self._has_warned = True
            return None
        self._failures = 0
        return answer
