"""What a search asks for, and the threads that make it: bounded by cores and memory, each as soon as its toolchain is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.outcome import Cause, Measured, Probe, Untestable
from triage.model.progress import Progress
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef

_DOWNLOADS = 4  # at once; more would share the same bandwidth


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """One probe to make."""

    case: Case
    ref: ToolchainRef
    fresh: bool = False
    """Ignore what the cache knows."""
    footprint: bool = False
    """Compile a case that compiles once more, to read from its IR the resources that it needs."""
    after: int = 0
    """Number of the last cached result to ignore."""
    here: bool = False
    """On this machine, because its time is compared."""


class CaseProber(Protocol):
    """Makes the probes of a search."""

    @property
    def jobs(self) -> int:
        """How many compiles run at once."""

    @property
    def progress(self) -> Progress:
        """Shows how far a search is."""

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "compile") -> Iterator[Probe]:
        """Yield the probes as they are ready, in any order. `what`: names the work next to the progress bar."""


@dataclass(frozen=True)
class Scheduler:
    """Runs jobs in threads: at most `jobs` at once, within the memory, each after its toolchain is obtained."""

    obtain: Callable[[ToolchainRef], Toolchain]
    """Installs a toolchain if need be."""
    probe: Callable[[ProbeJob, Toolchain], Probe]
    reservation: Callable[[Case], float]
    """MiB to set aside for a case."""
    stop: threading.Event
    jobs: int
    memory_mb: float
    """What the running jobs may use together. A job that needs more than that runs alone."""

    def run(self, jobs: Sequence[ProbeJob]) -> Iterator[Probe]:
        """Yield the probes as they are ready.

        A toolchain that cannot be obtained makes its probes untestable: TOOLCHAIN when there is none, ENVIRONMENT when it
        may be obtained another time. An error, Ctrl-C and closing the iterator set `stop` and wait for what runs.
        """
        refs = {key_of_ref(job.ref): job.ref for job in jobs}
        fetchers = ThreadPoolExecutor(max_workers=min(_DOWNLOADS, max(1, len(refs))))
        workers = ThreadPoolExecutor(max_workers=self.jobs)
        fetched = {key: fetchers.submit(self.obtain, ref) for key, ref in refs.items()}
        waiting, running = list(jobs), dict[Future[Probe], float]()
        try:
            while waiting or running:
                for job, needed in self._startable(waiting, fetched, running):
                    waiting.remove(job)
                    try:
                        toolchain = fetched[key_of_ref(job.ref)].result()
                    except EnvironmentFailure as error:
                        yield _unobtainable(job, error)
                        continue
                    running[workers.submit(self.probe, job, toolchain)] = needed
                awaited: list[Future[Any]] = [*running, *(future for future in fetched.values() if not future.done())]
                wait(awaited, return_when=FIRST_COMPLETED)
                for future in [future for future in running if future.done()]:
                    del running[future]
                    yield future.result()
        except BaseException:
            self.stop.set()
            wait(list(running))
            raise
        finally:
            workers.shutdown(wait=True, cancel_futures=True)
            fetchers.shutdown(wait=True, cancel_futures=True)

    def _startable(
        self,
        waiting: Sequence[ProbeJob],
        fetched: Mapping[tuple[str, str], Future[Toolchain]],
        running: Mapping[Future[Probe], float],
    ) -> Iterator[tuple[ProbeJob, float]]:
        """Yield the jobs to start now, in order, with the MiB to set aside. `running` grows meanwhile."""
        for job in list(waiting):
            if len(running) >= self.jobs:
                return
            if not fetched[key_of_ref(job.ref)].done():
                continue
            needed = self.reservation(job.case)
            if not running or sum(running.values()) + needed <= self.memory_mb:
                yield job, needed


def _unobtainable(job: ProbeJob, error: EnvironmentFailure) -> Probe:
    cause = Cause.TOOLCHAIN if isinstance(error, Unobtainable) else Cause.ENVIRONMENT
    version = job.ref.release.version if job.ref.release else None
    return Probe(job.case, job.ref.revision, version, Untestable(cause, str(error)), Measured(), cached=False)


def key_of_ref(ref: ToolchainRef) -> tuple[str, str]:
    """Return what tells toolchains apart: two families may have releases of one name."""
    return ref.family, ref.revision.name
