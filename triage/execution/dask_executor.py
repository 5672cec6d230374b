"""Make probes and builds on the workers of a Dask cluster. Meaning is computed here, from the facts that workers return."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from dask import config
from distributed import Client, Future, KilledWorker, LocalCluster, WorkerPlugin

from triage.execution.cache import Record, parse_record
from triage.execution.compile_task import CompileTask
from triage.execution.delivery import NotDelivered, RemoteAnswer, RemoteJob, packed_job, received_facts
from triage.execution.process import StopSignal
from triage.execution.runner import ProbeJob, ProbeRunner, Scheduler
from triage.model.errors import EnvironmentFailure, Interrupted
from triage.model.outcome import Cause, Measured, Probe, Untestable
from triage.toolchains.registry import ToolchainRef
from triage.toolchains.remote_build import BuildAnswer, BuildOrder

_ATTEMPTS = 3  # of one job, each on another worker where there is one
_TICK = 0.1  # seconds between looks at the stop signal
_PATIENCE = 120.0  # seconds without a scheduler, after which the command ends
_AHEAD = 2  # tasks a slot that are sent before they can start
_SMALL = 64 << 10  # bytes of a file that travels with each job
_MANY_SLOTS = 200  # with more, several jobs are sent together
_TOGETHER = 8  # jobs at most
_BUILDS = "builds"  # the resource of workers that build
_BUILDS_ON_A_MACHINE = 4  # at once, as without a cluster
_NIGHTLY = re.compile(r"\d+\.\d+")
_SETTINGS = {
    "distributed.scheduler.allowed-failures": _ATTEMPTS - 1,
    "distributed.worker.profile.enabled": False,  # it looks at the stack 100 times a second, and nobody sees the result
    "distributed.admin.tick.interval": "500ms",
}
_LOOK = 5.0  # seconds between looks at the workers
_CONNECT = 30.0  # seconds to find the scheduler


@dataclass(frozen=True, slots=True)
class WorkerCode:
    """The functions that a worker runs; they are imported there by name. plugin: from an identity of the client."""

    plugin: Callable[[str], WorkerPlugin]
    probe: Callable[..., list[RemoteAnswer]]
    build: Callable[..., BuildAnswer]
    content: Callable[[bytes], bytes]
    versions: Callable[[], str]


@dataclass
class DaskCluster:
    """The connection to a scheduler, whose workers have the plugin. resources: the largest of a worker; slots: jobs that run at
    once; builders: workers that have built a commit.
    """

    client: Client
    code: WorkerCode
    plugin: WorkerPlugin
    scheduler: str
    resources: Mapping[str, float] = field(default_factory=dict)
    slots: int = 0
    _contents: dict[str, Future] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_noted: bool = False
    builders: set[str] = field(default_factory=set)
    _versions: dict[str, str] = field(default_factory=dict)  # of each worker, by address
    _refused: set[str] = field(default_factory=set)  # workers of other versions
    _looked: float = -_LOOK
    _totals: tuple[Any, ...] = ()

    def look(self, *, at_once: bool = False) -> list[str]:
        """Read which workers there are, from time to time or at once. Return why workers that came since are not used."""
        with self.lock:
            if time.monotonic() < self._looked + (0 if at_once else _LOOK):
                return []
            self._looked = time.monotonic()
            info = self.client.scheduler_info(n_workers=0)
            totals = (info["id"], info["n_workers"], info["total_threads"])
            if totals == self._totals:
                return []
            workers, own = _workers(self.client), self.code.versions()
            new = [address for address in workers if address not in self._versions]
            answers = self.client.run(self.code.versions, workers=new, on_error="return") if new else {}
            for address, answer in answers.items():
                if not isinstance(answer, OSError):  # it is gone, or does not answer yet
                    other = f"no version of triage that works: {answer}"
                    self._versions[address] = answer if isinstance(answer, str) else other
            used = [worker for address, worker in workers.items() if self._versions.get(address) == own]
            if used:
                self.slots = sum(worker["nthreads"] for worker in used)
                names = {name for worker in used for name in worker["resources"]}
                self.resources = {name: max(worker["resources"].get(name, 0.0) for worker in used) for name in names}
            self._totals = totals if all(address in self._versions for address in workers) else ()
            advice = "start the workers in an environment with the same versions"
            others = {address: self._versions[address] for address in new if self._versions.get(address, own) != own}
            self._refused |= others.keys()
            return [f"worker {address} has {other}, and this program is {own}; {advice}" for address, other in others.items()]

    def executor(self, runner: ProbeRunner, local: Scheduler) -> DaskExecutor:
        """Return what makes the probes of one search."""
        return DaskExecutor(self, runner, local)

    def submit(
        self, jobs: Sequence[RemoteJob], files: Mapping[str, Path], needs: Mapping[str, float], avoid: Collection[str]
    ) -> Future:
        """Send jobs that one worker makes in turn. avoid: workers that failed at them, used only if there are no others."""
        contents = [self._content(digest, path, is_kept=jobs[0].trial is None) for digest, path in files.items()]
        avoid = {*avoid, *self._refused}
        others = [address for address in _workers(self.client) if address not in avoid] if avoid else []
        return self.client.submit(
            self.code.probe,
            self.plugin.name,
            jobs,
            tuple(files),
            *contents,
            pure=False,
            resources=dict(needs) or None,
            workers=others or None,
        )

    @property
    def build_slots(self) -> int:
        """How many commits to build at once: as many as workers offer `builds`, else a few on each machine."""
        workers = list(_workers(self.client).values())
        offered = sum(worker["resources"].get(_BUILDS, 0) for worker in workers)
        hosts = Counter(worker["host"] for worker in workers for _ in range(worker["nthreads"]))
        return int(offered) or sum(min(_BUILDS_ON_A_MACHINE, count) for count in hosts.values()) or 1

    def build(self, order: BuildOrder, stop: StopSignal) -> BuildAnswer:
        """Build a commit on a worker. That it does not build is believed only of a worker that has built another commit:
        one without a compiler builds none. Errors as of `BuildWorkers.build`.
        """
        problems: dict[str, str] = {}
        log = b""
        for _ in range(2 * _ATTEMPTS):
            workers = {address: worker for address, worker in _workers(self.client).items() if address not in self._refused}
            offering = {address for address, worker in workers.items() if worker["resources"].get(_BUILDS)}
            others = (offering or set(workers)) - set(problems)
            if len(problems) == _ATTEMPTS or (problems and not others):
                break
            only = (others & self.builders or others) if problems else others if self._refused else ()
            answer = self._built(order, bool(offering), only, stop)
            if answer is None:
                continue
            if answer.is_whole:
                self.builders.add(answer.worker)
                return answer
            if answer.failure and answer.worker in self.builders:
                return answer
            unproven = f"{answer.failure}, and this worker has built no other commit" if answer.failure else None
            problems[answer.worker] = answer.problem or unproven or "its toolchain was damaged on the way"
            log += answer.log
        reasons = "; ".join(f"{worker}: {reason}" for worker, reason in problems.items())
        return BuildAnswer("", log=log, problem=f"no worker could build {order.sha[:10]}: {reasons or 'answers were lost'}")

    def _built(self, order: BuildOrder, offered: bool, only: Collection[str], stop: StopSignal) -> BuildAnswer | None:
        """Return what a worker answers; None when the scheduler was restarted meanwhile. only: workers, if not any."""
        needs = {_BUILDS: 1.0} if offered else None
        done: SimpleQueue[Future] = SimpleQueue()
        future = self.client.submit(
            self.code.build, self.plugin.name, order, pure=False, resources=needs, workers=list(only) or None
        )
        future.add_done_callback(done.put)
        try:
            arrived(self.client, done, [stop])
        except BaseException:
            with suppress(Exception):
                self.client.cancel([future], force=True)
            raise
        if future.status == "error":
            error = future.exception()
            why = "ended its worker each time" if isinstance(error, KilledWorker) else "failed on a worker"
            raise EnvironmentFailure(f"the build of {order.sha[:10]} {why}: {_short(error)}")
        try:
            answer: BuildAnswer = future.result()
        except Exception:  # the worker or the scheduler is gone together with the answer
            self.renew()
            return None
        return answer

    def renew(self) -> None:
        """Install the plugin again when the scheduler is another one than before, and knows nothing of this client."""
        with self.lock:
            if (scheduler := _identity(self.client)) != self.scheduler:
                self._contents.clear()
                self.client.register_plugin(self.plugin)
                self.scheduler = scheduler

    def _content(self, digest: str, path: Path, *, is_kept: bool) -> Future | bytes:
        """Return the bytes of a small file, of others a job of its own, so that the scheduler restores them when their worker
        dies. The bytes of a file that more jobs read are kept, so that they are sent once.
        """
        if path.stat().st_size <= _SMALL:
            return path.read_bytes()
        with self.lock:
            known = self._contents.get(digest)
            if known is None or known.status in ("cancelled", "lost", "error"):
                key = f"triage-file-{digest}-{uuid4().hex}"
                known = self.client.submit(self.code.content, path.read_bytes(), key=key)
                if is_kept:
                    self._contents[digest] = known
        return known


def _workers(client: Client) -> dict[str, Any]:
    """Return what the scheduler knows of each worker, by address."""
    return dict(client.scheduler_info(n_workers=-1)["workers"])


def _identity(client: Client) -> str:
    return str(client.scheduler_info(n_workers=0)["id"])


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
            cluster = DaskCluster(client, code, plugin, _identity(client))
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

    cluster: DaskCluster
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
        for sent in jobs:
            if self.runner.observer and not sent.job.trial:
                self.runner.observer.started(sent.job)
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
                if self.runner.observer and not sent.job.trial:
                    self.runner.observer.ended(sent.job, probe)
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
                    return self._failed(sent, f"it ended its worker each time: {_short(error)}")
                sent.alone = True
                return None
            self._look(at_once=True)
            sent.problems[f"attempt {sent.attempts + 1}"] = _short(error)
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
        if sent.attempts >= _ATTEMPTS:
            reasons = "; ".join(f"{worker}: {reason}" for worker, reason in sent.problems.items())
            return self._failed(sent, reasons)
        return None

    def _failed(self, sent: _Sent, reason: str) -> Probe:
        toolchain = sent.task.toolchain
        outcome = Untestable(Cause.ENVIRONMENT, f"no worker could do this: {reason}")
        return Probe(sent.job.case, toolchain.revision, toolchain.version, outcome, Measured(), cached=False)


def arrived(client: Client, done: SimpleQueue[Future], signals: Sequence[StopSignal]) -> list[Future]:
    """Return the jobs that ended, at least one. Interrupted when stopped, EnvironmentFailure without a scheduler."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        with suppress(Empty):
            futures = [done.get(timeout=_TICK)]
            while not done.empty():
                futures.append(done.get())
            return futures
        if any(signal.is_set() for signal in signals):
            raise Interrupted("stopped")
        if client.status == "running":
            deadline = time.monotonic() + _PATIENCE
        elif time.monotonic() > deadline or client.status == "closed":
            raise EnvironmentFailure(
                "the Dask scheduler does not answer; start it and run the command again: finished work is cached"
            )


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


def _short(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"
