"""What a Dask worker does for triage: a plugin that keeps toolchains and results of its machine, and makes probes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

from distributed import Worker, WorkerPlugin, get_worker

from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.cache import record_json
from triage.execution.delivery import RemoteAnswer, RemoteJob, sent_facts, unpacked_case, versions
from triage.execution.runner import ProbeRunner
from triage.execution.scratch import Scratch
from triage.model.case import Case
from triage.model.errors import TriageError
from triage.model.outcome import Cause, Untestable
from triage.toolchains.home import open_home


class ProbePlugin(WorkerPlugin):  # type: ignore[misc]
    """Makes the probes of one client on one worker. Removing the plugin ends its compilers."""

    def __init__(self) -> None:
        self.name = f"triage-{uuid4().hex}"
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

    def probe(self, job: RemoteJob, contents: Mapping[str, bytes]) -> RemoteAnswer:
        """Make a probe. A problem of this machine is part of the answer."""
        if versions() != self.client:
            return RemoteAnswer(self._address, problem=f"it has {versions()}, the client {self.client}")
        try:
            with Scratch(open_home() / "delivered").folder() as folder:
                return self._answer(job, unpacked_case(job, contents, folder), folder)
        except (TriageError, OSError) as error:
            return RemoteAnswer(self._address, problem=str(error) or "stopped")

    def _answer(self, job: RemoteJob, case: Case, folder: Path) -> RemoteAnswer:
        runner = self._runner(job, case)
        toolchain = runner.registry.obtain(runner.registry.resolve(job.rev, job.family))
        if toolchain.identity != job.identity:
            other = f"its {job.rev} has other bytes: {toolchain.identity[:12]}, the client {job.identity[:12]}"
            return RemoteAnswer(self._address, problem=other)
        if trial := job.trial:
            cancelled = Released(get_worker())
            probe = runner.prober.trial(case, toolchain, trial.naming, attempt=trial.attempt, cancelled=cancelled)
        else:
            probe = runner.prober.probe(case, toolchain, fresh=job.fresh)
        outcome = probe.outcome
        if isinstance(outcome, Untestable) and outcome.cause in (Cause.ENVIRONMENT, Cause.TOOLCHAIN):
            return RemoteAnswer(self._address, problem=outcome.reason)
        records = [record for key in job.keys if (record := runner.evidence.find(key))]
        facts = tuple(sent_facts(record_json(record), folder) for record in records)
        problem = None if facts else "it has no result of the compile that it was sent: its disk is full, or its files differ"
        return RemoteAnswer(self._address, facts, problem, cached=probe.cached)

    def _runner(self, job: RemoteJob, case: Case) -> ProbeRunner:
        """Return what makes probes of a job's family; families that recipes describe have one each."""
        key = f"{job.family}\0{case.spec!r}" if ":" in job.family or "@" in job.family else ""
        with self._lock:
            if key not in self._opened:
                opened = open_runner(AppContext(quiet=True), [case], 1, delivered=open_home() / "delivered")
                self._opened[key] = self._closing.enter_context(opened)
            return self._opened[key]


class Released(threading.Event):
    """Set once nobody waits for the task that a worker runs now."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self._worker, self._key = worker, worker.get_current_task()

    def is_set(self) -> bool:
        task = self._worker.state.tasks.get(self._key)
        return super().is_set() or task is None or task.state not in ("executing", "long-running")

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set() or super().wait(timeout) or self.is_set()
