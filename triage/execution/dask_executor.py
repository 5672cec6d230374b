"""Make probes on the workers of a Dask cluster. Meaning is computed here, from the facts that workers return."""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

from dask import config
from distributed import Client, Future, KilledWorker, LocalCluster

from triage.execution.cache import Record, parse_record
from triage.execution.compile_task import CompileTask
from triage.execution.dask_workers import ATTEMPTS, DaskWorkers, WorkerCode, arrived, brief, identity_of
from triage.execution.delivery import NotDelivered, RemoteAnswer, RemoteJob, packed_job, received_facts
from triage.execution.process import StopSignal
from triage.execution.runner import ProbeJob, ProbeRunner, Scheduler
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Cause, Measured, Probe, Untestable
from triage.toolchains.registry import ToolchainRef

_AHEAD = 2  # tasks a slot that are sent before they can start
_MANY_SLOTS = 200  # with more, several jobs are sent together
_TOGETHER = 8  # jobs at most
_NIGHTLY = re.compile(r"\d+\.\d+")
_SETTINGS = {
    "distributed.scheduler.allowed-failures": ATTEMPTS - 1,
    "distributed.worker.profile.enabled": False,  # it looks at the stack 100 times a second, and nobody sees the result
    "distributed.admin.tick.interval": "500ms",
}
_CONNECT = 30.0  # seconds to find the scheduler


class DaskCluster(DaskWorkers):
    """Workers that make the probes of searches."""

    def executor(self, runner: ProbeRunner, local: Scheduler) -> DaskExecutor:
        """Return what makes the probes of one search."""
        return DaskExecutor(self, runner, local)


