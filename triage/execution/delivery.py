"""A probe as data: what a worker on another machine needs to make it, and the facts that it returns."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import IO

from triage.execution.compile_task import CompileTask
from triage.execution.prober import Trial
from triage.execution.run_stage import RunTask
from triage.execution.scratch import Scratch
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure
from triage.model.execution import utf8
from triage.toolchains.home import disk_errors, wait_for_lock, write_whole
from triage.toolchains.install_cache import USE

_FILE_VALUE = re.compile(r"@(/\S+)")
_FILE_FLAG = re.compile(r"(?:^|=|@)/")
DELIVERED = "delivered"  # the folder of a TRIAGE_HOME for files that clients sent
_MOST_KEPT = 8 << 30  # bytes of them
_LARGEST = 256 << 20  # bytes of a file that is sent; cases with larger ones are run on this machine


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A probe to make elsewhere. case: with each path of `files` replaced by `/DIGEST/NAME`; rev: how the worker names the
    toolchain; fresh: ignore what the worker knows; keys: of the results, which depend on the bytes of compiler and input;
    trial: it is a single compile.
    """

    case: Case
    family: str
    rev: str
    fresh: bool
    files: tuple[str, ...]
    keys: tuple[str, ...] = ()
    trial: Trial | None = None


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """What a worker returns. records: JSON of the compile and of the run that followed; identity: of its toolchain; problem:
    why it has no result; cached: it knew the result.
    """

    worker: str
    records: tuple[str, ...] = ()
    identity: str = ""
    problem: str | None = None
    cached: bool = False


class NotDelivered(Exception):
    """A probe that only this machine can make."""


def keys_of(task: CompileTask, trial: Trial | None) -> tuple[str, ...]:
    """Return the keys of the results that a task may have: of the compile, and of the run where there is one."""
    key = task.key(trial.mark) if trial else task.key()
    return (key, task.run.key(key)) if isinstance(task.run, RunTask) else (key,)


def packed_job(task: CompileTask, rev: str, *, fresh: bool, trial: Trial | None = None) -> tuple[RemoteJob, dict[str, Path]]:
    """Return a task as data, and the files that it reads by digest. Raises NotDelivered for what cannot be sent."""
    case = task.case
    if case.run and (case.run.measured or case.run.reference or case.run.libraries):
        raise NotDelivered("it is measured, or needs the result of another compile")
    flags = [flag.text for flag in case.flags] + list(case.run.flags if case.run else ())
    if any(map(_FILE_FLAG.search, flags)):
        raise NotDelivered("a flag names a file")
    files: dict[str, Path] = {}

    def sent(path: Path) -> Path:
        with path.open("rb") as source:
            digest = file_digest(source, "sha256").hexdigest()
        if path.stat().st_size > _LARGEST:
            raise NotDelivered(f"{path} is too large to send")
        files[digest] = path
        return Path("/", digest, path.name)

    run = task.run.spec if isinstance(task.run, RunTask) else case.run
    own = {case.input.path: sent(task.prepared.path)}
    try:
        moved = with_paths(replace(case, run=run, artifacts=()), lambda path: own.get(path) or sent(path))
    except OSError as error:
        raise NotDelivered(str(error)) from error
    return RemoteJob(moved, task.toolchain.family, rev, fresh, tuple(files), keys_of(task, trial), trial), files


def with_paths(case: Case, change: Callable[[Path], Path]) -> Case:
    """Return a case with the paths of all files that a compile or a run reads changed."""
    run = case.run
    if run is not None:
        parameters = tuple((scope, change(path)) for scope, path in run.parameters)
        inputs, expected = (
            tuple(_FILE_VALUE.sub(lambda match: f"@{change(Path(match[1]))}", value) for value in values)
            for values in (run.inputs, run.expected)
        )
        run = replace(run, parameters=parameters, inputs=inputs, expected=expected, artifacts=(), arguments=None)
    rules = change(case.rules) if case.rules else None
    return replace(case, input=replace(case.input, path=change(case.input.path)), run=run, rules=rules)


