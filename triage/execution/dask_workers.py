"""The connection to the workers of a Dask cluster: which can be used, what is sent to them, and the builds that they make."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from distributed import Client, Future, KilledWorker, WorkerPlugin

from triage.execution.delivery import RemoteAnswer, RemoteJob
from triage.execution.process import StopSignal
from triage.model.errors import EnvironmentFailure, Interrupted
from triage.toolchains.remote_build import BuildAnswer, BuildOrder

ATTEMPTS = 3  # of one job, each on another worker where there is one
_TICK = 0.1  # seconds between looks at the stop signal
_PATIENCE = 120.0  # seconds without a scheduler, after which the command ends
_SMALL = 64 << 10  # bytes of a file that travels with each job
_BUILDS = "builds"  # the resource of workers that build
_BUILDS_ON_A_MACHINE = 4  # at once, as without a cluster
_LOOK = 5.0  # seconds between looks at the workers


@dataclass(frozen=True, slots=True)
class WorkerCode:
    """The functions that a worker runs; they are imported there by name. plugin: from an identity of the client."""

    plugin: Callable[[str], WorkerPlugin]
    probe: Callable[..., list[RemoteAnswer]]
    build: Callable[..., BuildAnswer]
    content: Callable[[bytes], bytes]
    versions: Callable[[], str]


@dataclass
class DaskWorkers:
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
            workers, own = workers_of(self.client), self.code.versions()
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

    def submit(
        self, jobs: Sequence[RemoteJob], files: Mapping[str, Path], needs: Mapping[str, float], avoid: Collection[str]
    ) -> Future:
        """Send jobs that one worker makes in turn. avoid: workers that failed at them, used only if there are no others."""
        contents = [self._content(digest, path, is_kept=jobs[0].trial is None) for digest, path in files.items()]
        avoid = {*avoid, *self._refused}
        others = [address for address in workers_of(self.client) if address not in avoid] if avoid else []
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
        workers = list(workers_of(self.client).values())
        offered = sum(worker["resources"].get(_BUILDS, 0) for worker in workers)
        hosts = Counter(worker["host"] for worker in workers for _ in range(worker["nthreads"]))
        return int(offered) or sum(min(_BUILDS_ON_A_MACHINE, count) for count in hosts.values()) or 1

    def build(self, order: BuildOrder, stop: StopSignal) -> BuildAnswer:
        """Build a commit on a worker. That it does not build is believed only of a worker that has built another commit:
        one without a compiler builds none. Errors as of `BuildWorkers.build`.
        """
        problems: dict[str, str] = {}
        log = b""
        for _ in range(2 * ATTEMPTS):
            workers = {address: worker for address, worker in workers_of(self.client).items() if address not in self._refused}
            offering = {address for address, worker in workers.items() if worker["resources"].get(_BUILDS)}
            others = (offering or set(workers)) - set(problems)
            if len(problems) == ATTEMPTS or (problems and not others):
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
            raise EnvironmentFailure(f"the build of {order.sha[:10]} {why}: {brief(error)}")
        try:
            answer: BuildAnswer = future.result()
        except Exception:  # the worker or the scheduler is gone together with the answer
            self.renew()
            return None
        return answer

    def renew(self) -> None:
        """Install the plugin again when the scheduler is another one than before, and knows nothing of this client."""
        with self.lock:
            if (scheduler := identity_of(self.client)) != self.scheduler:
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


def workers_of(client: Client) -> dict[str, Any]:
    """Return what the scheduler knows of each worker, by address."""
    return dict(client.scheduler_info(n_workers=-1)["workers"])


def identity_of(client: Client) -> str:
    """Return what differs between two schedulers at one address."""
    return str(client.scheduler_info(n_workers=0)["id"])


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


def brief(error: BaseException | None) -> str:
    """Return an error of a worker in one sentence."""
    return f"{type(error).__name__}: {str(error)[:300]}"
