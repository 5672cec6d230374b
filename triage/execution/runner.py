"""Many probes at once, bounded by cores and by memory, each with the toolchain it needs fetched beforehand."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from triage.execution.cache import Evidence
from triage.execution.prober import Prober
from triage.execution.process import memory
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.outcome import Cause, Compiled, Measured, Probe, Untestable
from triage.model.progress import Progress, Silent
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry

_DOWNLOADS = 4  # at once; more only share the same line
_HEADROOM = 1.25  # a compile's peak differs from run to run and from release to release
_LEAST_MB = 256.0


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """One probe to be made. footprint: a case that compiles is compiled once more, to read from its IR what it asks for."""

    case: Case
    place: ToolchainRef
    fresh: bool = False
    footprint: bool = False


class ProbeRunner:
    """Everything a search needs: the shed, the prober, and how much of the machine may be used."""

    def __init__(
        self,
        shed: ToolchainRegistry,
        prober: Prober,
        evidence: Evidence,
        stop: threading.Event,
        *,
        jobs: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """jobs: compiles at once, by default one for each core."""
        self.shed = shed
        self.prober = prober
        self.evidence = evidence
        self.stop = stop
        self.jobs = jobs or os.cpu_count() or 1
        self.progress = progress or Silent()
        self._memory_mb = memory().available * 0.9 / (1 << 20)
        self.compiles = 0  # made since the beginning, cached answers not counted
        #: How probes are read, where a number and not a failure is looked for.
        self.reading: Callable[[Prober, Toolchain, Probe], Probe] | None = None

    def probe(self, case: Case, place: ToolchainRef, *, fresh: bool = False) -> Probe:
        """One probe, now."""
        [probe] = self.probe_all([ProbeJob(case, place, fresh)])
        return probe

    def command_lines(self, jobs: Sequence[ProbeJob]) -> Iterator[str]:
        """What would be run, a shell line each, with the reason in its place where nothing would. Installs toolchains
        and makes inputs, compiles nothing.
        """
        for job in jobs:
            try:
                yield self.prober.command_line(job.case, self.shed.obtain(job.place))
            except EnvironmentFailure as error:
                yield f"# {job.case.name} on {job.place.revision.name}: {error}"

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "compile") -> Iterator[Probe]:
        """Probes as they are ready. A toolchain that cannot be had makes its probes untestable: TOOLCHAIN where there is
        none, ENVIRONMENT where it may be had another time.

        Ctrl-C and closing the iterator stop what runs, its process groups included, before they go on.
        """
        if not jobs:
            return
        task = self.progress.task(what, total=len(jobs))
        try:
            for probe in self._probe_all(jobs):
                task.advance()
                task.describe(f"{what}  {probe.case.name} on {probe.revision.name}")
                self.compiles += not probe.cached and probe.measured.seconds > 0
                yield probe
        finally:
            task.finish()

    @contextmanager
    def threads(self, count: int) -> Iterator[ThreadPoolExecutor]:
        """Threads that wait for compilers, `jobs` at most. An error or Ctrl-C ends the compilers first."""
        pool = ThreadPoolExecutor(max_workers=min(count, self.jobs))
        try:
            yield pool
        except BaseException:
            self.stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _probe_all(self, jobs: Sequence[ProbeJob]) -> Iterator[Probe]:
        places = {_key(job.place): job.place for job in jobs}
        fetchers = ThreadPoolExecutor(max_workers=min(_DOWNLOADS, len(places)))
        workers = ThreadPoolExecutor(max_workers=self.jobs)
        fetched = {key: fetchers.submit(self.shed.obtain, place) for key, place in places.items()}
        waiting = list(jobs)
        running: dict[Future[Probe], float] = {}
        try:
            while waiting or running:
                for job in self._startable(waiting, fetched, running):
                    waiting.remove(job)
                    future = workers.submit(self._one, job, fetched[_key(job.place)])
                    running[future] = self._reservation(job.case)
                pending = [future for future in fetched.values() if not future.done()]
                awaited: list[Future[Any]] = [*running, *pending]
                wait(awaited, return_when=FIRST_COMPLETED)
                for future in [future for future in running if future.done()]:
                    del running[future]
                    yield future.result()
        except BaseException:
            # An error, Ctrl-C or a caller that wants no more: end the compilers, then the threads that wait for them.
            self.stop.set()
            wait(list(running))
            raise
        finally:
            workers.shutdown(wait=True, cancel_futures=True)
            fetchers.shutdown(wait=True, cancel_futures=True)

    def _startable(
        self,
        waiting: Sequence[ProbeJob],
        fetched: dict[tuple[str, str], Future[Toolchain]],
        running: dict[Future[Probe], float],
    ) -> Iterator[ProbeJob]:
        """The jobs to start now, in order: toolchain at hand, a core free, and memory for its reservation."""
        for job in list(waiting):
            if len(running) >= self.jobs:
                return
            fits = sum(running.values()) + self._reservation(job.case) <= self._memory_mb
            if fetched[_key(job.place)].done() and (fits or not running):
                yield job

    def _reservation(self, case: Case) -> float:
        """MiB to set aside: what the case used last time with some headroom, else its whole limit."""
        limit = case.limits.memory / (1 << 20)
        last = self.evidence.last_peak_mb(case.name)
        return min(limit, max(_LEAST_MB, last * _HEADROOM)) if last else limit

    def _one(self, job: ProbeJob, fetched: Future[Toolchain]) -> Probe:
        try:
            ready = fetched.result()
        except EnvironmentFailure as error:
            cause = Cause.TOOLCHAIN if isinstance(error, Unobtainable) else Cause.ENVIRONMENT
            why = Untestable(cause, str(error))
            version = job.place.release.version if job.place.release else None
            return Probe(job.case, job.place.revision, version, why, Measured(), cached=False)
        probe = self.prober.probe(job.case, ready, fresh=job.fresh)
        if job.footprint and isinstance(probe.outcome, Compiled):
            more = {**probe.measured.metrics, **self.prober.footprint(job.case, ready)}
            probe = replace(probe, measured=replace(probe.measured, metrics=more))
        return self.reading(self.prober, ready, probe) if self.reading else probe


def _key(place: ToolchainRef) -> tuple[str, str]:
    """Two families may have releases of one name."""
    return place.family, place.revision.name
