"""The engine: plan the task of a case, look it up once in the cache, make it here or on
a cluster, record it and judge it.

The key insight: a task is data. Its key is a digest of all that can change what the
compiler does: its own identity, the input's content, options, variables and limits.
Nothing else is in it, no path, time or name. Two commands, two machines and two years
that ask the same therefore share one row of facts.

The cache keeps facts only: how the process ended, what it printed, what it measured.
Their meaning is computed anew by `judge` on each reading, so that better rules
apply to old facts. What the machine itself caused is never recorded.
"""

from __future__ import annotations

import fcntl
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from triage.compilers.invocation import Invocation
from triage.compilers.registry import Families, onnx_family
from triage.execution.cache import ResultCache
from triage.execution.inputs import Inputs, OnnxImporters
from triage.execution.plan import Planner, why_no_task
from triage.execution.task import (
    Cluster,
    Maker,
    Naming,
    ProbeJob,
    Task,
    probe_not_made,
    signature_of,
)
from triage.model.address import Address
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, TriageError, Unobtainable
from triage.model.execution import Execution
from triage.model.outcome import Cause, Failed, Measured, NoAnswer, Passed, Probe
from triage.model.progress import Progress
from triage.model.revision import Toolchain
from triage.processes.process import StopSignal
from triage.toolchains.home import KeptKind, Workspace, lock_file, open_home
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry

# increase the number when the IR is read in another way
_RESOURCES = "resource metrics 1"
_DOWNLOADS = 4  # of toolchains at once; more would share the same bandwidth
_QUEUED = 256  # jobs that wait for a cluster at once, in a thread each
_FRAMES = 30  # of a traceback: the last ones, since endless recursion has a thousand
# bytes of a file of weights: those of a model with 8 billion parameters take 16 GiB
_LARGEST_DOWNLOAD = 32 << 30


class Prober(Protocol):
    """What a search needs in order to probe: an engine, or a double of one in a
    test.
    """

    @property
    def progress(self) -> Progress: ...

    @property
    def jobs(self) -> int:
        """How many compiles run at once."""
        ...

    def probe_all(
        self, jobs: Sequence[ProbeJob], what: str = "compile"
    ) -> Iterator[Probe]: ...

    def recall(self, job: ProbeJob) -> Probe | None: ...


class NumberJudge(Protocol):
    """Calls a case failed whose number is too bad."""

    @property
    def is_alone(self) -> bool:
        """Whether it measures what was compiled, while nothing else may run. The case
        itself is not run then.
        """
        ...

    def judge(
        self, probe: Probe, ref: ToolchainRef, again: Callable[[], Probe], /
    ) -> Probe:
        """Return the probe as the number decides. again: makes it once more."""
        ...


