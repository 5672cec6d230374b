"""Make tasks on the workers of a Dask cluster.

The client plans tasks, keeps their records and judges them. A worker gets a case and
the bytes of its files, obtains the same toolchain, makes the task and returns facts.
Dask sends the task of a lost worker to another one.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from dask import config
from distributed import (
    Client,
    Future,
    KilledWorker,
    Scheduler,
    SpecCluster,
    Worker,
    WorkerPlugin,
    get_worker,
)

from triage.execution.engine import Engine, open_engine
from triage.execution.record import Record, parse_record, record_json
from triage.execution.run_task import RunTask
from triage.execution.task import Task, usable_memory_mb
from triage.model.case import Case, Input, InputKind
from triage.model.content import file_sha256
from triage.model.errors import EnvironmentFailure, Interrupted, TriageError
from triage.model.execution import utf8
from triage.model.outcome import OF_MACHINE, Cause, NoAnswer, Probe
from triage.processes.process import StopSignal
from triage.processes.sealing import missing_seals
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.registry import ToolchainRegistry

_ATTEMPTS = 3  # of one job, each on another worker where there is one
_LARGEST = 64 << 20  # bytes of a file that travels
_SMALL = 64 << 10  # bytes of a file that travels with each job
_TICK = 0.2  # seconds between looks at the stop signal
_CONNECT = 30.0  # seconds to find the scheduler
_FILE_VALUE = re.compile(r"@(/\S+)")
_FILE_FLAG = re.compile(r"(?:^|=|@)/")
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


def worker_versions() -> str:
    """Return the versions that a client and its workers must have in common."""
    return (
        f"triage {version('iree-triage')} on Python "
        f"{sys.version_info[0]}.{sys.version_info[1]}"
    )


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a worker needs to make a task, besides the bytes of its files."""

    case: Case
    rev: str
    """How the worker names the toolchain."""
    identity: str
    """The digest of the toolchain's files."""
    key: str
    """The cache key of the task. The task that the worker makes must have the same."""
    options: dict[str, Any]
    """Fields of the task that do not follow from the case."""
    files: tuple[Path, ...]
    """The paths of its files on the client."""