def unpacked_case(job: RemoteJob, contents: Mapping[str, bytes], folder: Path) -> Case:
    """Write the files of a job below a folder, by digest, and return its case.

    Raises:
        EnvironmentFailure: a file cannot be written, or does not have the content that its name says.
    """

    def written(path: Path) -> Path:
        _, digest, name = path.parts
        target = folder / digest / name
        if not target.is_file():
            if sha256(contents[digest]).hexdigest() != digest:
                raise EnvironmentFailure(f"{name} was damaged on its way to the worker")
            with disk_errors("keep the input of a job"):
                write_whole(target, contents[digest])
        return target

    return with_paths(job.case, written)


class DeliveredFiles:
    """The files that clients sent to a worker, each in a folder with its digest as name, as far as there is room."""

    def __init__(self, folder: Path, most: int = _MOST_KEPT) -> None:
        """most: bytes to keep."""
        self._folder = folder
        self._most = most
        self._read = most  # bytes since the last look at the folder; the first job looks

    @contextmanager
    def case(self, job: RemoteJob, contents: Mapping[str, bytes], stop: threading.Event) -> Iterator[Case]:
        """Write the files of a job, and keep them until the block ends. Errors as of `unpacked_case`."""
        if job.trial:  # nothing else reads its files, and there may be thousands
            with Scratch(self._folder / "trials").folder() as folder:
                yield unpacked_case(job, contents, folder)
            return
        with _in_use(self._folder, job.files, stop):
            yield unpacked_case(job, contents, self._folder)
        self._read += sum(map(len, contents.values()))
        if self._read > self._most // 16:
            self._read = 0
            remove_unused(self._folder, keep=self._most)


@contextmanager
def _in_use(folder: Path, digests: Iterable[str], stop: threading.Event) -> Iterator[None]:
    """Keep other threads and processes from removing the folders of files."""
    with ExitStack() as locks:
        for digest in digests:
            file, is_kept = folder / digest / USE, False
            while not is_kept:
                with disk_errors("keep the input of a job"):
                    folder.mkdir(parents=True, exist_ok=True)
                    with suppress(FileExistsError):
                        file.parent.mkdir()
                    with suppress(FileNotFoundError):  # removed meanwhile
                        lock = locks.enter_context(file.open("ab"))
                        wait_for_lock(lock, fcntl.LOCK_SH, stop)
                        is_kept = _is_same(lock, file)
            os.utime(file)
        yield


def _is_same(opened: IO[bytes], path: Path) -> bool:
    """Whether an open file is the one that a path names now. FileNotFoundError: nothing is there now."""
    return os.path.samestat(os.fstat(opened.fileno()), path.stat())


def remove_unused(folder: Path, *, keep: int = sys.maxsize, before: float = 0.0) -> int:
    """Remove delivered files until at most `keep` bytes are left, the longest unused first, and those that were used last
    `before` a time in seconds since the epoch. Files that a job uses stay. Return the number of removed folders.
    """
    entries: list[tuple[float, int, Path]] = []
    for path in folder.glob("[0-9a-f]" * 64):
        with suppress(OSError):  # another process removes it
            sizes = [file.stat().st_size for file in path.iterdir()]
            entries.append(((path / USE if (path / USE).exists() else path).stat().st_mtime, sum(sizes), path))
    total, removed = sum(size for _, size, _ in entries), 0
    for used, size, path in sorted(entries):
        if used >= before and total <= keep:
            break
        with suppress(OSError), (path / USE).open("ab") as lock:  # OSError: a job uses it
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same(lock, path / USE):
                continue  # another process removed the folder meanwhile, and a job may use a new one
            doomed = path.with_name(f".doomed-{os.getpid()}-{path.name}")
            path.rename(doomed)  # gone at once for every job that starts now
            shutil.rmtree(doomed, ignore_errors=True)
            total, removed = total - size, removed + 1
    return removed


def sent_facts(text: str, folder: Path) -> str:
    """Return the JSON of a record with the paths of delivered files, below a folder, as they are in a job."""
    return re.sub(rf"{re.escape(_quoted(folder))}/(?:trials/[^/]+/)?(?=[0-9a-f]{{64}}/)", "/", text)


def received_facts(text: str, files: Mapping[str, Path]) -> str:
    """Return the JSON of a record with the paths that the files of a job have here."""
    for digest, path in files.items():
        text = text.replace(f"/{digest}/{_quoted(Path(path.name))}", _quoted(path))
    return text


def _quoted(path: Path) -> str:
    return utf8(json.dumps(str(path), ensure_ascii=False)[1:-1])