class Engine:
    """Everything that a search needs: toolchains, tasks, and how much of the machine it
    may use. Safe for several threads.
    """

    def __init__(
        self,
        planner: Planner,
        *,
        jobs: int | None = None,
        progress: Progress | None = None,
        judge: NumberJudge | None = None,
    ) -> None:
        """Make tasks as the planner plans them.

        `jobs` compiles run at once (default: one for each core, or for each slot of the
        cluster). `judge` calls failed what has a bad number.
        """
        self.planner = planner
        self.maker = planner.maker
        self.registry = planner.registry
        self.compilers = planner.compilers
        self.inputs = planner.inputs
        self.cache = planner.maker.cache
        self.stop = planner.maker.stop
        self.progress = progress or Progress()
        self.local_jobs = jobs or os.cpu_count() or 1
        self.compiles = 0
        """Made so far, cached answers not counted."""
        self._jobs = jobs
        self._cluster = None if judge else planner.maker.cluster
        self._judge = judge
        self._installed: set[tuple[str, str]] = set()

    @property
    def jobs(self) -> int:
        """How many compiles run at once. Connects to the cluster, if there is one."""
        if self._jobs:
            return self._jobs
        if self._cluster:
            return self._cluster.slots()
        return self.local_jobs

    def with_judge(self, judge: NumberJudge) -> Engine:
        """Return another engine, on this machine, for which a bad number is a
        failure.
        """
        jobs = 1 if judge.is_alone else self.local_jobs
        return Engine(self.planner, jobs=jobs, progress=self.progress, judge=judge)

    def probe_on(
        self,
        case: Case,
        toolchain: Toolchain,
        *,
        fresh: bool = False,
        here: bool = False,
    ) -> Probe:
        """Return the probe of a case on a toolchain; see `Maker.run`."""
        return self.maker.run(
            self.planner.plan(case, toolchain), fresh=fresh, here=here
        )

    def cached_probe_on(self, case: Case, toolchain: Toolchain) -> Probe | None:
        """Return the probe of a case on a toolchain if it is cached. None if a number
        is judged, because that compiles.
        """
        if self._judge:
            return None
        return self.maker.cached_probe(self.planner.plan(case, toolchain))

    def trial(
        self,
        case: Case,
        toolchain: Toolchain,
        naming: Naming,
        *,
        attempt: int = 0,
        cancelled: StopSignal | None = None,
        here: bool = False,
    ) -> Probe:
        """Compile a case once, without repeating doubtful endings, run it where it is
        run, and record it apart from probes.

        This is for a search that tries many programs and probes only its result in
        full. Each `attempt` is cached by itself.
        `cancelled` ends the compile early, with Interrupted. With `here`, no cluster is
        used.
        """
        task = self.planner.plan(case, toolchain)
        if isinstance(task, Task):
            task = replace(task, variant=f"trial {attempt} {naming}", naming=naming)
        here = here or self._judge is not None
        probe = self.maker.run(task, cancelled, here=here)
        ref = self.registry.ref_of(toolchain)
        if self._judge is None or ref is None:
            return probe
        again = partial(self.probe_on, case, toolchain, fresh=True, here=True)
        return self._judge.judge(probe, ref, again)

    def observe(
        self,
        case: Case,
        toolchain: Toolchain,
        alter: Callable[[Invocation], Invocation],
        *,
        on_stderr: Callable[[bytes], None] | None = None,
        on_output: Callable[[Path], object] | None = None,
        writes: tuple[Path, ...] = (),
    ) -> Execution | NoAnswer:
        """Run the case's invocation as `alter` changes it; nothing is looked up or
        recorded.

        `on_stderr` receives standard error as it arrives. `on_output` receives the path
        of what a successful run wrote, before it is removed.
        """
        task = self.planner.plan(case, toolchain)
        if isinstance(task, Probe):
            return why_no_task(task.outcome)
        return self.maker.compile(
            replace(task, invocation=alter(task.invocation)),
            on_stderr=on_stderr,
            on_output=on_output,
            writes=writes,
        )

    def resource_metrics(self, case: Case, toolchain: Toolchain) -> Mapping[str, float]:
        """Return the resource metrics of a compiled case on its target, such as shared
        memory, as the IR of one more compile shows them. Empty when the family's IR
        does not show them or that compile fails.
        """
        resources = self.compilers[case.compiler].resources
        if resources is None:
            return {}
        task = self.planner.plan(case, toolchain)
        phase = resources.best_phase(toolchain, case.phase)
        if isinstance(task, Probe) or phase is None:
            return {}
        task = replace(task, variant=_RESOURCES)
        cached = self.cache.find(task.key)
        if cached:
            return cached.metrics
        numbers: dict[str, float] = {}
        execution = self.maker.compile(
            replace(task, invocation=resources.stopped_after(task.invocation, phase)),
            on_output=lambda printed: numbers.update(
                resources.metrics(printed, case.target.backend)
            ),
        )
        if numbers:
            self.cache.add(
                task.record(
                    task.key, replace(execution, metrics=numbers, output_bytes=None)
                )
            )
        return numbers

    # What is known of a case

    def last_execution(
        self, case: Case, toolchain: Toolchain
    ) -> tuple[Task, Execution] | None:
        """Return the task of a case, and the recorded execution of the last stage that
        it reached; None if there is no record.
        """
        task = self.planner.plan(case, toolchain)
        if isinstance(task, Probe):
            return None
        record = self.cache.find(task.key)
        if record is None:
            return None
        if task.run_key and record.execution.ok:
            record = self.cache.find(task.run_key) or record
        return task, record.execution

    def is_unsteady(self, job: ProbeJob) -> bool:
        """Return whether the same compile, or the same run of its program, ended in
        different ways at different times.
        """
        task = self.planner.plan(job.case, self.registry.obtain(job.ref))
        if isinstance(task, Probe):
            return False
        compiled = self.cache.records(task.key)
        if compiled and task.run_key:
            ran = self.cache.records(task.run_key)
        else:
            ran = []
        probes = [task.probe(record, cached=True) for record in compiled]
        probes += [task.probe(compiled[0], record, cached=True) for record in ran]
        outcomes = [
            probe.outcome
            for probe in probes
            if probe and not isinstance(probe.outcome, NoAnswer)
        ]
        return len(set(map(signature_of, outcomes))) > 1 or any(
            isinstance(each, Failed) and each.flaky for each in outcomes
        )

    def readable(self, job: ProbeJob) -> tuple[Path, ...]:
        """Return what the compile of a job may read besides the system's own files;
        nothing if it cannot be made.
        """
        try:
            task = self.planner.plan(job.case, self.registry.obtain(job.ref))
        except EnvironmentFailure:
            return ()
        return task.seal.reads if isinstance(task, Task) else ()

    def recall(self, job: ProbeJob) -> Probe | None:
        """Return the probe of a job if it is cached. Installs and compiles nothing."""
        key = _key_of(job.ref)
        if job.fresh or not (
            key in self._installed or self.registry.is_installed(job.ref)
        ):
            return None
        self._installed.add(key)  # checking every file of an install takes milliseconds
        try:
            return self.cached_probe_on(job.case, self.registry.obtain(job.ref))
        except EnvironmentFailure:
            return None

    # Many probes at once

    def probe(self, case: Case, ref: ToolchainRef, *, fresh: bool = False) -> Probe:
        """Make one probe on this machine and wait for it."""
        [probe] = self.probe_all([ProbeJob(case, ref, fresh=fresh, here=True)])
        return probe

    def probe_all(
        self, jobs: Sequence[ProbeJob], what: str = "compile"
    ) -> Iterator[Probe]:
        """Yield probes as they are ready, in any order, and count in `compiles` those
        that were not cached. `what`: names the work next to the progress bar.

        A toolchain that cannot be obtained makes its probes untestable: TOOLCHAIN when
        there is none, ENVIRONMENT when it may be obtained another time. An error,
        Ctrl-C and closing the iterator set `stop` and wait for what runs.
        """
        if not jobs:
            return
        refs = {_key_of(job.ref): job.ref for job in jobs}
        on_cluster = self._cluster is not None and not all(job.here for job in jobs)
        threads = self.registry.workspace.threads
        at_once = _DOWNLOADS
        if any(ref.bring for ref in refs.values()):
            # of commits, whose compilers may be built, each on a core
            at_once = min(_DOWNLOADS, self.local_jobs)
        text = what
        if len(jobs) == 1:
            text = f"{what}  {jobs[0].case.name} on {jobs[0].ref.revision.name}"
        progress = self.progress.task(text, total=len(jobs))
        try:
            with (
                threads(min(at_once, len(refs))) as fetchers,
                threads(_QUEUED if on_cluster else self.local_jobs) as workers,
            ):
                fetched = {
                    key: fetchers.submit(self.registry.obtain, ref)
                    for key, ref in refs.items()
                }
                probes = [
                    workers.submit(self._probe, job, fetched[_key_of(job.ref)])
                    for job in jobs
                ]
                for future in as_completed(probes):
                    probe = future.result()
                    progress.advance()
                    progress.describe(
                        f"{what}  {probe.case.name} on {probe.revision.name}"
                    )
                    if not probe.cached and probe.measured.seconds > 0:
                        self.compiles += 1
                    yield probe
        finally:
            progress.finish()

    def _probe(self, job: ProbeJob, fetched: Future[Toolchain]) -> Probe:
        """Make one probe. A defect of this program that a case brings out makes that
        case untestable, not the others.
        """
        try:
            toolchain = fetched.result()
        except EnvironmentFailure as error:
            return _without_toolchain(job, error)
        try:
            return self._probe_with(job, toolchain)
        except (TriageError, OSError):
            raise
        except Exception as error:
            name = f"{job.case.name} on {job.ref.revision.name}"
            return probe_not_made(job.case, toolchain, self.internal_error(name, error))

    def _probe_with(self, job: ProbeJob, toolchain: Toolchain) -> Probe:
        judge, case = self._judge, job.case
        if judge and judge.is_alone:
            planned = replace(case, run=None)  # the judge runs it
        else:
            planned = case
        task = self.planner.plan(planned, toolchain)
        here = job.here or judge is not None
        probe = self.maker.run(task, fresh=job.fresh, here=here)
        if job.resources and isinstance(probe.outcome, Passed):
            shown = self.resource_metrics(case, toolchain)
            metrics = {**probe.measured.metrics, **shown}
            probe = replace(probe, measured=replace(probe.measured, metrics=metrics))
        if judge is None:
            return probe
        again = partial(self.probe_on, case, toolchain, fresh=True, here=True)
        return judge.judge(replace(probe, case=case), job.ref, again)

    def threads(self, count: int) -> AbstractContextManager[ThreadPoolExecutor]:
        """Open a pool of at most `jobs` threads that wait for compilers. An error or
        Ctrl-C ends the compilers first.
        """
        return self.registry.workspace.threads(min(count, self.local_jobs))

    def internal_error(self, name: str, error: Exception) -> NoAnswer:
        """Print the traceback of a defect that a case brings out; return why the case
        is untestable.
        """
        trace = "".join(traceback.format_exception(error, limit=-_FRAMES))
        self.progress.error(
            f"internal error on {name}; this is a bug in triage:\n{trace}"
        )
        return NoAnswer(
            Cause.INTERNAL,
            f"internal error of triage: {type(error).__name__}: {str(error)[:200]}",
        )