class NotMade(Exception):
    """A worker cannot make a task. The arguments are the worker, empty if it is not
    known, and the reason.
    """


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
        self._registry = registry
        self._address = address
        self._jobs = jobs
        self._closing = ExitStack()
        self._warn = warn
        self._plugin = TaskPlugin()
        self._lock = threading.Lock()
        self._client: Client | None = None
        # the largest amount that a worker has of each
        self._resources: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def slots(self) -> int:
        """Return how many threads all workers have."""
        return sum(self.client.nthreads().values())

    @property
    def client(self) -> Client:
        """The connection. EnvironmentFailure when there is no scheduler, or no worker
        that can run this program.
        """
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> Client:
        # what concerns the user is reported here
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        place: Any = self._address
        if place is None:
            self._closing.enter_context(config.set(_SETTINGS))
            resources = {"memory": usable_memory_mb()}
            worker = {
                **_LOOPBACK,
                "nthreads": self._jobs or os.cpu_count() or 1,
                "memory_limit": 0,
                "resources": resources,
            }
            scheduler = {"cls": Scheduler, "options": _LOOPBACK}
            workers = {0: {"cls": Worker, "options": worker}}
            place = self._closing.enter_context(
                SpecCluster(workers, scheduler, silence_logs=logging.CRITICAL)
            )
        elif not place.startswith("tls://"):
            self._warn(
                f"{place} is not protected: whoever reaches it can run programs on "
                "its workers; use tls://, or a network that is closed to others"
            )
        try:
            client = self._closing.enter_context(
                Client(place, timeout=_CONNECT, set_as_default=False)
            )
        except (OSError, ValueError) as error:
            raise EnvironmentFailure(
                f"cannot reach the Dask scheduler {place}: {error}"
            ) from error
        if not client.nthreads():
            raise EnvironmentFailure(
                "the scheduler has no workers; start some with `dask worker ADDRESS`"
            )
        try:
            client.register_plugin(self._plugin)
        except Exception as error:  # whatever a worker without this program raises
            raise EnvironmentFailure(
                f"a worker cannot run {worker_versions()}: {error}"
            ) from error
        self._closing.callback(self._leave, client)
        return client

    def _leave(self, client: Client) -> None:
        with suppress(Exception):
            client.unregister_worker_plugin(self._plugin.name)

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
        needs = self._needs(task, needed_mb)
        if isinstance(needs, NoAnswer):
            return needs
        problems: dict[str, str] = {}  # by worker
        try:
            contents = [self._content(path) for path in parcel.files]
            while len(problems) < _ATTEMPTS:
                if problems:
                    others = [
                        worker
                        for worker in self.client.nthreads()
                        if worker not in problems
                    ]
                else:
                    others = None
                if others == []:
                    break
                options = {"pure": False, "resources": needs or None, "workers": others}
                future = self.client.submit(
                    _make_here, self._plugin.name, parcel, *contents, **options
                )
                try:
                    return self._receive(future, task, stop)
                except NotMade as problem:
                    worker, reason = problem.args
                    problems[worker or f"attempt {len(problems) + 1}"] = reason
                except KilledWorker:
                    problems = {"each time": "it ended its worker"}
                    break
        except Exception as error:
            if self.client.status == "running" or isinstance(error, Interrupted):
                raise
            raise EnvironmentFailure(_GONE) from error
        reasons = "; ".join(
            f"{worker}: {reason}" for worker, reason in problems.items()
        )
        return NoAnswer(Cause.ENVIRONMENT, f"no worker could do this: {reasons}")

    def _needs(self, task: Task, needed_mb: float) -> dict[str, float] | NoAnswer:
        """Return the resources of a worker that a task needs, or why no worker has
        them.
        """
        runner, run, device = task.compiler.run, task.case.run, None
        if run and runner:
            device = runner.device(task.case, run)
        if not self._resources or (device and device not in self._resources):
            for worker in self.client.scheduler_info(n_workers=-1)["workers"].values():
                for name, amount in worker["resources"].items():
                    self._resources[name] = max(amount, self._resources.get(name, 0.0))
        if device and device not in self._resources:
            reason = (
                f"no worker offers the device {device}; start one with --resources "
                f"{device}=1"
            )
            return NoAnswer(Cause.TARGET, reason)
        needs = {"memory": needed_mb, "cores": 1.0}
        if device:
            needs[device] = 1.0
        return {
            name: min(amount, self._resources[name])
            for name, amount in needs.items()
            if name in self._resources
        }

    def _receive(self, future: Future, task: Task, stop: StopSignal) -> list[Record]:
        """Wait for the records of a task. Raises NotMade when another worker has to
        make it.
        """
        ended = threading.Event()
        future.add_done_callback(lambda _: ended.set())
        while not ended.wait(_TICK):
            if stop.is_set():
                future.cancel(force=True)
                raise Interrupted("stopped")
        if future.status in ("cancelled", "lost"):
            raise EnvironmentFailure(_GONE)
        try:
            records = [parse_record(text) for text in future.result()]
        except (NotMade, KilledWorker):
            raise
        except Exception as error:  # whatever a worker raises, and what is not a record
            raise NotMade("", f"{type(error).__name__}: {str(error)[:300]}") from None
        keys = [record.key for record in records]
        if (
            not keys
            or keys != [task.key, task.run_key][: len(keys)]
            or task.probe(*records, cached=False) is None
        ):
            raise NotMade("", "it returned no result of the task that it was sent")
        return records

    def _content(self, path: Path) -> Future | bytes:
        """Return the bytes of a small file. Those of others are a task of their own:
        Dask sends them once to a worker, and computes them again when it is lost.
        """
        content = path.read_bytes()
        if len(content) <= _SMALL:
            return content
        return self.client.submit(
            bytes, content, key=f"triage-file-{file_sha256(path)}"
        )

    def _parcel_of(self, task: Task) -> Parcel | None:
        """Return a task as data; None if only this machine can make it."""
        case = task.case
        run = task.case.run
        ref = self._registry.ref_of(task.toolchain)
        if ref is None or not (ref.release or ref.path):
            return None
        if run and (run.measured or run.reference or run.libraries):
            return None  # it is measured, or needs the result of another compile
        flags = [flag.text for flag in case.flags]
        if run:
            flags += run.flags
        if any(map(_FILE_FLAG.search, flags)):
            return None  # a flag names a file
        if case.input.is_made:
            source = Input(task.prepared.path, InputKind.MLIR)
        else:
            source = case.input
        if isinstance(task.run, RunTask):
            run = task.run.spec
        files: list[Path] = []

        def add_file(path: Path) -> Path:
            files.append(path)
            return path.absolute()

        try:
            case = _with_paths(
                replace(case, input=source, run=run, artifacts=()), add_file
            )
            small = tuple(
                path for path in dict.fromkeys(files) if path.stat().st_size <= _LARGEST
            )
        except OSError:
            return None
        if ref.release:
            rev = ref.release.version
        else:
            rev = f"path:{ref.path}"
        return Parcel(
            case,
            rev,
            task.toolchain.identity,
            task.key,
            {"variant": task.variant, "naming": task.naming, "sealed": task.sealed},
            small,
        )


