"""The engine: look a task up, or make it here or on a cluster, keep its facts and judge
them. Together with `plan`, this is how a case becomes a result.

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.registry import Families
from triage.execution.cache import ResultCache
from triage.execution.inputs import Inputs
from triage.execution.judge import (
    DISPATCHES,
    NoTask,
    missing_toolchain,
    needs_pass,
    rules_of,
)
from triage.execution.plan import plan_task
from triage.execution.task import (
    AnyOf,
    PassNaming,
    ProbeJob,
    RunTask,
    Task,
    checked_run,
    sealed_execution,
    with_facts,
)
from triage.model.case import Case
from triage.model.content import regular_size
from triage.model.errors import EnvironmentFailure, TriageError
from triage.model.execution import NO_PASS, Ending, Execution
from triage.model.outcome import MACHINE_CAUSES, Cause, NoAnswer, Passed, Probe
from triage.model.revision import Toolchain
from triage.processes.process import StopSignal, run
from triage.toolchains.home import (
    Progress,
    Workspace,
    disk_errors,
    is_intact,
    lock_file,
    open_home,
    remove_leftovers,
    temporary_folder,
)
from triage.toolchains.registry import ToolchainRegistry

if TYPE_CHECKING:
    from concurrent.futures import Future

    from triage.execution.dask_executor import DaskCluster
    from triage.execution.number_judge import NumberJudge

_LOOKED_UP = 256  # jobs whose answers are looked up together
_DOWNLOADS = 4  # of toolchains at once; more would share the same bandwidth
_QUEUED = 256  # jobs that wait for a cluster at once, in a thread each
_FRAMES = 30  # of a traceback: the last ones, since endless recursion has a thousand
# Endings that one execution does not prove.
_REPEATED = (Ending.SIGNALLED, Ending.TIMED_OUT, Ending.OVER_MEMORY, Ending.OVER_OUTPUT)

OnOutput = Callable[[Path], object]
"""Receives the path of what a compile wrote, before it is removed."""


class Engine:
    """Everything that a search needs: toolchains, tasks, and how much of the machine it
    may use. Safe for several threads.
    """

    def __init__(
        self,
        registry: ToolchainRegistry,
        cache: ResultCache,
        jobs: int | None = None,
    ) -> None:
        """Make tasks here until `stop` is set, or on a cluster if there is one.

        `jobs` compiles run here at once (default: one for each core).
        """
        self.registry = registry
        self.compilers = registry.compilers
        self.cache = cache
        self.stop = registry.workspace.stop
        self.progress = registry.workspace.progress
        self.cluster: DaskCluster | None = None
        """Machines that make tasks as well."""
        self.local_jobs = jobs or os.cpu_count() or 1
        self.compiles = 0
        """Made so far, cached answers not counted."""
        self.inputs = Inputs(registry, cache)
        self.judge: NumberJudge | None = None
        self._slots = threading.Semaphore(self.local_jobs)

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
        engine.judge = judge
        engine.cluster = None
        engine.compiles = 0
        if judge.metric.is_time:
            engine.local_jobs = 1
        return engine

    # Probes

    def probe_all(
        self, jobs: Sequence[ProbeJob], what: str = "compile"
    ) -> Iterator[Probe]:
        """Yield probes, the cached ones first and the others as they are ready, and
        count in `compiles` those that were not cached. `what`: names the work next to
        the progress bar.

        An error, Ctrl-C and closing the iterator set `stop` and wait for what runs.
        """
        if not jobs:
            return
        with self.progress.task(f"{what}  {jobs[0].name}", total=len(jobs)) as update:
            for probe in self._probes(jobs):
                update(f"{what}  {probe.case.name} on {probe.revision.name}", 1)
                if not probe.cached and probe.measured.seconds > 0:
                    self.compiles += 1
                yield probe

    def probe_in_order(
        self, jobs: Sequence[ProbeJob], what: str = "compile"
    ) -> list[Probe]:
        """Return the probes of jobs in their order."""
        probes = self.probe_all(jobs, what)
        found = {(id(probe.case), probe.revision.name): probe for probe in probes}
        return [found[id(job.case), job.ref.revision.name] for job in jobs]

    def _probes(self, jobs: Sequence[ProbeJob]) -> Iterator[Probe]:
        missing: list[ProbeJob] = []
        for start in range(0, len(jobs), _LOOKED_UP):
            batch = jobs[start : start + _LOOKED_UP]
            # a thread takes longer to begin than a look at the cache
            with_files = [job for job in batch if job.case.has_all_files]
            missing += [job for job in batch if not job.case.has_all_files]
            probes: Sequence[Probe | None] = [None] * len(with_files)
            with suppress(Exception):  # the threads report which job it is
                probes = self._cached_probes(with_files)
            for job, probe in zip(with_files, probes, strict=True):
                if probe:
                    yield replace(probe, case=job.case)
                else:
                    missing.append(job)
        if missing:
            yield from self._probes_by_threads(missing)

    def _probes_by_threads(self, jobs: Sequence[ProbeJob]) -> Iterator[Probe]:
        from concurrent.futures import as_completed  # slow to import

        refs = dict.fromkeys(job.ref for job in jobs)
        slots = _QUEUED if self.cluster else self.local_jobs
        threads = self.registry.workspace.threads
        with (
            threads(min(_DOWNLOADS, self.local_jobs)) as fetchers,
            threads(slots) as workers,
        ):
            fetched = {ref: fetchers.submit(self.registry.obtain, ref) for ref in refs}
            probes = [
                workers.submit(self._guarded_probe, job, fetched[job.ref])
                for job in jobs
            ]
            for future in as_completed(probes):
                yield future.result()

    def _guarded_probe(self, job: ProbeJob, fetched: Future[Toolchain]) -> Probe:
        """Make one probe. A defect of this program that a case brings out makes that
        case untestable, not the others.
        """
        fetched.exception()  # `probe` reports it
        try:
            return self.probe(job)
        except (TriageError, OSError):
            raise
        except Exception as error:
            why = self.internal_error(job.name, error)
            return Probe(job.case, job.ref.revision, None, why)

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

    def probe(self, job: ProbeJob) -> Probe:
        """Return one probe: from the cache unless it must be fresh, else make it.

        A toolchain that cannot be obtained makes it untestable: TOOLCHAIN when there is
        none, ENVIRONMENT when it may be obtained another time. Raises Interrupted when
        a stop signal is set; nothing is recorded then.
        """
        probe = self.plan(job)
        if isinstance(probe, Task):
            task = probe
            known = None
            if not job.fresh:
                known = task.probe(*self.cache.find_all(*task.keys), cached=True)
            probe = known or self._make(task, job)
        probe = replace(probe, case=job.case)
        if self.judge:
            return self.judge.judge(probe, job.ref)
        return probe

    def _make(self, task: Task, job: ProbeJob) -> Probe:
        """Make a task here or on the cluster, keep its facts and return its probe."""
        stop = AnyOf(self.stop, job.stop) if job.stop else self.stop
        executions: Sequence[Execution] | None = None
        try:
            if self.cluster and not job.here:
                executions = self.cluster.make(task, stop)
        except NoTask as error:
            return task.probe_without_answer(error.why)
        return self._store(task, executions or self.make(task, stop))

    def cached_probe(self, job: ProbeJob) -> Probe | None:
        """Return the probe of a job if it is cached. Installs and compiles nothing, and
        judges no number, because that compiles.
        """
        with suppress(EnvironmentFailure):  # a dry run makes nothing that it needs
            return self._cached_probes([job])[0]
        return None

    def _cached_probes(self, jobs: Sequence[ProbeJob]) -> list[Probe | None]:
        """Return the probes of jobs that are cached, or cannot be made on any machine;
        None for the others.
        """
        is_installed = cache(self.registry.is_installed)
        planned = [
            None
            if job.fresh or self.judge or not is_installed(job.ref)
            else self.plan(job)
            for job in jobs
        ]
        tasks = [task for task in planned if isinstance(task, Task)]
        keys = [key for task in tasks for key in task.keys]
        executions = dict(zip(keys, self.cache.find_all(*keys), strict=True))
        probes: list[Probe | None] = []
        for task in planned:
            probe = None
            if isinstance(task, Task):
                probe = task.probe(*map(executions.get, task.keys), cached=True)
            elif task and task.outcome.cause not in MACHINE_CAUSES:
                probe = task
            probes.append(probe)
        return probes

    def plan(self, job: ProbeJob) -> Task | Probe:
        """Return the task of a job, or the probe that says why there is none."""
        case = job.case
        ref = job.ref
        try:
            toolchain = self.registry.obtain(ref)
        except EnvironmentFailure as error:
            version = ref.release.version if ref.release else None
            return Probe(case, ref.revision, version, missing_toolchain(error))
        if self.judge and self.judge.metric.is_time:
            case = replace(case, run=None)
        if job.resources and self.compilers[case.compiler].kernels:
            counted = (DISPATCHES, math.inf)
            case = replace(case, thresholds=(*case.thresholds, counted))
        try:
            task = plan_task(self, case, toolchain, fresh=job.fresh)
        except NoTask as error:
            return Probe(case, toolchain.revision, toolchain.version, error.outcome)
        if job.once:
            variant = f"trial {job.attempt} {job.once}"
            return replace(task, variant=variant, naming=job.once)
        return task

    def _store(self, task: Task, executions: Sequence[Execution]) -> Probe:
        """Keep the facts of a task for which the machine is not to blame; return its
        probe.
        """
        probe = task.probe(*executions, cached=False)
        assert probe  # every stage was made
        problem = ""
        if task.has_changed():
            problem = "a file changed while it was read"
        elif not isinstance(probe.outcome, Passed):
            problem = self._damaged_install(task)
        if problem:
            return task.probe_without_answer(NoAnswer(Cause.ENVIRONMENT, problem))
        if probe.outcome.cause in MACHINE_CAUSES:
            executions = executions[:-1]
        self.cache.add(*task.records(executions))
        return probe

    def _damaged_install(self, task: Task) -> str:
        """Return what is wrong with the installs that a task used, if anything is:
        another process may have removed one that seems damaged.
        """
        reads = task.run.reads if isinstance(task.run, RunTask) else ()
        for root in (task.toolchain.root, *reads):
            if root.parent == self.registry.home.toolchains and not is_intact(root):
                return f"{root.name} was damaged or removed meanwhile"
        return ""

    def probe_for_files(
        self, task: Task, stop: StopSignal, on_output: OnOutput
    ) -> Probe:
        """Return the probe of a task whose files are needed: that from the cache if it
        does not pass, else make it.
        """
        probe = task.probe(*self.cache.find_all(*task.keys), cached=True)
        if probe and not isinstance(probe.outcome, Passed):
            return probe
        return self._store(task, self.make(task, stop, on_output))

    # What makes a task here

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a folder in which a process works, and remove it afterwards."""
        root = self.registry.home.scratch
        with disk_errors("make room for a compile"):
            root.mkdir(parents=True, exist_ok=True)
            with temporary_folder(root) as folder:
                yield folder

    def make(
        self, task: Task, stop: StopSignal, on_output: OnOutput | None = None
    ) -> list[Execution]:
        """Compile, and run the program if there is one; return both executions."""
        self.registry.workspace.refuse_if_dry("compile")
        if task.case.rules:
            rules_of(task.case)  # reports mistakes in them before anything is compiled
        ran: list[Execution] = []

        def use_module(module: Path) -> None:
            """Run the program while its file exists; the last compile counts."""
            if isinstance(task.run, RunTask):
                ran[:] = [task.run.make(module, stop)]
            if on_output:
                on_output(module)

        with self._slots:
            return [self._compile_until_sure(task, stop, use_module), *ran]

    def _compile_until_sure(
        self, task: Task, stop: StopSignal, on_output: OnOutput
    ) -> Execution:
        """Compile a trial once, everything else twice if one ending is not sure. If the
        failure needs the name of its pass, compile once more, printing it.
        """
        reporting = task.naming_failed_pass()
        if task.naming is PassNaming.IN_FIRST_COMPILE and reporting:
            return self._compile_and_scan_passes(reporting, stop, on_output)
        start = partial(self.compile, task, stop, on_output=on_output)
        if task.naming:
            return start()
        execution = checked_run(
            task.case, start, lambda execution: execution.ending not in _REPEATED
        )
        is_crash = execution.ending is Ending.SIGNALLED
        if reporting and not is_crash and needs_pass(task.case, execution):
            named = self._compile_and_scan_passes(reporting, stop)
            execution = replace(execution, failing_pass=named.failing_pass)
        return execution

    def _compile_and_scan_passes(
        self, task: Task, stop: StopSignal, on_output: OnOutput | None = None
    ) -> Execution:
        """Compile a task whose options print the failing pass, and read which it is:
        `NO_PASS` if none was printed.
        """
        from triage.classify import PassScanner  # slow to import

        scanner = PassScanner()
        execution = self.compile(
            task, stop, on_stderr=scanner.feed, on_output=on_output
        )
        return replace(execution, failing_pass=scanner.finish() or NO_PASS)

    def compile(
        self,
        task: Task,
        stop: StopSignal,
        *,
        on_stderr: Callable[[bytes], None] | None = None,
        on_output: OnOutput | None = None,
    ) -> Execution:
        """Compile once in a folder of its own; nothing is looked up or recorded.
        `on_stderr` receives standard error as it arrives.
        """
        case = task.case
        invocation = task.invocation
        kernels = task.compiler.kernels
        with self.folder() as folder:
            output = folder / "out"
            statistics = folder / "statistics.json"
            argv = invocation.argv(task.toolchain.program, task.prepared.path, output)
            if kernels and DISPATCHES in dict(case.thresholds):
                argv += kernels.count_options(statistics)
            execution = sealed_execution(
                case,
                task.seal,
                lambda seal: run(
                    argv,
                    case.limits,
                    folder,
                    seal=seal,
                    env=task.env,
                    stop=stop,
                    on_stderr=on_stderr,
                ),
            )
            if not execution.ok:
                from triage.processes.crash_stack import with_named_stack

                execution = with_named_stack(execution)
            execution = with_facts(task, execution, output, statistics)
            if on_output and execution.ok and regular_size(output):
                on_output(output)
        return execution


@contextmanager
def open_engine(
    cases: Sequence[Case],
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
    cluster: Callable[[ToolchainRegistry], DaskCluster] | None = None,
    is_dry: bool = False,
) -> Iterator[Engine]:
    """Open TRIAGE_HOME and yield an engine. On exit, compilers are stopped and the
    result cache is closed.

    `cases` are those to compile: their recipes may describe further compiler families.
    `cluster` opens machines that make tasks as well, and `is_dry` installs, downloads
    and compiles nothing.
    """
    home = open_home()
    workspace = Workspace(home, progress or Progress(), is_dry=is_dry)
    with ExitStack() as opened:
        # a file system without locks, or a home that cannot be written
        with suppress(OSError):
            remove_leftovers(home)
            opened.enter_context(lock_file(home.use_lock, fcntl.LOCK_SH))
        results = ResultCache(home.results_database, workspace.progress.error)
        opened.callback(results.close)
        registry = ToolchainRegistry(workspace, Families(cases))
        engine = Engine(registry, results, jobs)
        if cluster:
            engine.cluster = cluster(registry)
            opened.callback(engine.cluster.close)
        try:
            yield engine
        except BaseException:
            workspace.stop.set()
            raise