def _without_toolchain(job: ProbeJob, error: EnvironmentFailure) -> Probe:
    """Return the probe of a job whose toolchain cannot be obtained."""
    if isinstance(error, Unobtainable):
        cause = Cause.TOOLCHAIN
    else:
        cause = Cause.ENVIRONMENT
    why = NoAnswer(cause, str(error))
    version = job.ref.release.version if job.ref.release else None
    return Probe(job.case, job.ref.revision, version, why, Measured(), cached=False)


def _key_of(ref: ToolchainRef) -> tuple[str, str]:
    return ref.family, ref.revision.name


@contextmanager
def time_limit(stop: threading.Event, seconds: float) -> Iterator[threading.Event]:
    """Set `stop`, which ends an engine's work with Interrupted, after so many seconds.
    Yields an event that is set by then.
    """
    over = threading.Event()

    def end() -> None:
        over.set()
        stop.set()

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), end)
    timer.daemon = True
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()
        if over.is_set():
            stop.clear()


@dataclass(frozen=True)
class EngineOptions:
    """How an engine works."""

    jobs: int | None = None
    """How many compiles run at once (default: one for each core, or for each slot of a
    cluster).
    """
    fresh: bool = False
    """Ignore the result cache."""
    progress: Progress | None = None
    warn: Callable[[str], None] = lambda _: None
    """Receives what the user must know about a compiler's own output."""
    cluster: Callable[[ToolchainRegistry], AbstractContextManager[Cluster]] | None = (
        None
    )
    """Opens machines that make tasks as well."""
    is_dry: bool = False
    """Install, download and compile nothing."""


