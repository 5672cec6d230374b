"""Make tasks on the workers of a Dask cluster.

The client plans tasks, keeps their records and judges them. A worker gets a case and
the bytes of its input, plans the same task with a toolchain of its own, which must have
the same key, makes it and returns facts. Other files of a case must be under the same
path on all machines, else the keys differ. Dask sends the task of a lost worker to
another one.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

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

from triage.execution.cache import Record, record_json
from triage.execution.engine import open_engine
from triage.execution.judge import NoTask
from triage.execution.plan import plan_task
from triage.execution.task import PassNaming, RunTask, Task
from triage.model.case import Case, Input, InputKind
from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.execution import Execution
from triage.model.outcome import MACHINE_CAUSES, Cause, NoAnswer
from triage.processes.process import StopSignal
from triage.recipes.document import schema_of
from triage.toolchains.registry import ToolchainRegistry

_ATTEMPTS = 3  # of one task
_SECONDS_BETWEEN_LOOKS = 0.2  # at the stop signal
_SECONDS_TO_CONNECT = 30.0
_SETTINGS = {
    "distributed.scheduler.allowed-failures": _ATTEMPTS - 1,
    # whoever reaches them reads what is compiled
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}


@dataclass
class DaskCluster:
    """A scheduler whose workers make the tasks of an engine. The first task connects to
    it. Safe for several threads.
    """

    registry: ToolchainRegistry
    address: str | None
    """Of the scheduler. Without one, a scheduler with one worker runs in this process,
    which no other program can reach.
    """
    jobs: int | None
    """How many tasks that worker makes at once (default: one for each core)."""
    _closing: ExitStack = field(default_factory=ExitStack)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _client: Client | None = None

    def close(self) -> None:
        """End the connection and what runs in this process."""
        self._closing.close()

    def slots(self) -> int:
        """Return how many tasks the workers make at once."""
        return self.jobs or sum(self.client.nthreads().values())

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
        scheduler: Any = self.address
        if scheduler is None:
            self._closing.enter_context(config.set(_SETTINGS))
            local = _local_cluster(self.jobs or os.cpu_count() or 1)
            scheduler = self._closing.enter_context(local)
        elif not scheduler.startswith("tls://"):
            self.registry.workspace.progress.error(
                f"{scheduler} is not protected: whoever reaches it can run programs on "
                "its workers; use tls://, or a network that is closed to others"
            )
        try:
            client = Client(
                scheduler, timeout=_SECONDS_TO_CONNECT, set_as_default=False
            )
        except (OSError, ValueError) as error:
            problem = f"cannot reach the Dask scheduler {scheduler}: {error}"
            raise EnvironmentFailure(problem) from error
        self._closing.enter_context(client)
        if not client.nthreads():
            raise EnvironmentFailure("the scheduler has no workers")
        return client

    def make(self, task: Task, stop: StopSignal) -> list[Execution] | None:
        """Make a task on a worker. Return None if only the client can: it measures
        times, or its compiler is only here.

        Raises NoTask if no worker can, EnvironmentFailure if the scheduler is gone, and
        Interrupted when `stop` is set.
        """
        run = task.run
        ref = self.registry.ref_of(task.toolchain)
        if not (ref.release or ref.path):
            return None
        rev = ref.release.version if ref.release else f"path:{ref.path}"
        device = None
        if isinstance(run, RunTask):
            if run.spec.measured:
                return None
            device = run.runner.device(run.case, run.spec)
        path = task.prepared.path.absolute()
        case = replace(task.case, input=Input(path, InputKind.MLIR), artifacts=())
        client = self.client
        try:
            if device:
                _check_device(client, device)
            values = case, path.read_bytes(), rev, task.variant, task.naming, task.keys
            future = client.submit(
                _compile_on_worker,
                *values,
                pure=False,
                resources={device: 1.0} if device else {},
            )
            records = _result_of(future, stop)
        except (Interrupted, NoTask):
            raise
        except Exception as error:
            if client.status == "running":
                why = f"no worker could do this: {error}"
                if isinstance(error, KilledWorker):
                    why = "each time, it ended its worker"
                raise NoTask(NoAnswer(Cause.ENVIRONMENT, why)) from error
            problem = "the Dask scheduler is gone; finished work is cached"
            raise EnvironmentFailure(problem) from error
        read = schema_of(Record).validate_json
        return [read(record, strict=True).execution for record in records]


def _local_cluster(threads: int) -> SpecCluster:
    """Return a scheduler with one worker, in this process."""
    settings = {
        "protocol": "inproc://",
        "dashboard": False,
        "dashboard_address": "127.0.0.1:0",
    }
    worker = {**settings, "nthreads": threads, "memory_limit": 0}
    return SpecCluster(
        {0: {"cls": Worker, "options": worker}},
        {"cls": Scheduler, "options": settings},
        silence_logs=logging.CRITICAL,
    )


def _check_device(client: Client, device: str) -> None:
    """Raise NoTask if no worker offers a device."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not any(device in worker["resources"] for worker in workers):
        advice = f"start one with --resources {device}=1"
        reason = f"no worker offers the device {device}; {advice}"
        raise NoTask(NoAnswer(Cause.TARGET, reason))


def _result_of(future: Future, stop: StopSignal) -> list[str]:
    """Return a future's result. Raises Interrupted when `stop` is set."""
    # `result` with a timeout may find no result of a task that ends at that moment
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    while not done.wait(_SECONDS_BETWEEN_LOOKS):
        if stop.is_set():
            future.cancel(force=True)
            raise Interrupted("stopped")
    records: list[str] = future.result()
    return records


def _compile_on_worker(
    case: Case,
    content: bytes,
    rev: str,
    variant: str,
    naming: PassNaming | None,
    keys: tuple[str, ...],
) -> list[str]:
    """Make the task of a case, whose input has this content. It must have the same keys
    as on the client.
    """
    client_path = case.input.path
    with open_engine([case]) as engine, engine.folder() as folder:
        worker_path = folder / client_path.name
        worker_path.write_bytes(content)
        case = replace(case, input=Input(worker_path, InputKind.MLIR))
        ref = engine.registry.resolve(rev, case.compiler)
        try:
            task = plan_task(engine, case, engine.registry.obtain(ref))
        except NoTask as error:
            raise EnvironmentFailure(error.why.reason) from error
        task = replace(task, variant=variant, naming=naming)
        if task.keys != keys:
            raise EnvironmentFailure(
                f"its {rev} has other bytes, or the files that the case names, its "
                "environment or its seal differ"
            )
        worker = get_worker()
        stop = _AbandonedTask(worker, worker.get_current_task())
        executions = engine.make(task, stop)
        probe = task.probe(*executions, cached=False)
        if probe and probe.outcome.cause in MACHINE_CAUSES:
            raise EnvironmentFailure(probe.outcome.reason or "")
        records = map(record_json, task.records(executions))
        return [
            record.replace(str(worker_path), str(client_path)) for record in records
        ]


@dataclass(frozen=True)
class _AbandonedTask:
    """Set once nobody waits for a task that a worker runs."""

    worker: Worker
    key: str

    def is_set(self) -> bool:
        task = self.worker.state.tasks.get(self.key)
        return task is None or task.state not in ("executing", "long-running")
