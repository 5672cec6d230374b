"""The engine: look a task up, make it here or on a cluster, keep its facts, judge them.

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
import math
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from triage.compilers.base import Compiler
from triage.compilers.invocation import Invocation
from triage.compilers.registry import Families
from triage.execution.cache import Record, ResultCache
from triage.execution.files import KeptFiles
from triage.execution.make import Maker, OnOutput
from triage.execution.metric import DISPATCHES
from triage.execution.plan import Planner
from triage.execution.task import (
    AnyOf,
    ProbeJob,
    Task,
    not_probed,
    probe_not_made,
    why_unusable,
    without_toolchain,
)
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, TriageError
from triage.model.execution import Execution
from triage.model.outcome import OF_MACHINE, Cause, NoAnswer, Passed, Probe
from triage.model.progress import Progress
from triage.model.revision import Toolchain
from triage.toolchains.home import Home, lock_file, open_home, remove_tree
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry

if TYPE_CHECKING:
    from triage.execution.dask_executor import DaskCluster
    from triage.execution.number_judge import NumberJudge

_DOWNLOADS = 4  # of toolchains at once; more would share the same bandwidth
_QUEUED = 256  # jobs that wait for a cluster at once, in a thread each
_FRAMES = 30  # of a traceback: the last ones, since endless recursion has a thousand


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


class Engine:
    """Everything that a search needs: toolchains, tasks, and how much of the machine it
    may use. Safe for several threads.
    """

    def __init__(
        self,
        registry: ToolchainRegistry,
        compilers: Mapping[str, Compiler],
        cache: ResultCache,
        stop: threading.Event,
        *,
        jobs: int | None = None,
        fresh: bool = False,
        cluster: DaskCluster | None = None,
    ) -> None:
        """Make tasks here or on a cluster, until `stop` is set.

        Args:
            registry: The toolchains.
            compilers: The families.
            cache: The facts of earlier tasks.
            stop: Ends all work.
            jobs: How many compiles run here at once (default: one for each core).
            fresh: Prepare every input again.
            cluster: Machines that make tasks as well.
        """
        self.registry, self.compilers, self.cache = registry, compilers, cache
        self.stop, self.progress = stop, registry.workspace.progress
        self.cluster = cluster
        self.local_jobs = jobs or os.cpu_count() or 1
        self.compiles = 0
        """Made so far, cached answers not counted."""
        self.kept = KeptFiles()
        self.maker = Maker(registry, stop, self.local_jobs)
        self.planner = Planner(self, is_fresh=fresh)
        self.judge: NumberJudge | None = None
        self._installed: set[ToolchainRef] = set()

    @property
    def jobs(self) -> int:
        """How many compiles run at once. Connects to the cluster, if there is one."""
        if self.cluster:
            return self.cluster.slots()
        return self.local_jobs

    def with_judge(self, judge: NumberJudge) -> Engine:
        """Return another engine, on this machine, for which a bad number is a
        failure.
        """
        engine = copy(self)
        engine.judge, engine.cluster, engine.compiles = judge, None, 0
        if judge.metric.is_time:
            engine.local_jobs = 1
        return engine

    def probe_all(
        self, jobs: Sequence[ProbeJob], what: str = "compile"
    ) -> Iterator[Probe]:
        """Yield probes as they are ready, in any order, and count in `compiles` those
        that were not cached. `what`: names the work next to the progress bar.

        An error, Ctrl-C and closing the iterator set `stop` and wait for what runs.
        """
        if not jobs:
            return
        refs = dict.fromkeys(job.ref for job in jobs)
        fetching, slots = min(_DOWNLOADS, len(refs)), self.local_jobs
        if any(ref.bring for ref in refs):
            # of commits, whose compilers may be built, each on a core
            fetching = min(fetching, self.local_jobs)
        if self.cluster and not all(job.here for job in jobs):
            slots = _QUEUED
        threads, obtain = self.registry.workspace.threads, self.registry.obtain
        with self.progress.task(what, total=len(jobs)) as progress:
            progress.describe(f"{what}  {jobs[0].name}")
            with threads(fetching) as fetchers, threads(slots) as workers:
                fetched = {ref: fetchers.submit(obtain, ref) for ref in refs}
                probes = [
                    workers.submit(self._guarded_probe, job, fetched[job.ref])
                    for job in jobs
                ]
                for future in as_completed(probes):
                    probe = future.result()
                    progress.advance()
                    name = f"{probe.case.name} on {probe.revision.name}"
                    progress.describe(f"{what}  {name}")
                    if not probe.cached and probe.measured.seconds > 0:
                        self.compiles += 1
                    yield probe

    def _guarded_probe(self, job: ProbeJob, fetched: Future[Toolchain]) -> Probe:
        """Make one probe. A defect of this program that a case brings out makes that
        case untestable, not the others.
        """
        with suppress(EnvironmentFailure):  # `probe` says so
            fetched.result()
        try:
            return self.probe(job)
        except (TriageError, OSError):
            raise
        except Exception as error:
            return not_probed(job, self.internal_error(job.name, error))

    def probe(self, job: ProbeJob) -> Probe:
        """Return one probe: from the cache unless it must be fresh, else make it.

        A toolchain that cannot be obtained makes it untestable: TOOLCHAIN when there is
        none, ENVIRONMENT when it may be obtained another time. Raises Interrupted when
        a stop signal is set; nothing is recorded then.
        """
        task = self.plan(job)
        if isinstance(task, Probe):
            return replace(task, case=job.case)
        probe = None
        if not job.fresh:
            probe = self._find(task)
        probe = probe or self._make(task, job)
        probe = replace(probe, case=job.case)
        if self.judge:
            return self.judge.judge(probe, job.ref)
        return probe

    def recall(self, job: ProbeJob) -> Probe | None:
        """Return the probe of a job if it is cached. Installs and compiles nothing, and
        judges no number, because that compiles.
        """
        if job.fresh or self.judge:
            return None
        # checking every file of an install takes milliseconds
        if job.ref not in self._installed:
            if not self.registry.is_installed(job.ref):
                return None
            self._installed.add(job.ref)
        with suppress(EnvironmentFailure):  # a dry run makes nothing that it needs
            task = self.plan(job)
            if isinstance(task, Task):
                return self._find(task)
            if task.outcome.cause not in OF_MACHINE:
                return task
        return None

    def plan(self, job: ProbeJob) -> Task | Probe:
        """Return the task of a job, or the probe that says why there is none."""
        try:
            toolchain = self.registry.obtain(job.ref)
        except EnvironmentFailure as error:
            return not_probed(job, without_toolchain(error))
        case = job.case
        if self.judge and self.judge.metric.is_time:
            case = replace(case, run=None)
        if job.resources and self.compilers[case.compiler].kernels:
            counted = (DISPATCHES, math.inf)
            case = replace(case, thresholds=(*case.thresholds, counted))
        task = self.planner.plan(case, toolchain)
        if job.once and isinstance(task, Task):
            variant = f"trial {job.attempt} {job.once}"
            return replace(task, variant=variant, naming=job.once)
        return task

    def observe(
        self,
        case: Case,
        toolchain: Toolchain,
        alter: Callable[[Invocation], Invocation],
        *,
        on_stderr: Callable[[bytes], None] | None = None,
        on_output: OnOutput | None = None,
        writes: tuple[Path, ...] = (),
    ) -> Execution | NoAnswer:
        """Run the case's invocation as `alter` changes it; nothing is looked up or
        recorded.

        `on_stderr` receives standard error as it arrives. `writes` are further folders
        that it may write to.
        """
        task = self.planner.plan(case, toolchain)
        if isinstance(task, Probe):
            return why_unusable(task.outcome)
        altered = replace(task, invocation=alter(task.invocation))
        return self.maker.compile(
            altered, self.stop, on_stderr=on_stderr, on_output=on_output, writes=writes
        )

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
        why = f"internal error of triage: {type(error).__name__}: {str(error)[:200]}"
        return NoAnswer(Cause.INTERNAL, why)

    def _find(self, task: Task) -> Probe | None:
        """Return the probe of a task if the cache has all its records, else None."""
        keys = filter(None, (task.key, task.run_key))
        return task.probe(*self.cache.find_all(*keys), cached=True)

    def _make(self, task: Task, job: ProbeJob) -> Probe:
        stop = AnyOf(self.stop, job.stop)
        records: list[Record] | NoAnswer | None = None
        if self.cluster and not job.here:
            records = self.cluster.make(task, stop)
        if records is None:
            records = self.maker.make(task, stop)
        if isinstance(records, NoAnswer):
            return probe_not_made(task.case, task.toolchain, records)
        return self.keep(task, records)

    def probe_unless_known(
        self, task: Task, make: Callable[[], Sequence[Record]]
    ) -> Probe:
        """Return the probe of a task whose files are needed: that from the cache if it
        does not pass, else that of the records that `make` makes.
        """
        known = self._find(task)
        if known and not isinstance(known.outcome, Passed):
            return known
        return self.keep(task, make())

    def keep(self, task: Task, records: Sequence[Record]) -> Probe:
        """Keep the records of a task for which the machine is not to blame; return its
        probe.
        """
        if task.has_changed():
            changed = NoAnswer(Cause.ENVIRONMENT, "a file changed while it was read")
            return probe_not_made(task.case, task.toolchain, changed)
        probe = task.probe(*records, cached=False)
        assert probe  # every stage has a record
        if probe.outcome.cause in OF_MACHINE:
            records = records[:-1]
        self.cache.add(*records)
        return probe

    def last_execution(
        self, case: Case, toolchain: Toolchain
    ) -> tuple[Task, Execution] | None:
        """Return the task of a case, and the recorded execution of the last stage that
        it reached; None if there is no record.
        """
        task = self.planner.plan(case, toolchain)
        if isinstance(task, Probe):
            return None
        keys = filter(None, (task.key, task.run_key))
        record, *ran = self.cache.find_all(*keys)
        if record is None:
            return None
        if record.execution.ok and ran and ran[0]:
            record = ran[0]
        return task, record.execution


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


def _lock_use(home: Home, stop: threading.Event) -> IO[bytes]:
    """Say that the home is in use. If no other process uses it, remove the folders in
    which killed ones compiled: other containers that share it see locks, and no
    processes.
    """
    try:
        with lock_file(home.use_lock, fcntl.LOCK_EX | fcntl.LOCK_NB, stop):
            remove_tree(home.scratch)
    except BlockingIOError:
        pass
    return lock_file(home.use_lock, fcntl.LOCK_SH, stop)


@contextmanager
def open_engine(
    cases: Sequence[Case],
    *,
    jobs: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] = lambda _: None,
    cluster: Callable[[ToolchainRegistry], DaskCluster] | None = None,
    is_dry: bool = False,
) -> Iterator[Engine]:
    """Open TRIAGE_HOME and yield an engine. On exit, compilers are stopped and the
    result cache is closed.

    `cases` are those to compile: their recipes may describe further compiler families.
    `fresh` ignores the result cache, `cluster` opens machines that make tasks as well,
    and `is_dry` installs, downloads and compiles nothing.
    """
    stop, home, families = threading.Event(), open_home(), Families(cases)
    with ExitStack() as opened:
        # a file system without locks, or a home that cannot be written
        with suppress(OSError):
            opened.enter_context(_lock_use(home, stop))
        cache = ResultCache(home.results_database, warn, fresh=fresh)
        opened.callback(cache.close)
        registry = ToolchainRegistry(home, families, progress, stop, is_dry=is_dry)
        with cluster(registry) if cluster else nullcontext() as machines:
            try:
                yield Engine(
                    registry,
                    families,
                    cache,
                    stop,
                    jobs=jobs,
                    fresh=fresh,
                    cluster=machines,
                )
            except BaseException:
                stop.set()
                raise
