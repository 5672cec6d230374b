"""What a Dask worker does for triage: a plugin that keeps toolchains, inputs and results of its machine, and makes probes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from distributed import Worker, WorkerPlugin, get_worker

from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.cache import record_json
from triage.execution.compile_task import CompileTask
from triage.execution.delivery import RemoteAnswer, RemoteJob, keys_of, sent_facts, unpacked_case
from triage.execution.process import StopSignal
from triage.execution.runner import ProbeRunner
from triage.execution.scratch import Scratch
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, Interrupted, TriageError
from triage.model.outcome import Cause, Untestable
from triage.toolchains.home import home_path

_DELIVERED = "delivered"  # the folder of files that clients sent


@cache
def versions() -> str:
    """Return the versions that a client and its workers must have in common."""
    return f"triage {version('iree-triage')} on Python {sys.version_info[0]}.{sys.version_info[1]}"


class ProbePlugin(WorkerPlugin):  # type: ignore[misc]
    """Makes the probes of one client on one worker. Removing the plugin ends its compilers."""

    def __init__(self, client: str) -> None:
        self.name = f"triage-{client}"
        self.client = versions()

    def setup(self, worker: Any) -> None:
        """Start on a worker. Nothing is opened before the first job."""
        self._address = str(worker.address)
        self._opened: dict[str, ProbeRunner] = {}
        self._closing = ExitStack()
        self._lock = threading.Lock()

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 - the signature of dask
        """End the compilers that run, and close the results."""
        with self._lock:
            for runner in self._opened.values():
                runner.stop.set()
            self._opened = {}
            self._closing.close()

    def probe(self, job: RemoteJob, contents: Mapping[str, bytes], cancelled: StopSignal) -> RemoteAnswer:
        """Make a probe. A problem of this machine is part of the answer."""
        if versions() != self.client:
            return RemoteAnswer(self._address, problem=f"it has {versions()}, the client {self.client}")
        try:
            runner = self._runner(job)
            with ExitStack() as working:
                folder = home_path() / _DELIVERED
                if job.trial:  # nothing else reads its files, and there may be thousands
                    folder = working.enter_context(Scratch(folder / "trials").folder())
                return self._answer(runner, job, unpacked_case(job, contents, folder), cancelled)
        except Interrupted:
            return RemoteAnswer(self._address, problem="stopped")
        except (TriageError, OSError) as error:
            return RemoteAnswer(self._address, problem=str(error))

    def _answer(self, runner: ProbeRunner, job: RemoteJob, case: Case, cancelled: StopSignal) -> RemoteAnswer:
        toolchain = runner.registry.obtain(runner.registry.resolve(job.rev, job.family))
        task = runner.prober.plan(case, toolchain)
        if not isinstance(task, CompileTask):
            outcome = task.outcome
            reason = outcome.reason if isinstance(outcome, Untestable) else "it prepares the input in another way"
            return RemoteAnswer(self._address, identity=toolchain.identity, problem=reason)
        if keys_of(task, job.trial) != job.keys:  # the client says which bytes differ
            return RemoteAnswer(self._address, identity=toolchain.identity)
        return self._made(runner, job, task, cancelled)

    def _made(self, runner: ProbeRunner, job: RemoteJob, task: CompileTask, cancelled: StopSignal) -> RemoteAnswer:
        case, toolchain = task.case, task.toolchain
        if trial := job.trial:
            probe = runner.prober.trial(case, toolchain, trial.naming, attempt=trial.attempt, cancelled=cancelled)
        else:
            probe = runner.prober.probe(case, toolchain, fresh=job.fresh)
        outcome = probe.outcome
        if isinstance(outcome, Untestable) and outcome.cause in (Cause.ENVIRONMENT, Cause.TOOLCHAIN):
            return RemoteAnswer(self._address, identity=toolchain.identity, problem=outcome.reason)
        records = [record for key in job.keys if (record := runner.evidence.find(key))]
        if not records:
            raise EnvironmentFailure("the result was not stored in the TRIAGE_HOME of this worker; check its disk")
        facts = tuple(sent_facts(record_json(record), home_path() / _DELIVERED) for record in records)
        return RemoteAnswer(self._address, facts, toolchain.identity, cached=probe.cached)

    def _runner(self, job: RemoteJob) -> ProbeRunner:
        """Return what makes probes of a job's family; families that recipes describe have one each."""
        key = f"{job.family}\0{job.case.spec!r}" if ":" in job.family or "@" in job.family else ""
        with self._lock:
            if key not in self._opened:
                opened = open_runner(AppContext(quiet=True), [job.case], 1, delivered=home_path() / _DELIVERED)
                self._opened[key] = self._closing.enter_context(opened)
            return self._opened[key]


@dataclass(frozen=True, slots=True)
class Released:
    """Set once nobody waits for a task that a worker runs."""

    worker: Worker
    key: Any

    def is_set(self) -> bool:
        task = self.worker.state.tasks.get(self.key)
        return task is None or task.state not in ("executing", "long-running")


def probe_here(plugin: str, jobs: Sequence[RemoteJob], digests: Sequence[str], *contents: bytes) -> list[RemoteAnswer]:
    """Make probes in turn on the worker that runs this function. contents: of the files with these digests."""
    files, worker = dict(zip(digests, contents, strict=True)), get_worker()
    cancelled = Released(worker, worker.get_current_task())
    return [worker.plugins[plugin].probe(job, files, cancelled) for job in jobs]


def content(data: bytes) -> bytes:
    """Return the bytes of a file, which Dask moves to the workers that need them."""
    return data
