"""Make tasks on the workers of a Dask cluster.

The client plans tasks, keeps their records and judges them. A worker gets a case and
the bytes of its files, plans the same task with a toolchain of its own, which must have
the same key, makes it and returns facts. Dask sends the task of a lost worker to
another one.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from dask import config
from distributed import (
    Client,
    Future,
    KilledWorker,
    Scheduler,
    SpecCluster,
    Worker,
    get_worker,
)

from triage.execution.cache import Record, parse_record, record_json
from triage.execution.capacity import usable_memory_mb
from triage.execution.engine import open_engine
from triage.execution.run_task import RunTask
from triage.execution.task import Task
from triage.model.case import Case, Input, InputKind
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure, Interrupted, TriageError
from triage.model.execution import utf8
from triage.model.outcome import OF_MACHINE, Cause, NoAnswer, Probe
from triage.processes.process import StopSignal
from triage.toolchains.home import write_whole
from triage.toolchains.registry import ToolchainRegistry

_ATTEMPTS = 3  # of one job, each on another worker
_LARGEST = 64 << 20  # bytes of a file that travels
_SECONDS_BETWEEN_LOOKS = 0.2  # at the stop signal
_SECONDS_TO_CONNECT = 30.0
_FILE_VALUE = re.compile(r"@(/\S+)")
_GONE = (
    "the Dask scheduler is gone; run the command again when it is back: finished work "
    "is cached"
)
_LOOPBACK = {
    "protocol": "inproc://",
    "dashboard": False,
    "dashboard_address": "127.0.0.1:0",
}
_SETTINGS = {
    "distributed.scheduler.allowed-failures": _ATTEMPTS - 1,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # it looks at the stack 100 times a second, and nobody sees the result
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
}


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a worker needs to make a task, besides the bytes of its files."""

    case: Case
    rev: str
    """How the worker names the toolchain."""
    key: str
    """The cache key of the task. The task that the worker makes must have the same."""
    options: Mapping[str, Any]
    """Fields of the task that do not follow from the case."""
    files: tuple[Path, ...]
    """The paths of its files on the client."""
    versions: str


class NotMade(Exception):
    """A worker cannot make a task. The arguments are the worker and the reason."""