@contextmanager
def open_cluster(address: str | None, jobs: int | None, memory_mb: float, code: WorkerCode) -> Iterator[DaskCluster]:
    """Connect to a scheduler, or start one with `jobs` workers on this machine. Leaving the block ends what runs.

    Raises:
        EnvironmentFailure: there is no scheduler, or a worker has other versions.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what concerns the user is reported here
    with _started(address, jobs, memory_mb) as place:
        try:
            client = Client(place, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise EnvironmentFailure(f"cannot reach the Dask scheduler {address}: {error}") from error
        plugin = code.plugin(uuid4().hex)
        try:
            cluster = DaskCluster(client, code, plugin, identity_of(client))
            try:
                refused = cluster.look()
            except (OSError, TimeoutError) as error:
                raise EnvironmentFailure(f"the workers do not answer: {error}") from error
            if refused:
                raise EnvironmentFailure(refused[0])
            if not cluster.slots:
                raise EnvironmentFailure("the scheduler has no workers; start some with `dask worker ADDRESS`")
            client.register_plugin(plugin)
            yield cluster
        finally:
            with suppress(Exception):
                client.unregister_worker_plugin(plugin.name)
            client.close()


@contextmanager
def _started(address: str | None, jobs: int | None, memory_mb: float) -> Iterator[Any]:
    if address:
        yield address
        return
    count = jobs or os.cpu_count() or 1
    # Dask must not end workers for the memory of compilers, which have limits of their own.
    settings: Any = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with (
        config.set(_SETTINGS),
        LocalCluster(n_workers=count, resources={"memory": memory_mb / count}, **settings) as cluster,
    ):
        yield cluster


@dataclass
class _Sent:
    """A job that a worker makes. problems: why earlier attempts failed, by worker; alone: it was on workers that died, and is
    made while no other job runs, because any of those there may have ended them.
    """

    job: ProbeJob
    task: CompileTask
    remote: RemoteJob
    files: Mapping[str, Path]
    needs: Mapping[str, float]
    problems: dict[str, str] = field(default_factory=dict)
    attempts: int = 0
    alone: bool = False


@dataclass
class DaskExecutor:
    """Makes the probes of one search on a cluster, and here what cannot be sent."""

    cluster: DaskWorkers
    runner: ProbeRunner
    local: Scheduler
    _flying: int = 0  # jobs without an answer
    _suspects: list[_Sent] = field(default_factory=list)  # to be made alone
    _signals: list[StopSignal] = field(default_factory=list)  # that end the jobs early

    def run(self, jobs: Sequence[ProbeJob]) -> Iterator[Probe]:
        """Yield the probes as they are ready, each job's once. An error, Ctrl-C and closing the iterator end what runs."""
        here: list[ProbeJob] = []
        self._signals = [self.runner.stop, *(job.cancelled for job in jobs if job.cancelled)]
        running: dict[Future, list[_Sent]] = {}
        done: SimpleQueue[Future] = SimpleQueue()
        try:
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                prepared = deque(pool.submit(self._prepared, job) for job in jobs)
                try:
                    while prepared or running or self._suspects:
                        self._look()
                        together, size = list[_Sent](), self._size(len(prepared))
                        most = self.cluster.slots * _AHEAD * size + 1
                        while prepared and self._flying + len(together) < most and (not running or prepared[0].done()):
                            ready = prepared.popleft().result()
                            if isinstance(ready, Probe):
                                yield ready
                            elif isinstance(ready, ProbeJob):
                                here.append(ready)
                            else:
                                together.append(ready)
                            if len(together) == size:
                                self._send(together, running, done)
                                together = []
                        if not prepared and not running and not together and self._suspects:
                            together.append(self._suspects.pop())
                        if together:
                            self._send(together, running, done)
                        if running:
                            yield from self._received(running, done)
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        except BaseException:
            self.local.stop.set()
            with suppress(Exception):
                self.cluster.client.cancel(list(running), force=True)
            raise
        is_built = any(_rev_of(job.ref) is None for job in here)
        obtained = max(self.local.obtained, self.cluster.build_slots) if is_built else self.local.obtained
        yield from replace(self.local, obtained=obtained).run(here) if here else ()

    def _look(self, *, at_once: bool = False) -> None:
        """Use workers that have joined, and report those that cannot be used."""
        if self.cluster.client.status == "running":
            with suppress(OSError, TimeoutError):  # the scheduler is restarted
                for message in self.cluster.look(at_once=at_once):
                    self.runner.progress.note(message)

    def _prepared(self, job: ProbeJob) -> Probe | ProbeJob | _Sent:
        """Return the probe of a job where it is known, the job itself where only this machine can make it, or what to send."""
        rev = _rev_of(job.ref)
        if rev is None:
            self._note_build()
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
        needs = self._needs(task)
        if not needs.keys() <= self.cluster.resources.keys():
            self._look(at_once=True)
            needs = self._needs(task)
        if lacking := [name for name in needs if name not in self.cluster.resources]:
            reason = f"no worker offers the device {lacking[0]}; start one with --resources {lacking[0]}=1"
            outcome = Untestable(Cause.TARGET, reason)
            return Probe(job.case, toolchain.revision, toolchain.version, outcome, Measured(), cached=False)
        return _Sent(job, task, remote, files, needs)

    def _note_build(self) -> None:
        """Say once that workers do not compile with toolchains of commits, whose bytes could differ between machines."""
        with self.cluster.lock:
            is_noted, self.cluster.is_noted = self.cluster.is_noted, True
        if not is_noted:
            self.runner.progress.note("workers build commits; their toolchains are copied to this machine and compile here")

    def _needs(self, task: CompileTask) -> dict[str, float]:
        """Return the resources of a job, as far as the workers name them. A job that needs more memory than any has it all."""
        offered, case = self.cluster.resources, task.case
        needs = {"memory": self.local.reservation(case), "cores": 1.0}
        runner = task.compiler.runner()
        device = runner.device(case, case.run) if case.run and runner else None
        wanted = {name: min(amount, offered[name]) for name, amount in needs.items() if name in offered}
        return wanted | ({device: 1.0} if device else {})

    def _size(self, left: int) -> int:
        """Return how many jobs to send together: a scheduler places some hundred tasks a second, whatever they contain."""
        if self.cluster.slots < _MANY_SLOTS:
            return 1
        return max(1, min(_TOGETHER, left // (2 * _AHEAD * self.cluster.slots)))

    def _send(self, jobs: list[_Sent], running: dict[Future, list[_Sent]], done: SimpleQueue[Future]) -> None:
        """Send jobs to one worker, which makes them in turn."""
        files = {digest: path for sent in jobs for digest, path in sent.files.items()}
        needs = {name: max(sent.needs.get(name, 0.0) for sent in jobs) for sent in jobs for name in sent.needs}
        avoid = {worker for sent in jobs for worker in sent.problems}
        future = self.cluster.submit([sent.remote for sent in jobs], files, needs, avoid)
        running[future] = jobs
        self._flying += len(jobs)
        future.add_done_callback(done.put)

    def _received(self, running: dict[Future, list[_Sent]], done: SimpleQueue[Future]) -> Iterator[Probe]:
        """Wait for answers, and yield the probes of those that are right. Other jobs are sent again, each by itself."""
        futures = arrived(self.cluster.client, done, self._signals)
        finished = [future for future in futures if future.status == "finished" and future in running]
        try:
            answers = dict(zip(finished, self.cluster.client.gather(finished), strict=True)) if finished else {}
        except Exception:  # a worker is gone together with its answers; each is looked at by itself
            answers = {}
        for future, together in answers.items():
            answers[future] = [_with_paths_here(*pair) for pair in zip(running[future], together, strict=True)]
        read = {id(answer): _read(answer) for together in answers.values() for answer in together}
        self.runner.evidence.add_read(
            [
                row
                for future, together in answers.items()
                for sent, answer in zip(running[future], together, strict=True)
                if _mismatch(sent, answer, read[id(answer)]) is None
                for row in zip(answer.records, read[id(answer)], strict=True)
            ]
        )
        for future in futures:
            jobs = running.pop(future, [])
            self._flying -= len(jobs)
            for sent, answer in zip(jobs, answers.get(future) or [None] * len(jobs), strict=True):
                probe = self._judged(sent, future, answer, read.get(id(answer), ()))
                if probe is None and sent.alone:
                    self._suspects.append(sent)
                    continue
                if probe is None:
                    self._send([sent], running, done)
                    continue
                yield probe

    def _judged(self, sent: _Sent, future: Future, answer: RemoteAnswer | None, records: Sequence[Record]) -> Probe | None:
        """Return the probe of an answer; None when the job has to be made again."""
        if answer is None:
            if future.status in ("cancelled", "lost", "finished"):  # the scheduler was restarted, or the answer was lost
                self.cluster.renew()
                return None
            error = future.exception()
            if isinstance(error, KilledWorker):
                if sent.alone:
                    return self._failed(sent, f"it ended its worker each time: {brief(error)}")
                sent.alone = True
                return None
            self._look(at_once=True)
            sent.problems[f"attempt {sent.attempts + 1}"] = brief(error)
        else:
            problem = _mismatch(sent, answer, records)
            if problem is None:
                by_key = {record.key: record for record in records}
                probe = self.runner.prober.judged(sent.task, records[0], by_key.get, records[0].key)
                return (
                    replace(probe, cached=answer.cached)
                    if probe
                    else self._failed(sent, "the worker did not run the compiled program")
                )
            sent.problems[answer.worker] = problem
        sent.attempts += 1
        if sent.attempts >= ATTEMPTS:
            reasons = "; ".join(f"{worker}: {reason}" for worker, reason in sent.problems.items())
            return self._failed(sent, reasons)
        return None

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


def _with_paths_here(sent: _Sent, answer: RemoteAnswer) -> RemoteAnswer:
    return replace(answer, records=tuple(received_facts(text, sent.files) for text in answer.records))


def _read(answer: RemoteAnswer) -> tuple[Record, ...]:
    """Return the records of an answer; none when one of them is damaged."""
    try:
        return tuple(map(parse_record, answer.records))
    except ValueError:
        return ()


def _mismatch(sent: _Sent, answer: RemoteAnswer, records: Sequence[Record]) -> str | None:
    """Return why an answer cannot be used for a job; None when it can."""
    if answer.problem:
        return answer.problem
    toolchain = sent.task.toolchain
    if answer.identity != toolchain.identity:
        own, other = toolchain.identity[:12], answer.identity[:12]
        return f"its {toolchain.revision.name} has other bytes: {other or 'none'}, here {own}"
    keys = tuple(record.key for record in records)
    return None if keys and keys == sent.remote.keys[: len(keys)] else "it returned no result of the compile that it was sent"
