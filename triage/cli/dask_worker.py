"""What a Dask worker does for triage: a plugin that keeps toolchains, inputs and results of its machine, and makes probes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from hashlib import blake2b, sha256
from importlib.metadata import version
from typing import Any

from distributed import Worker, WorkerPlugin, get_worker

from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.cache import record_json
from triage.execution.compile_task import CompileTask
from triage.execution.delivery import DELIVERED, DeliveredFiles, RemoteAnswer, RemoteJob, keys_of, sent_facts
from triage.execution.process import StopSignal
from triage.execution.runner import ProbeRunner
from triage.execution.streams import Log
from triage.git_history import Repository
from triage.git_history.checkout import repository_with
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, Interrupted, TriageError, Unobtainable
from triage.model.outcome import Cause, Untestable
from triage.toolchains.home import disk_errors, home_path, open_home
from triage.toolchains.install_cache import InUse
from triage.toolchains.remote_build import BuildAnswer, BuildOrder, packed
from triage.toolchains.sources.build import SourceBuilds
from triage.toolchains.workspace import Workspace


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
        self._files = DeliveredFiles(home_path() / DELIVERED)
        self._lock = threading.Lock()

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 - the signature of dask
        """End the compilers that run, and close the results."""
        with self._lock:
            for runner in self._opened.values():
                runner.stop.set()
            self._opened = {}
            self._closing.close()

    def probe(self, job: RemoteJob, contents: Mapping[str, bytes], cancelled: threading.Event) -> RemoteAnswer:
        """Make a probe. A problem of this machine is part of the answer."""
        if versions() != self.client:
            return RemoteAnswer(self._address, problem=f"it has {versions()}, the client {self.client}")
        try:
            with self._files.case(job, contents, cancelled) as case:
                return self._answer(self._runner(job), job, case, cancelled)
        except Interrupted:
            return RemoteAnswer(self._address, problem="stopped")
        except (TriageError, OSError) as error:
            return RemoteAnswer(self._address, problem=str(error))

    def build(self, order: BuildOrder, cancelled: threading.Event) -> BuildAnswer:
        """Build a commit, or find it among the toolchains of this machine. Its failure is not stored: this machine may be the
        reason, which the client decides.
        """
        if versions() != self.client:
            return BuildAnswer(self._address, problem=f"it has {versions()}, the client {self.client}")
        try:
            workspace, in_use = Workspace(open_home(), stop=cancelled), InUse(cancelled)
            builds = SourceBuilds(workspace, self._repository(order, workspace, in_use), order.project, order.steps)
            try:
                archive = packed(builds.make(order.sha))
            except Unobtainable as error:
                return BuildAnswer(self._address, log=builds.log_of(order.sha), failure=error.reason)
            return BuildAnswer(self._address, archive, sha256(archive).hexdigest(), builds.log_of(order.sha))
        except Interrupted:
            return BuildAnswer(self._address, problem="stopped")
        except (TriageError, OSError, MemoryError) as error:
            return BuildAnswer(self._address, problem=str(error) or type(error).__name__)

    def _repository(self, order: BuildOrder, workspace: Workspace, in_use: InUse) -> Repository:
        """Return a repository that has the commit: the client's where this machine has it, else a clone."""
        name = blake2b(order.url.encode(), digest_size=6).hexdigest()
        folder = workspace.home / "builders" / f"clone-{name}" / "0"  # pruned like the folders of builds
        log_path = workspace.home / "logs" / f"clone-{name}.log"
        with disk_errors("clone the repository"):
            folder.parent.mkdir(parents=True, exist_ok=True)
            log_path.parent.mkdir(exist_ok=True)
            with workspace.locked(folder.with_name(f".{folder.name}.lock"), f"clone {order.project}"), Log(log_path) as log:
                repository = repository_with(order.sha, order.clone, order.url, folder, log, workspace.stop)
                if folder.exists():
                    in_use.add(folder)
        return repository

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
        facts = tuple(sent_facts(record_json(record), home_path() / DELIVERED) for record in records)
        return RemoteAnswer(self._address, facts, toolchain.identity, cached=probe.cached)

    def _runner(self, job: RemoteJob) -> ProbeRunner:
        """Return what makes probes of a job's family; families that recipes describe have one each."""
        key = f"{job.family}\0{job.case.spec!r}" if ":" in job.family or "@" in job.family else ""
        with self._lock:
            if key not in self._opened:
                opened = open_runner(AppContext(quiet=True), [job.case], 1, delivered=home_path() / DELIVERED)
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


def probe_here(plugin: str, jobs: Sequence[RemoteJob], digests: Sequence[str], *contents: bytes) -> list[RemoteAnswer]:
    """Make probes in turn on the worker that runs this function. contents: of the files with these digests."""
    files, worker = dict(zip(digests, contents, strict=True)), get_worker()
    cancelled = Released(worker)
    return [worker.plugins[plugin].probe(job, files, cancelled) for job in jobs]


def build_here(plugin: str, order: BuildOrder) -> BuildAnswer:
    """Build a commit on the worker that runs this function."""
    worker = get_worker()
    answer: BuildAnswer = worker.plugins[plugin].build(order, Released(worker))
    return answer


def content(data: bytes) -> bytes:
    """Return the bytes of a file, which Dask moves to the workers that need them."""
    return data