class DaskCluster:
    """A scheduler whose workers make the tasks of an engine. The first task connects to
    it. Safe for several threads.
    """

    def __init__(
        self,
        registry: ToolchainRegistry,
        address: str | None,
        jobs: int | None,
        warn: Callable[[str], None],
    ) -> None:
        """Prepare a cluster for toolchains of a registry.

        Without an address, a scheduler with a worker of `jobs` threads runs in this
        process, which no other program can reach.
        """
        self._registry, self._address, self._warn = registry, address, warn
        self._threads = jobs or os.cpu_count() or 1
        self._closing = ExitStack()
        self._lock = threading.Lock()
        self._client: Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def slots(self) -> int:
        """Return how many threads all workers have."""
        return sum(self.client.nthreads().values())

    @property
    def client(self) -> Client:
        """The connection. EnvironmentFailure when there is no scheduler or worker."""
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> Client:
        # what concerns the user is reported here
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        place: Any = self._address
        if place is None:
            place = self._closing.enter_context(self._open_here())
        elif not place.startswith("tls://"):
            self._warn(
                f"{place} is not protected: whoever reaches it can run programs on "
                "its workers; use tls://, or a network that is closed to others"
            )
        try:
            client = self._closing.enter_context(
                Client(place, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
            )
        except (OSError, ValueError) as error:
            raise EnvironmentFailure(
                f"cannot reach the Dask scheduler {place}: {error}"
            ) from error
        if not client.nthreads():
            raise EnvironmentFailure(
                "the scheduler has no workers; start some with `dask worker ADDRESS`"
            )
        return client

    def _open_here(self) -> SpecCluster:
        self._closing.enter_context(config.set(_SETTINGS))
        worker = {
            **_LOOPBACK,
            "nthreads": self._threads,
            "memory_limit": 0,
            "resources": {"memory": usable_memory_mb()},
        }
        scheduler = {"cls": Scheduler, "options": _LOOPBACK}
        workers = {0: {"cls": Worker, "options": worker}}
        return SpecCluster(workers, scheduler, silence_logs=logging.CRITICAL)

    def make(
        self, task: Task, needed_mb: float, stop: StopSignal
    ) -> list[Record] | NoAnswer | None:
        """Make a task on a worker, on another one if it fails there. Return None if
        only the client can make it.

        Raises EnvironmentFailure if the scheduler is gone, and Interrupted when `stop`
        is set.
        """
        parcel = self._parcel_of(task)
        if parcel is None:
            return None
        problems: dict[str, str] = {}  # by worker
        try:
            needs = self._needs(task, needed_mb)
            if isinstance(needs, NoAnswer):
                return needs
            contents = [self._sent(path) for path in parcel.files]
            while len(problems) < _ATTEMPTS:
                workers = [
                    name for name in self.client.nthreads() if name not in problems
                ]
                if problems and not workers:
                    break
                future = self.client.submit(
                    _make_here,
                    parcel,
                    *contents,
                    pure=False,
                    resources=needs,
                    workers=workers if problems else None,
                )
                try:
                    return _wait(future, stop)
                except NotMade as problem:
                    problems[problem.args[0]] = problem.args[1]
                except KilledWorker:
                    problems = {"each time": "it ended its worker"}
                    break
        except Exception as error:
            if self.client.status == "running" or isinstance(error, TriageError):
                raise
            raise EnvironmentFailure(_GONE) from error
        reasons = "; ".join(map(": ".join, problems.items()))
        return NoAnswer(Cause.ENVIRONMENT, f"no worker could do this: {reasons}")

    def _needs(self, task: Task, needed_mb: float) -> dict[str, float] | NoAnswer:
        """Return the resources of a worker that a task needs, of those that workers
        have, or why no worker has them.
        """
        largest: dict[str, float] = {}
        for worker in self.client.scheduler_info(n_workers=-1)["workers"].values():
            for name, amount in worker["resources"].items():
                largest[name] = max(amount, largest.get(name, 0.0))
        needs = {"memory": needed_mb}
        runner, run = task.compiler.run, task.case.run
        device = None
        if run and runner:
            device = runner.device(task.case, run)
        if device:
            needs[device] = 1.0
            if device not in largest:
                advice = f"start one with --resources {device}=1"
                reason = f"no worker offers the device {device}; {advice}"
                return NoAnswer(Cause.TARGET, reason)
        return {
            name: min(amount, largest[name])
            for name, amount in needs.items()
            if name in largest
        }

    def _sent(self, path: Path) -> Future:
        """Return the bytes of a file as a task of their own: Dask sends them once to a
        worker, and computes them again when it is lost.
        """
        key = f"triage-file-{file_sha256(path)}"
        return self.client.submit(bytes, path.read_bytes(), key=key)

    def _parcel_of(self, task: Task) -> Parcel | None:
        """Return a task as data; None if only this machine can make it: it measures
        times, its compiler is only here, or an option names a file.
        """
        case, run = task.case, task.case.run
        ref = self._registry.ref_of(task.toolchain)
        if ref is None or not (ref.release or ref.path):
            return None
        if run and (run.measured or run.reference or run.libraries):
            return None
        words = [flag.text for flag in case.flags]
        if run:
            words += run.flags
        if any("/" in word for word in words):
            return None
        if isinstance(task.run, RunTask):
            run = task.run.spec
        source = case.input
        if source.is_made:
            source = Input(task.prepared.path, InputKind.MLIR)
        files: list[Path] = []

        def add_file(path: Path) -> Path:
            files.append(path)
            return path.absolute()

        case = replace(case, input=source, run=run, artifacts=())
        try:
            case = _with_paths(case, add_file)
            small = {path for path in files if path.stat().st_size <= _LARGEST}
        except OSError:
            return None
        return Parcel(
            case,
            ref.release.version if ref.release else f"path:{ref.path}",
            task.key,
            {"variant": task.variant, "naming": task.naming},
            tuple(small),
            _versions(),
        )


def _wait(future: Future, stop: StopSignal) -> list[Record]:
    """Wait for the records of a task. Raises NotMade when another worker has to make
    it.
    """
    while True:
        try:
            return list(map(parse_record, future.result(_SECONDS_BETWEEN_LOOKS)))
        except TimeoutError:
            if stop.is_set():
                future.cancel(force=True)
                raise Interrupted("stopped") from None


def _with_paths(case: Case, change: Callable[[Path], Path]) -> Case:
    """Return a case with the paths of all files that a compile or a run reads
    changed.
    """

    def changed(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            _FILE_VALUE.sub(lambda match: f"@{change(Path(match[1]))}", value)
            for value in values
        )

    run = case.run
    if run is not None:
        run = replace(
            run,
            parameters=tuple((scope, change(path)) for scope, path in run.parameters),
            inputs=changed(run.inputs),
            expected=changed(run.expected),
            artifacts=(),
            arguments=None,
        )
    source = replace(case.input, path=change(case.input.path))
    rules = case.rules and change(case.rules)
    return replace(case, input=source, run=run, rules=rules)


def _versions() -> str:
    """Return the versions that a client and its workers must have in common."""
    python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    return f"triage {version('iree-triage')} on {python}"


def _make_here(parcel: Parcel, *contents: bytes) -> list[str]:
    """Make a task on a worker; return its records as JSON. Raises NotMade for a problem
    of its machine.
    """
    try:
        return _records(parcel, contents)
    except Exception as error:
        reason = repr(error)
        if isinstance(error, TriageError | OSError):
            reason = str(error)
        raise NotMade(str(get_worker().address), reason[:300] or "stopped") from None


def _records(parcel: Parcel, contents: Sequence[bytes]) -> list[str]:
    """Make a task with copies of its files; return its records as JSON, with the
    client's paths.
    """
    if parcel.versions != _versions():
        raise EnvironmentFailure(f"it has {_versions()}, not {parcel.versions}")
    places: dict[Path, Path] = {}

    def path_here(path: Path) -> Path:
        if path not in places and not path.is_file():
            raise EnvironmentFailure(
                f"{path} has more than {_LARGEST >> 20} MiB, so it is not sent, and "
                "this worker does not have it; put it into a folder that all "
                "machines see under the same path"
            )
        return places.get(path, path)

    with open_engine([parcel.case]) as engine, engine.scratch.folder() as folder:
        for path, content in zip(parcel.files, contents, strict=True):
            places[path] = folder / str(len(places)) / path.name
            write_whole(places[path], content)
        case = _with_paths(parcel.case, path_here)
        ref = engine.registry.resolve(parcel.rev, case.compiler)
        task = engine.planner.plan(case, engine.registry.obtain(ref))
        if isinstance(task, Probe):
            raise EnvironmentFailure(str(task.outcome.reason))
        task = replace(task, **parcel.options)
        if task.key != parcel.key:
            raise EnvironmentFailure(
                f"its {parcel.rev} has other bytes, or its files, its environment or "
                "its seal differ"
            )
        records = engine.make(task, _Released(get_worker()))
        probe = task.probe(*records, cached=False)
        if probe and probe.outcome.cause in OF_MACHINE:
            raise EnvironmentFailure(probe.outcome.reason or "")
    texts = [record_json(record) for record in records]
    for there, here in places.items():
        texts = [text.replace(_json_text(here), _json_text(there)) for text in texts]
    return texts


def _json_text(path: Path) -> str:
    return utf8(json.dumps(str(path), ensure_ascii=False)[1:-1])


class _Released:
    """Set once nobody waits for the task that a worker runs now."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._key = worker, worker.get_current_task()

    def is_set(self) -> bool:
        task = self._worker.state.tasks.get(self._key)
        return task is None or task.state not in ("executing", "long-running")
