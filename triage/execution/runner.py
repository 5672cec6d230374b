"""Make many probes at once, bounded by cores and memory, each as soon as its toolchain is installed."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from triage.execution.cache import ResultCache
from triage.execution.judge import MetricThreshold
from triage.execution.prober import Naming, Prober, Trial
from triage.execution.process import StopSignal, memory
from triage.model.case import Case, InputKind
from triage.model.errors import EnvironmentFailure, Interrupted, TriageError, Unobtainable
from triage.model.outcome import Cause, Compiled, Measured, Probe, Untestable
from triage.model.progress import Progress, Silent
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry

_DOWNLOADS = 4  # at once; more would share the same bandwidth
_HEADROOM = 1.25  # the peak of a compile varies between runs and releases
_LEAST_MB = 256.0
_MOST_UNKNOWN = 20  # jobs more than known ones, until the others are no longer looked up first
_FRAMES = 30  # of a traceback: the last ones, since endless recursion has a thousand
_USABLE = 0.9  # share of the available memory
_TICK = 0.1  # seconds between looks at the stop signal


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """One probe to make. fresh: ignore what the evidence knows; footprint: compile a case that compiles once more, to read
    from its IR the resources that it needs; after: number of the last cached result to ignore;
    here: on this machine, because its time is compared; trial: a single compile instead of a probe, which `cancelled` ends.
    """

    case: Case
    ref: ToolchainRef
    fresh: bool = False
    footprint: bool = False
    after: int = 0
    here: bool = False
    trial: Trial | None = None
    cancelled: StopSignal | None = None


class Executor(Protocol):
    """Runs jobs somewhere."""

    def run(self, jobs: Sequence[ProbeJob]) -> Iterator[Probe]:
        """Yield the probes as they are ready, one for each job."""


class Cluster(Protocol):
    """Other machines that make probes."""

    @property
    def slots(self) -> int:
        """How many probes they make at once."""

    def executor(self, runner: ProbeRunner, local: Scheduler) -> Executor:
        """Return what makes the probes of a search there, and those that cannot be sent with `local`."""


class CandidateCompiler(Protocol):
    """Makes single compiles, here or elsewhere."""

    def trial(
        self, case: Case, toolchain: Toolchain, naming: Naming, *, attempt: int = 0, cancelled: StopSignal | None = None
    ) -> Probe:
        """Compile a case once; see `Prober.trial`."""


class RunJudge(Protocol):
    """Judges the program that a compile wrote, which is run anew for each probe."""

    def judge(self, probe: Probe, ref: ToolchainRef) -> Probe:
        """Return the probe of a compile as the run of its program judges it."""


class CaseProber(Protocol):
    """Makes the probes of a search."""

    @property
    def jobs(self) -> int:
        """How many compiles run at once."""

    @property
    def progress(self) -> Progress:
        """Shows how far a search is."""

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "compile") -> Iterator[Probe]:
        """Yield the probes as they are ready, in any order. `what`: names the work beside the progress bar."""


@dataclass(frozen=True)
class Scheduler:
    """Runs jobs in threads: at most `jobs` at once, within the memory, each after its toolchain is obtained.

    obtain: installs a toolchain if need be; probe: makes one probe; reservation: MiB to set aside for a case;
    memory_mb: what the running jobs may use together. A job that needs more than that runs alone. obtained: toolchains that are
    obtained at once.
    """

    obtain: Callable[[ToolchainRef], Toolchain]
    probe: Callable[[ProbeJob, Toolchain], Probe]
    reservation: Callable[[Case], float]
    stop: threading.Event
    jobs: int
    memory_mb: float
    obtained: int = _DOWNLOADS

    def run(self, jobs: Sequence[ProbeJob]) -> Iterator[Probe]:
        """Yield the probes as they are ready.

        A toolchain that cannot be obtained makes its probes untestable: TOOLCHAIN when there is none, ENVIRONMENT when it
        may be obtained another time. An error, Ctrl-C and closing the iterator set `stop` and wait for what runs.
        """
        refs = {_key(job.ref): job.ref for job in jobs}
        fetchers = ThreadPoolExecutor(max_workers=min(self.obtained, max(1, len(refs))))
        workers = ThreadPoolExecutor(max_workers=self.jobs)
        fetched = {key: fetchers.submit(self.obtain, ref) for key, ref in refs.items()}
        waiting = list(jobs)
        running: dict[Future[Probe], float] = {}
        try:
            while waiting or running:
                for job, needed in self._startable(waiting, fetched, running):
                    waiting.remove(job)
                    future = workers.submit(self._probe, job, fetched[_key(job.ref)])
                    running[future] = needed
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
            if not fetched[_key(job.ref)].done():
                continue
            needed = self.reservation(job.case)
            if not running or sum(running.values()) + needed <= self.memory_mb:
                yield job, needed

    def _probe(self, job: ProbeJob, fetched: Future[Toolchain]) -> Probe:
        try:
            toolchain = fetched.result()
        except EnvironmentFailure as error:
            cause = Cause.TOOLCHAIN if isinstance(error, Unobtainable) else Cause.ENVIRONMENT
            version = job.ref.release.version if job.ref.release else None
            return Probe(job.case, job.ref.revision, version, Untestable(cause, str(error)), Measured(), cached=False)
        return self.probe(job, toolchain)


class ProbeRunner:
    """Everything that a search needs: toolchains, the prober, and how much of the machine it may use."""

    def __init__(
        self,
        registry: ToolchainRegistry,
        prober: Prober,
        evidence: ResultCache,
        stop: threading.Event,
        *,
        jobs: int | None = None,
        progress: Progress | None = None,
        threshold: MetricThreshold | RunJudge | None = None,
        after: int = 0,
    ) -> None:
        """jobs: compiles at once (default: one for each core, or for each slot of a cluster); threshold: probes above it count
        as failures; after: number of the last cached result that a command with --fresh ignores.
        """
        self.registry = registry
        self.prober = prober
        self.evidence = evidence
        self.stop = stop
        self.local_jobs = jobs or os.cpu_count() or 1
        self._jobs = jobs
        self._free = threading.BoundedSemaphore(self.local_jobs)  # for trials that a cluster cannot make
        self.progress = progress or Silent()
        self.threshold = threshold
        self.after = after
        self.memory_mb = memory().available * _USABLE / (1 << 20)
        self._installed: set[tuple[str, str]] = set()
        self.compiles = 0  # made so far, cached answers not counted
        self.connect: Callable[[], Cluster] | None = None  # to a cluster, when the first job needs it

    @property
    def jobs(self) -> int:
        """How many compiles run at once. Connects to the cluster, if there is one."""
        return self._jobs or (self.connect().slots if self.connect else self.local_jobs)

    def with_threshold(self, threshold: MetricThreshold | RunJudge) -> ProbeRunner:
        """Return a runner for which a number above the threshold is a failure. Programs are measured one at a time."""
        jobs = self.local_jobs if isinstance(threshold, MetricThreshold) else 1
        return ProbeRunner(
            self.registry, self.prober, self.evidence, self.stop, jobs=jobs, progress=self.progress, threshold=threshold
        )

    def probe(self, case: Case, ref: ToolchainRef, *, fresh: bool = False) -> Probe:
        """Make one probe on this machine and wait for it."""
        [probe] = self.probe_all([ProbeJob(case, ref, fresh, here=True)])
        return probe

    def trial(
        self, case: Case, toolchain: Toolchain, naming: Naming, *, attempt: int = 0, cancelled: StopSignal | None = None
    ) -> Probe:
        """Compile a case once, on the cluster if there is one, and wait for it; see `Prober.trial`. Safe for several threads.
        A case that is run as well is compiled here.

        Raises Interrupted when `cancelled` is set.
        """
        ref = self.registry.ref_of(toolchain)
        if self.connect is None or ref is None or case.run:
            return self.prober.trial(case, toolchain, naming, attempt=attempt, cancelled=cancelled)
        job = ProbeJob(case, ref, trial=Trial(naming, attempt), cancelled=cancelled)
        # A stop signal of its own, because the end of one trial does not end the others.
        local = Scheduler(self.registry.obtain, self._probe, self._reservation, threading.Event(), 1, self.memory_mb)
        [probe] = self.connect().executor(self, local).run([job])
        return probe

    def recall(self, job: ProbeJob) -> Probe | None:
        """What the evidence knows of a job; None when it has to be compiled. Installs and compiles nothing."""
        key = _key(job.ref)
        if job.fresh or not (key in self._installed or self.registry.is_installed(job.ref)):
            return None
        self._installed.add(key)  # checking every file of an install takes milliseconds
        try:
            return self.prober.recall(job.case, self.registry.obtain(job.ref), job.after)
        except EnvironmentFailure:
            return None

    def is_unsteady(self, job: ProbeJob) -> bool:
        """Whether the evidence has different outcomes of a job, although nothing changed."""
        return self.prober.is_unsteady(job.case, self.registry.obtain(job.ref))

    def command_lines(self, jobs: Sequence[ProbeJob]) -> Iterator[str]:
        """Yield what would be run, a shell line each; a comment with the reason where nothing would.

        Installs toolchains and prepares inputs; compiles nothing.
        """
        for job in jobs:
            try:
                yield self.prober.command_line(job.case, self.registry.obtain(job.ref))
            except EnvironmentFailure as error:
                yield f"# {job.case.name} on {job.ref.revision.name}: {error}"

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "compile") -> Iterator[Probe]:
        """Yield probes as they are ready; see `Scheduler.run`. `what`: names the work beside the progress bar."""
        if not jobs:
            return
        scheduler = Scheduler(self.registry.obtain, self._probe, self._reservation, self.stop, self.local_jobs, self.memory_mb)
        task = self.progress.task(what, total=len(jobs))
        try:
            for probe in self._probes(jobs, scheduler):
                task.advance()
                task.describe(f"{what}  {probe.case.name} on {probe.revision.name}")
                self.compiles += not probe.cached and probe.measured.seconds > 0
                yield probe
        finally:
            task.finish()

    def _probes(self, jobs: Sequence[ProbeJob], scheduler: Scheduler) -> Iterator[Probe]:
        """Yield what is known of jobs that need no preparation, then run the others. Stop looking where most is unknown."""
        unknown: list[ProbeJob] = []
        recalled = 0
        for index, job in enumerate(jobs):
            if len(unknown) > recalled + _MOST_UNKNOWN:
                unknown += jobs[index:]
                break
            try:
                probe = self.recall(job) if self._is_ready(job) else None
            except (TriageError, OSError):
                raise
            except Exception:  # a defect of this program, which the executor reports with the case
                probe = None
            if probe is None:
                unknown.append(job)
                continue
            recalled += 1
            yield probe
        if unknown and self.connect and not all(job.here for job in unknown):
            yield from self.connect().executor(self, scheduler).run(unknown)
        else:
            yield from scheduler.run(unknown)

    def _is_ready(self, job: ProbeJob) -> bool:
        """Whether looking for a job in the evidence runs, imports and downloads nothing."""
        case, run = job.case, job.case.run
        return (
            self.threshold is None
            and not (job.fresh or job.footprint or case.artifacts or job.ref.bring)
            and case.input.kind not in (InputKind.GENERATOR, InputKind.ONNX)
            and (run is None or not (run.reference or run.libraries or run.artifacts or run.arguments))
        )

    def threads(self, count: int) -> AbstractContextManager[ThreadPoolExecutor]:
        """Open a pool of at most `jobs` threads that wait for compilers. An error or Ctrl-C ends the compilers first."""
        return self.registry.workspace.threads(min(count, self.local_jobs))

    def _reservation(self, case: Case) -> float:
        """Return the MiB to set aside: what the case used last time with some headroom, else its whole limit."""
        limit = case.limits.memory / (1 << 20)
        last = self.evidence.last_peak_mb(case.name)
        return min(limit, max(_LEAST_MB, last * _HEADROOM)) if last else limit

    def _probe(self, job: ProbeJob, toolchain: Toolchain) -> Probe:
        """Make one probe. A defect of this program that a case brings out makes that case untestable, not the others."""
        try:
            return self._judged(job, toolchain)
        except (TriageError, OSError):
            raise
        except Exception as error:
            outcome = self.internal_error(f"{job.case.name} on {job.ref.revision.name}", error)
            return Probe(job.case, toolchain.revision, toolchain.version, outcome, Measured(), cached=False)

    def internal_error(self, name: str, error: Exception) -> Untestable:
        """Print the traceback of a defect that a case brings out; return why the case is untestable."""
        trace = "".join(traceback.format_exception(error, limit=-_FRAMES))
        self.progress.error(f"internal error on {name}; this is a bug in triage:\n{trace}")
        return Untestable(Cause.INTERNAL, f"internal error of triage: {type(error).__name__}: {str(error)[:200]}")

    def _judged(self, job: ProbeJob, toolchain: Toolchain) -> Probe:
        if (trial := job.trial) is not None:
            with self._core(job):
                return self.prober.trial(job.case, toolchain, trial.naming, attempt=trial.attempt, cancelled=job.cancelled)
        if self.threshold is not None and not isinstance(self.threshold, MetricThreshold):
            probe = self.prober.probe(replace(job.case, run=None), toolchain, after=job.after)
            return self.threshold.judge(replace(probe, case=job.case), job.ref)
        probe = self.prober.probe(job.case, toolchain, fresh=job.fresh, after=job.after)
        if job.footprint and isinstance(probe.outcome, Compiled):
            metrics = {**probe.measured.metrics, **self.prober.footprint(job.case, toolchain)}
            probe = replace(probe, measured=replace(probe.measured, metrics=metrics))
        if self.threshold is None:
            return probe
        return self.threshold.read(probe, lambda: self.prober.probe(job.case, toolchain, fresh=True))

    @contextmanager
    def _core(self, job: ProbeJob) -> Iterator[None]:
        """One of the compiles that run here at once. Raises Interrupted when the job is cancelled before it is free."""
        while not self._free.acquire(timeout=_TICK):
            if self.stop.is_set() or (job.cancelled and job.cancelled.is_set()):
                raise Interrupted("stopped")
        try:
            yield
        finally:
            self._free.release()


def _key(ref: ToolchainRef) -> tuple[str, str]:
    """Two families may have releases of one name."""
    return ref.family, ref.revision.name