def _with_paths(case: Case, change: Callable[[Path], Path]) -> Case:
    """Return a case with the paths of all files that a compile or a run reads
    changed.
    """
    run = case.run
    if run is not None:
        parameters = tuple((scope, change(path)) for scope, path in run.parameters)
        inputs, expected = (
            tuple(
                _FILE_VALUE.sub(lambda match: f"@{change(Path(match[1]))}", value)
                for value in values
            )
            for values in (run.inputs, run.expected)
        )
        run = replace(
            run,
            parameters=parameters,
            inputs=inputs,
            expected=expected,
            artifacts=(),
            arguments=None,
        )
    if case.rules:
        rules = change(case.rules)
    else:
        rules = None
    return replace(
        case,
        input=replace(case.input, path=change(case.input.path)),
        run=run,
        rules=rules,
    )


def _make_here(plugin: str, parcel: Parcel, *contents: bytes) -> list[str]:
    records: list[str] = get_worker().plugins[plugin].make(parcel, contents)
    return records


class TaskPlugin(WorkerPlugin):  # type: ignore[misc]
    """Makes the tasks of one client on one worker. Removing the plugin ends its
    compilers.
    """

    def __init__(self) -> None:
        self.name = f"triage-{uuid4().hex}"
        self.client = worker_versions()

    def setup(self, worker: Any) -> None:
        """Start on a worker. Nothing is opened before the first job."""
        self._address = str(worker.address)
        self._closing = ExitStack()
        self._lock = threading.Lock()
        self._opened: dict[str, Engine] = {}

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 - the signature of dask
        """End the compilers that run."""
        with self._lock:
            for engine in self._opened.values():
                engine.stop.set()
            self._opened = {}
            self._closing.close()

    def make(self, parcel: Parcel, contents: Sequence[bytes]) -> list[str]:
        """Make a task; return its records as JSON. Raises NotMade for a problem of this
        machine.
        """
        try:
            if worker_versions() != self.client:
                raise EnvironmentFailure(
                    f"it has {worker_versions()}, the client {self.client}"
                )
            engine = self._engine(parcel.case)
            with engine.maker.scratch.folder() as folder:
                return _records(engine, parcel, contents, folder)
        except (TriageError, OSError) as error:
            raise NotMade(self._address, str(error) or "stopped") from None

    def _engine(self, case: Case) -> Engine:
        """Return the engine for a case's family; families that recipes describe have
        one each.
        """
        if ":" in case.compiler or "@" in case.compiler:
            key = f"{case.compiler}\0{case.spec!r}"
        else:
            key = ""
        with self._lock:
            if key not in self._opened:
                self._opened[key] = self._closing.enter_context(open_engine([case]))
            return self._opened[key]


def _records(
    engine: Engine, parcel: Parcel, contents: Sequence[bytes], folder: Path
) -> list[str]:
    """Make a task with files in a folder; return its records as JSON, with the client's
    paths.
    """
    places: dict[Path, Path] = {}
    with disk_errors("keep the input of a job"):
        for number, (path, content) in enumerate(
            zip(parcel.files, contents, strict=True)
        ):
            places[path] = folder / str(number) / path.name
            write_whole(places[path], content)

    def path_here(path: Path) -> Path:
        if path not in places and not path.is_file():
            raise EnvironmentFailure(
                f"{path} has more than {_LARGEST >> 20} MiB, so it is not sent, and "
                "this worker does not have it; put it into a folder that all "
                "machines see under the same path"
            )
        return places.get(path, path)

    case = _with_paths(parcel.case, path_here)
    toolchain = engine.registry.obtain(
        engine.registry.resolve(parcel.rev, case.compiler)
    )
    if toolchain.identity != parcel.identity:
        other = f"{toolchain.identity[:12]}, the client {parcel.identity[:12]}"
        raise EnvironmentFailure(f"its {parcel.rev} has other bytes: {other}")
    task = engine.planner.plan(case, toolchain)
    if isinstance(task, Probe):
        raise EnvironmentFailure(str(task.outcome.reason))
    if task.sealed != parcel.options["sealed"]:
        missing = "; ".join(missing_seals()) or "this worker seals what it compiles"
        raise EnvironmentFailure(missing)
    task = replace(task, **parcel.options)
    if task.key != parcel.key:
        raise EnvironmentFailure(
            "its task is another one: the files or the environment of this worker "
            "differ"
        )
    records = engine.maker.make(task, _Released(get_worker()))
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
