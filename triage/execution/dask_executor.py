"""Make probes on the workers of a Dask cluster. Meaning is computed here, from the facts that workers return."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from dask import config
from distributed import Client, Future, KilledWorker, Scheduler, SpecCluster, Worker, WorkerPlugin, get_worker

from triage.execution.cache import Record, parse_record
from triage.execution.compile_task import CompileTask
from triage.execution.delivery import NotDelivered, RemoteAnswer, RemoteJob, packed_job, received_facts, versions
from triage.execution.process import StopSignal
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.execution.runner import Scheduler as LocalScheduler
from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.outcome import Cause, Measured, Probe, Untestable
from triage.toolchains.registry import ToolchainRef

_ATTEMPTS = 3  # of one job, each on another worker where there is one
_SMALL = 64 << 10  # bytes of a file that travels with each job
_TICK = 0.1  # seconds between looks at the stop signal
_CONNECT = 30.0  # seconds to find the scheduler
_NIGHTLY = re.compile(r"\d+\.\d+")
_LOOPBACK = {"protocol": "inproc://", "dashboard": False, "dashboard_address": "127.0.0.1:0"}
_SETTINGS = {
    "distributed.scheduler.allowed-failures": _ATTEMPTS - 1,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,  # it looks at the stack 100 times a second, and nobody sees the result
    "distributed.admin.tick.interval": "500ms",
}


@contextmanager
def open_cluster(address: str | None, jobs: int | None, runner: ProbeRunner, plugin: WorkerPlugin) -> Iterator[DaskCluster]:
    """Connect to a scheduler, or start one with a worker of `jobs` threads in this process, which no other program can reach.
    Leaving the block ends what runs. plugin: what makes the probes on each worker.

    Raises:
        EnvironmentFailure: there is no scheduler, or a worker has other versions.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what concerns the user is reported here
    with _started(address, jobs, runner.memory_mb) as place:
        try:
            client = Client(place, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise EnvironmentFailure(f"cannot reach the Dask scheduler {address}: {error}") from error
        try:
            _check_versions(client)
            client.register_plugin(plugin)
            yield DaskCluster(client, plugin.name)
        finally:
            with suppress(Exception):
                client.unregister_worker_plugin(plugin.name)
            client.close()


@contextmanager
def _started(address: str | None, jobs: int | None, memory_mb: float) -> Iterator[Any]:
    if address:
        yield address
        return
    worker = {"nthreads": jobs or os.cpu_count() or 1, "memory_limit": 0, "resources": {"memory": memory_mb}}
    with (
        config.set(_SETTINGS),
        SpecCluster(
            scheduler={"cls": Scheduler, "options": _LOOPBACK},
            workers={0: {"cls": Worker, "options": {**_LOOPBACK, **worker}}},
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


def _check_versions(client: Client) -> None:
    try:
        answers = client.run(versions, on_error="return")
    except (OSError, TimeoutError) as error:
        raise EnvironmentFailure(f"the workers do not answer: {error}") from error
    if not answers:
        raise EnvironmentFailure("the scheduler has no workers; start some with `dask worker ADDRESS`")
    for worker, answer in answers.items():
        if answer != versions():
            other = answer if isinstance(answer, str) else f"no version of triage that works: {answer}"
            raise EnvironmentFailure(
                f"worker {worker} has {other}, and this program is {versions()}; "
                "start the workers in an environment with the same versions"
            )


def probe_here(plugin: str, job: RemoteJob, digests: tuple[str, ...], *contents: bytes) -> RemoteAnswer:
    """Make a probe on the worker that runs this function. contents: of the files with these digests."""
    answer: RemoteAnswer = get_worker().plugins[plugin].probe(job, dict(zip(digests, contents, strict=True)))
    return answer


@dataclass
class DaskCluster:
    """The connection to a scheduler whose workers have the plugin."""

    client: Client
    plugin: str
    _contents: dict[str, Future] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def slots(self) -> int:
        """How many probes are made at once."""
        return sum(self.client.nthreads().values())

    def executor(self, runner: ProbeRunner, local: LocalScheduler) -> DaskExecutor:
        """Return what makes the probes of one search."""
        return DaskExecutor(self, runner, local)

    def resources(self) -> dict[str, float]:
        """Return the largest amount that a worker has of each resource."""
        workers = [worker["resources"] for worker in self.client.scheduler_info(n_workers=-1)["workers"].values()]
        return {name: max(worker.get(name, 0.0) for worker in workers) for worker in workers for name in worker}

    def submit(self, job: RemoteJob, files: Mapping[str, Path], needs: Mapping[str, float], avoid: Sequence[str]) -> Future:
        """Send a job. avoid: workers that failed at it. Raises EnvironmentFailure where there are no others."""
        others = [worker for worker in self.client.nthreads() if worker not in avoid] if avoid else None
        if others == []:
            raise EnvironmentFailure("no other worker is left")
        contents = [self._content(digest, path, is_kept=job.trial is None) for digest, path in files.items()]
        return self.client.submit(
            probe_here, self.plugin, job, tuple(files), *contents, pure=False, resources=dict(needs) or None, workers=others
        )

    def _content(self, digest: str, path: Path, *, is_kept: bool) -> Future | bytes:
        """Return the bytes of a small file, of others a task of its own, so that the scheduler restores them when their worker
        dies. The bytes of a file that more jobs read are kept, so that they are sent once.
        """
        if path.stat().st_size <= _SMALL:
            return path.read_bytes()
        with self._lock:
            known = self._contents.get(digest)
            if known is None or known.status in ("cancelled", "lost", "error"):
                known = self.client.submit(bytes, path.read_bytes(), key=f"triage-file-{digest}-{uuid4().hex}")
                if is_kept:
                    self._contents[digest] = known
        return known


@dataclass
class _Sent:
    """A job that a worker makes. problems: why earlier attempts failed, by worker."""

    job: ProbeJob
    task: CompileTask
    remote: RemoteJob
    files: Mapping[str, Path]
    needs: Mapping[str, float]
    problems: dict[str, str] = field(default_factory=dict)


@dataclass
class DaskExecutor:
    """Makes the probes of one search on a cluster, and here what cannot be sent."""

    cluster: DaskCluster
    runner: ProbeRunner
    local: LocalScheduler
    _flying: dict[Future, _Sent] = field(default_factory=dict)
    _done: SimpleQueue[Future] = field(default_factory=SimpleQueue)

    def run(self, jobs: Sequence[ProbeJob]) -> Iterator[Probe]:
        """Yield the probes as they are ready, each job's once. An error, Ctrl-C and closing the iterator end what runs."""
        here: list[ProbeJob] = []
        signals = [self.runner.stop, *(job.cancelled for job in jobs if job.cancelled)]
        resources = self.cluster.resources()
        pool = ThreadPoolExecutor(os.cpu_count() or 1)
        try:
            for preparing in [pool.submit(self._prepared, job, resources) for job in jobs]:
                ready = preparing.result()
                if isinstance(ready, Probe):
                    yield ready
                elif isinstance(ready, ProbeJob):
                    here.append(ready)
                else:
                    self._send(ready)
                yield from self._received([self._done.get() for _ in range(self._done.qsize())])
            while self._flying:
                yield from self._received(self._awaited(signals))
        except BaseException as error:
            self.local.stop.set()
            with suppress(Exception):
                self.cluster.client.cancel(list(self._flying), force=True)
            if self.cluster.client.status != "running" and not isinstance(error, Interrupted | KeyboardInterrupt):
                raise EnvironmentFailure(
                    "the Dask scheduler is gone; run the command again when it is back: finished work is cached"
                ) from error
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        yield from self.local.run(here) if here else ()

    def _awaited(self, signals: Sequence[StopSignal]) -> list[Future]:
        """Return the jobs that ended, at least one. Raises Interrupted when stopped."""
        while True:
            with suppress(Empty):
                first = self._done.get(timeout=_TICK)
                return [first, *(self._done.get() for _ in range(self._done.qsize()))]
            if any(signal.is_set() for signal in signals):
                raise Interrupted("stopped")

    def _prepared(self, job: ProbeJob, resources: Mapping[str, float]) -> Probe | ProbeJob | _Sent:
        """Return the probe of a job where it is known, the job itself where only this machine can make it, or what to send."""
        rev = _rev_of(job.ref)
        if rev is None or job.here or job.footprint:
            return job
        try:
            toolchain = self.runner.registry.obtain(job.ref)
        except EnvironmentFailure:
            return job  # the local scheduler says why
        task = self.runner.prober.plan(job.case, toolchain)
        if isinstance(task, Probe):
            return task
        key = task.key(job.trial.mark) if job.trial else None
        known = None if job.fresh else self.runner.prober.known(task, job.after, key)
        if known:
            return known
        try:
            remote, files = packed_job(task, rev, fresh=job.fresh or job.after > 0, trial=job.trial)
        except NotDelivered:
            return job
        case, runner = task.case, task.compiler.runner()
        needs = {"memory": self.local.reservation(case), "cores": 1.0}
        needs = {name: min(amount, resources[name]) for name, amount in needs.items() if name in resources}
        device = runner.device(case, case.run) if case.run and runner else None
        if device and device not in resources:
            reason = f"no worker offers the device {device}; start one with --resources {device}=1"
            outcome = Untestable(Cause.TARGET, reason)
            return Probe(job.case, toolchain.revision, toolchain.version, outcome, Measured(), cached=False)
        return _Sent(job, task, remote, files, needs | ({device: 1.0} if device else {}))

    def _send(self, sent: _Sent) -> None:
        future = self.cluster.submit(sent.remote, sent.files, sent.needs, list(sent.problems))
        self._flying[future] = sent
        future.add_done_callback(self._done.put)

    def _received(self, futures: Sequence[Future]) -> Iterator[Probe]:
        """Keep the answers of jobs that ended and yield their probes. Other jobs are sent again, to another worker."""
        finished = [future for future in futures if future.status == "finished"]
        answers = dict(zip(finished, self.cluster.client.gather(finished), strict=True))
        kept: list[Record] = []
        probes: list[Probe] = []
        for future in futures:
            sent = self._flying.pop(future)
            if future.status in ("cancelled", "lost"):
                raise EnvironmentFailure(
                    "the Dask scheduler is gone; start it and run the command again: finished work is cached"
                )
            if future in answers:
                probe = self._judged(sent, answers[future], kept)
            else:
                error = future.exception()
                if isinstance(error, KilledWorker):
                    probe = self._failed(sent, "it ended its worker each time")
                else:
                    sent.problems[f"attempt {len(sent.problems) + 1}"] = f"{type(error).__name__}: {str(error)[:300]}"
                    probe = None
            if probe is None and len(sent.problems) < _ATTEMPTS:
                try:
                    self._send(sent)
                    continue
                except EnvironmentFailure:
                    pass
            probes.append(probe or self._failed(sent, "; ".join(f"{name}: {why}" for name, why in sent.problems.items())))
        self.runner.evidence.add(*kept)
        yield from probes

    def _judged(self, sent: _Sent, answer: RemoteAnswer, kept: list[Record]) -> Probe | None:
        """Return the probe of an answer, and add its records to those to keep; None when another worker has to make it."""
        texts = [received_facts(text, sent.files) for text in answer.records]
        try:
            records = [parse_record(text) for text in texts]
        except ValueError as error:
            records, answer = [], replace(answer, problem=str(error))
        if answer.problem or not records or tuple(record.key for record in records) != sent.remote.keys[: len(records)]:
            sent.problems[answer.worker] = answer.problem or "it returned no result of the compile that it was sent"
            return None
        kept += records
        by_key = {record.key: record for record in records}
        probe = self.runner.prober.judged(sent.task, records[0], by_key.get, records[0].key)
        return replace(probe, cached=answer.cached) if probe else self._failed(sent, "it did not run the compiled program")

    def _failed(self, sent: _Sent, reason: str) -> Probe:
        toolchain = sent.task.toolchain
        outcome = Untestable(Cause.ENVIRONMENT, f"no worker could do this: {reason}")
        return Probe(sent.job.case, toolchain.revision, toolchain.version, outcome, Measured(), cached=False)


def _rev_of(ref: ToolchainRef) -> str | None:
    """Return how another machine names a toolchain; None for one that only this machine can obtain, such as a build."""
    if ref.release is not None:
        return ref.release.version
    if ref.path is not None:
        return f"path:{ref.path}"
    return ref.revision.name if _NIGHTLY.match(ref.revision.name) else None
