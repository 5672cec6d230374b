"""A probe as data: what a worker on another machine needs to make it, and the facts that it returns."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import file_digest, sha256
from importlib.metadata import version
from pathlib import Path

from triage.execution.compile_task import CompileTask
from triage.execution.prober import Trial
from triage.execution.run_stage import RunTask
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure
from triage.model.execution import utf8
from triage.toolchains.home import disk_errors, write_whole

_FILE_VALUE = re.compile(r"@(/\S+)")
_FILE_FLAG = re.compile(r"(?:^|=|@)/")
_SENT = re.compile(r"/[0-9a-f]{64}/[^/]+")  # the path of a file that travels
_LARGEST = 64 << 20  # bytes of a file that travels


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A probe to make elsewhere."""

    case: Case
    """Each path of a file that travels is replaced by `/DIGEST/NAME`."""
    family: str
    rev: str
    """How the worker names the toolchain."""
    identity: str
    """Of the toolchain: the digest of its files."""
    fresh: bool
    """Ignore what the worker knows."""
    keys: tuple[str, ...] = ()
    """Of the results, which depend on the bytes of compiler and input."""
    trial: Trial | None = None


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """What a worker returns."""

    worker: str
    records: tuple[str, ...] = ()
    """JSON of the compile, and of the run that followed."""
    problem: str | None = None
    """Why it has no result."""
    cached: bool = False


class NotDelivered(Exception):
    """A probe that only this machine can make."""


def versions() -> str:
    """Return the versions that a client and its workers must have in common."""
    return f"triage {version('iree-triage')} on Python {sys.version_info[0]}.{sys.version_info[1]}"


def packed_job(task: CompileTask, rev: str, *, fresh: bool, trial: Trial | None = None) -> tuple[RemoteJob, dict[str, Path]]:
    """Return a task as data, and the files that travel with it by digest. Raises NotDelivered for what cannot be sent."""
    case = task.case
    if case.run and (case.run.measured or case.run.reference or case.run.libraries):
        raise NotDelivered("it is measured, or needs the result of another compile")
    flags = [flag.text for flag in case.flags] + list(case.run.flags if case.run else ())
    if any(map(_FILE_FLAG.search, flags)):
        raise NotDelivered("a flag names a file")
    files: dict[str, Path] = {}

    def sent(path: Path) -> Path:
        if path.stat().st_size > _LARGEST:
            return path.absolute()  # the worker must see it under the same path
        with path.open("rb") as source:
            digest = file_digest(source, "sha256").hexdigest()
        files[digest] = path
        return Path("/", digest, path.name)

    run = task.run.spec if isinstance(task.run, RunTask) else case.run
    own = {case.input.path: sent(task.prepared.path)}
    try:
        moved = with_paths(replace(case, run=run, artifacts=()), lambda path: own.get(path) or sent(path))
    except OSError as error:
        raise NotDelivered(str(error)) from error
    key = task.key(trial.mark) if trial else task.key()
    keys = (key, task.run.key(key)) if isinstance(task.run, RunTask) else (key,)
    return RemoteJob(moved, task.toolchain.family, rev, task.toolchain.identity, fresh, keys, trial), files


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
        EnvironmentFailure: a file cannot be written, was damaged on its way, or was too large to send and is not here.
    """

    def written(path: Path) -> Path:
        if not _SENT.fullmatch(str(path)):
            if not path.is_file():
                raise EnvironmentFailure(
                    f"{path} has more than {_LARGEST >> 20} MiB, so it is not sent, and this worker does not have it; "
                    "put it into a folder that all machines see under the same path"
                )
            return path
        _, digest, name = path.parts
        if sha256(contents[digest]).hexdigest() != digest:
            raise EnvironmentFailure(f"{name} was damaged on its way to the worker")
        with disk_errors("keep the input of a job"):
            write_whole(folder / digest / name, contents[digest])
        return folder / digest / name

    return with_paths(job.case, written)


def sent_facts(text: str, folder: Path) -> str:
    """Return the JSON of a record with the paths of delivered files, below a folder, as they are in a job."""
    return re.sub(rf"{re.escape(_quoted(folder))}(?=/[0-9a-f]{{64}}/)", "", text)


def received_facts(text: str, files: Mapping[str, Path]) -> str:
    """Return the JSON of a record with the paths that the files of a job have here."""
    for digest, path in files.items():
        text = text.replace(f"/{digest}/{_quoted(Path(path.name))}", _quoted(path))
    return text


def _quoted(path: Path) -> str:
    return utf8(json.dumps(str(path), ensure_ascii=False)[1:-1])