@contextmanager
def open_engine(
    cases: Sequence[Case], options: EngineOptions | None = None
) -> Iterator[Engine]:
    """Open TRIAGE_HOME and yield an engine. On exit, compilers are stopped and the
    result cache is closed.

    `cases` are those to compile: their recipes may describe further compiler families.
    """
    own = options or EngineOptions()
    stop, home, families = threading.Event(), open_home(), Families(cases)
    with ExitStack() as opened:
        # a file system without locks, or a home that cannot be written
        with suppress(OSError):
            opened.enter_context(lock_file(home.use_lock, fcntl.LOCK_SH, stop))
        cache = ResultCache(home.results_database, own.warn, fresh=own.fresh)
        opened.callback(cache.close)
        try:
            registry = ToolchainRegistry(
                home, families, own.progress, stop, is_dry=own.is_dry
            )
            inputs = _inputs(registry, cache, stop, fresh=own.fresh)
            slots = own.jobs or os.cpu_count() or 1
            with ExitStack() as joined:
                cluster = None
                if own.cluster:
                    cluster = joined.enter_context(own.cluster(registry))
                maker = Maker(
                    home, cache, stop, slots, own.warn, cluster, is_dry=own.is_dry
                )
                planner = Planner(registry, families, inputs, maker)
                yield Engine(planner, jobs=own.jobs, progress=own.progress)
        except BaseException:
            stop.set()
            raise


def _inputs(
    registry: ToolchainRegistry,
    cache: ResultCache,
    stop: threading.Event,
    *,
    fresh: bool,
) -> Inputs:
    """Return what prepares inputs: also imports ONNX models and downloads files."""
    onnx = onnx_family()
    assert onnx.onnx_importer
    return Inputs(
        registry.home.kept(KeptKind.INPUTS),
        cache,
        stop,
        fresh=fresh,
        onnx=OnnxImporters(onnx.onnx_importer, stop),
        contents=registry.contents,
        download=partial(_download, registry.workspace),
    )


def _download(workspace: Workspace, url: Address, target: Path) -> None:
    from triage.toolchains.web import Web  # slow to import

    workspace.refuse_if_dry(f"download {url}")
    Web(workspace, tries=2).download(url, target, target.name, _LARGEST_DOWNLOAD)
