"""A task: one compile of a case on a toolchain, and the run of what it writes, as data
with a content key; and how it is made.

Everything that this program compiles is a task: a probe, a trial of a reduction, a
reference, a library, resource metrics. They differ in their key only, so that one cache
and one way to make them are enough. To make one is to compile, to repeat what one
compile does not prove, to name the failing pass, and to run the program.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from enum import StrEnum
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from triage.compilers.base import Compiler
from triage.compilers.invocation import Invocation, reported_facts
from triage.execution.cache import ResultCache
from triage.execution.files import Prepared, Scratch
from triage.execution.judge import (
    is_silent_pass,
    judge,
    judge_run,
    needs_pass,
    rules_of,
    with_operator,
)
from triage.execution.machine_problem import reason_script_skips
from triage.execution.metric import DISPATCHES, judge_thresholds
from triage.execution.reads import surroundings, what_was_refused
from triage.execution.record import Record
from triage.execution.run_task import RunTask, agreeing_runs, limits_key
from triage.mlir.result_operator import operator_in
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Ending, Execution, Stage
from triage.model.foreign_file import is_regular, regular_size
from triage.model.outcome import (
    OF_MACHINE,
    Cause,
    Failed,
    Measured,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.model.pass_name import NO_PASS, PassName
from triage.model.revision import Toolchain
from triage.processes.containment import settings
from triage.processes.crash_stack import with_named_stack
from triage.processes.process import StopSignal, memory, run
from triage.processes.sealing import Seal
from triage.toolchains.contents import file_state
from triage.toolchains.home import Home, lock_file
from triage.toolchains.registry import ToolchainRef

# Endings that one run does not prove.
_REPEATED = (Ending.SIGNALLED, Ending.TIMED_OUT, Ending.OVER_MEMORY, Ending.OVER_OUTPUT)
_HEADROOM = 1.25  # the peak of a compile varies between runs and releases
_LEAST_MB = 256.0
_USABLE = 0.9  # share of the available memory


@dataclass(frozen=True, slots=True)
class ProbeJob:
    """One probe to make."""

    case: Case
    ref: ToolchainRef
    _: KW_ONLY
    fresh: bool = False
    """Ignore the result cache."""
    resources: bool = False
    """Compile a case that compiles once more, to read resource metrics from its IR."""
    here: bool = False
    """Do not use a cluster, because times are compared."""


class Naming(StrEnum):
    """How a trial compiles: once, with or without the name of the pass that fails."""

    NEVER = "never"
    """Compile as the recipe says, and name no pass."""
    AT_ONCE = "at once"
    """Compile with options that print the failing pass, on one thread, so that a crash
    has the same stack each time.
    """


@dataclass(frozen=True, slots=True)
class Task:
    """A compile that can be made: the input is prepared and the version knows every
    flag.
    """

    case: Case
    toolchain: Toolchain
    compiler: Compiler
    prepared: Prepared
    invocation: Invocation
    reads: tuple[Path, ...] = ()
    """Files and folders that it may read besides toolchain and input."""
    content: str = ""
    """Their digest, the part of the key that stands for them."""
    state: str = ""
    """The state of these files; see `file_state`."""
    run: RunTask | NoAnswer | Failed | None = None
    """What follows the compile, or why nothing can."""
    sealed: bool = True
    variant: str = ""
    """Part of the key of another way to make the same compile, such as a trial."""
    naming: Naming | None = None
    """Set for a trial, which compiles once. Else a doubtful ending is repeated."""

    @property
    def counts_dispatches(self) -> bool:
        return any(name == DISPATCHES for name, _ in self.case.thresholds)

    @property
    def key(self) -> str:
        """The content key of the compile: compiler, input, options without paths,
        limits.
        """
        parts = [
            *(self.toolchain.identity, self.prepared.digest, self.content),
            *self.invocation.options,
            *surroundings(
                self.invocation.options, uses_processor=self.compiler.uses_processor
            ),
            *([] if self.sealed else ["unsealed"]),
            *([self.variant] if self.variant else []),
            *(f"env {setting}" for setting in settings(dict(self.case.env))),
            *([DISPATCHES] if self.counts_dispatches else []),
            *limits_key(self.case.limits),
        ]
        return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def has_changed(self) -> bool:
        """Return whether a file that it may read was written since its key was made."""
        prepared, toolchain = self.prepared, self.toolchain
        pairs = (
            (self.state, self.reads),
            (prepared.state, (prepared.path,)),
            (toolchain.state, toolchain.watched),
        )
        return any(state and state != file_state(files) for state, files in pairs)

    @property
    def seal(self) -> Seal:
        """What the compile may read."""
        return Seal((*self.toolchain.reads, self.prepared.path, *self.reads))

    @property
    def run_key(self) -> str | None:
        """The content key of the run that follows, None without one."""
        return self.keys[1]

    @property
    def keys(self) -> tuple[str, str | None]:
        """The content keys of the compile and of the run that follows, if one does."""
        key = self.key
        if not isinstance(self.run, RunTask):
            return key, None
        text = f"run\0{key}\0{self.run.identity}"
        return key, sha256(text.encode()).hexdigest()

    @property
    def env(self) -> dict[str, str | None]:
        """The variables of the family and of the recipe, which take precedence."""
        return {**self.invocation.env, **dict(self.case.env)}

    def argv(self, output: Path) -> list[str]:
        return self.invocation.argv(self.toolchain.program, self.prepared.path, output)

    def with_pass_reporting(self) -> Task:
        """Return the same task, printing which pass failed."""
        passes = self.compiler.passes
        if passes and self.case.script is None:
            return replace(self, invocation=passes.naming_failed_pass(self.invocation))
        return self

    def on_one_thread(self) -> Task:
        """Return the same task, compiling on one thread."""
        passes = self.compiler.passes
        if passes and self.case.script is None:
            return replace(self, invocation=passes.on_one_thread(self.invocation))
        return self

    def record(
        self,
        key: str,
        execution: Execution,
        failing_pass: PassName | None = None,
        disagreements: int = 0,
    ) -> Record:
        """Return the facts of an execution, for the cache, without paths of this
        machine.
        """
        program, root = self.toolchain.program, f"{self.toolchain.root}{os.sep}"
        names = {
            str(program): program.name,
            str(self.prepared.path): f"input:{self.prepared.digest[:12]}",
        }
        words = (
            names.get(word) or re.sub(r"^.*/out$", "out", word)
            for word in execution.argv
        )
        portable = replace(
            execution, argv=tuple(word.replace(root, "toolchain/") for word in words)
        )
        return Record(
            key,
            self.case.name,
            self.toolchain.revision.name,
            portable,
            failing_pass,
            disagreements,
        )

    def probe(
        self, compiled: Record | None, ran: Record | None = None, *, cached: bool
    ) -> Probe | None:
        """Judge the records of the compile and, if it passed, of the run. Returns None
        if one of them is missing.
        """
        if compiled is None:
            return None
        execution = compiled.execution
        metrics = compiled.metrics
        outcome = self._judge_compile(compiled)
        if isinstance(outcome, Passed):
            if isinstance(self.run, NoAnswer | Failed):
                outcome = self.run
            elif isinstance(self.run, RunTask):
                if ran is None:
                    return None
                outcome = self._judge_run(self.run, ran)
                metrics = {**metrics, **ran.metrics}
        measured = Measured(
            execution.seconds, execution.cpu_seconds, execution.peak_rss_mb, metrics
        )
        revision, version = self.toolchain.revision, self.toolchain.version
        return Probe(self.case, revision, version, outcome, measured, cached)

    def _judge_compile(self, compiled: Record) -> Outcome:
        execution = compiled.execution
        outcome: Outcome
        if is_silent_pass(execution):  # rules take long to read
            outcome = Passed()
        else:
            outcome = judge(
                execution,
                rules_of(self.case),
                compiled.failing_pass,
                flaky=compiled.disagreements > 0,
            )
        if self.case.script is not None:
            outcome = reason_script_skips(execution) or outcome
        if isinstance(outcome, Passed):
            above = judge_thresholds(self.case, compiled.metrics, Stage.COMPILE)
            return above or outcome
        return outcome

    def _judge_run(self, run: RunTask, ran: Record) -> Outcome:
        """Judge a run by its thresholds if it succeeded, else by its failure, with the
        operation that computes a wrong result.
        """
        if ran.execution.ok:
            above = judge_thresholds(self.case, ran.metrics, Stage.BENCHMARK)
            return above or Passed()
        outcome = judge_run(
            ran.execution,
            rules_of(self.case),
            run.runner,
            ran.metrics,
            flaky=ran.disagreements > 0,
        )
        program, digest = self.prepared.path, self.prepared.digest
        function = run.spec.function
        return with_operator(
            outcome, lambda result: operator_in(program, digest, function, result)
        )


def probe_not_made(
    case: Case,
    toolchain: Toolchain,
    outcome: NoAnswer | Failed,
    *,
    cached: bool = False,
) -> Probe:
    """Return the probe of a case that is not compiled, with the reason as outcome."""
    return Probe(
        case, toolchain.revision, toolchain.version, outcome, Measured(), cached
    )


def usable_memory_mb() -> float:
    """Return the MiB that compiles may use together."""
    return memory().available * _USABLE / (1 << 20)


class Capacity:
    """How many compiles run on this machine at once, and their memory."""

    def __init__(self, slots: int) -> None:
        self.memory_mb = usable_memory_mb()
        self._slots = slots
        self._reserved: list[float] = []
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, needed_mb: float) -> Iterator[None]:
        """Wait until there is room. A compile that needs more than the whole memory
        runs alone.
        """
        reserved = self._reserved

        def has_room() -> bool:
            if not reserved:
                return True
            fits = sum(reserved) + needed_mb <= self.memory_mb
            return fits and len(reserved) < self._slots

        with self._changed:
            self._changed.wait_for(has_room)
            reserved.append(needed_mb)
        try:
            yield
        finally:
            with self._changed:
                reserved.remove(needed_mb)
                self._changed.notify_all()


class Cluster(Protocol):
    """Other machines that make tasks."""

    def slots(self) -> int:
        """Return how many tasks they make at once."""
        ...

    def make(
        self, task: Task, needed_mb: float, stop: StopSignal
    ) -> list[Record] | NoAnswer | None:
        """Return the records of a task, or why there are none. None if only this
        machine can make it.
        """
        ...


@dataclass
class Maker:
    """Makes tasks. Safe for several threads."""

    home: Home
    cache: ResultCache
    stop: threading.Event
    slots: InitVar[int]
    """How many compiles run on this machine at once."""
    warn: Callable[[str], None] = lambda _: None
    """Receives what the user must know about a compiler's own output."""
    cluster: Cluster | None = None
    is_dry: bool = False
    """Compile nothing: raise EnvironmentFailure instead."""
    _warned: set[tuple[str, ...]] = field(default_factory=set)

    def __post_init__(self, slots: int) -> None:
        self.scratch = Scratch(self.home.scratch, self.warn)
        self.capacity = Capacity(slots)

    def cached_probe(self, task: Task | Probe) -> Probe | None:
        """Return the probe of a task if the cache has all its records, else None; one
        that could not be planned is returned as it is.
        """
        if isinstance(task, Probe):
            return task
        key, run_key = task.keys
        if run_key is None:
            return task.probe(self.cache.find(key), cached=True)
        return task.probe(*self.cache.find_all(key, run_key), cached=True)

    def run(
        self,
        task: Task | Probe,
        stop: StopSignal | None = None,
        on_output: Callable[[Path], object] | None = None,
        *,
        fresh: bool = False,
        here: bool = False,
    ) -> Probe:
        """Return the probe of a task: from the cache unless `fresh` is set, else make
        it and keep the records for which the machine is not to blame.

        With `here`, no cluster is used. `on_output` receives the path of what the
        compile wrote, before it is removed. Raises Interrupted when a stop signal is
        set; nothing is recorded then.
        """
        if isinstance(task, Probe):
            return task
        if not fresh:
            cached = self.cached_probe(task)
            if cached:
                return cached
        if self.is_dry:
            raise EnvironmentFailure("a dry run compiles nothing")
        records: list[Record] | NoAnswer | None = None
        needed_mb = self.reservation(task.case)
        if self.cluster and not (here or on_output):
            records = self.cluster.make(task, needed_mb, AnyOf(self.stop, stop))
        if records is None:
            with self.capacity.reserve(needed_mb):
                records = self.make(task, stop, on_output)
        if isinstance(records, NoAnswer):
            return probe_not_made(task.case, task.toolchain, records)
        if task.has_changed():
            changed = NoAnswer(Cause.ENVIRONMENT, "a file changed while it was read")
            return probe_not_made(task.case, task.toolchain, changed)
        probe = task.probe(*records, cached=False)
        assert probe  # every stage has a record
        if probe.outcome.cause in OF_MACHINE:
            records = records[:-1]
        self.cache.add(*records)
        return probe

    def reservation(self, case: Case) -> float:
        """Return the MiB to set aside: what the case used last time with some headroom,
        else its whole limit.
        """
        limit = case.limits.memory / (1 << 20)
        last = self.cache.last_peak_mb(case.name)
        if last:
            return min(limit, max(_LEAST_MB, last * _HEADROOM))
        return limit

    def make(
        self,
        task: Task,
        stop: StopSignal | None = None,
        on_output: Callable[[Path], object] | None = None,
    ) -> list[Record]:
        """Compile here, run the program if there is one, and return a record of each;
        see `run`.
        """
        rules_of(task.case)  # reports mistakes in them before anything is compiled
        either = AnyOf(self.stop, stop)
        ran: list[tuple[Execution, int]] = []

        def agreement(execution: Execution) -> str:
            return agreement_of(execution, task.case)

        def use(module: Path) -> None:
            """Run the program while its file exists; the last compile counts."""
            if isinstance(task.run, RunTask):
                is_measured = task.run.spec.measured
                with self._measuring_lock() if is_measured else nullcontext():
                    execution, disagreements = task.run.make(module, either, agreement)
                execution = self._with_refusal(
                    task,
                    execution,
                    task.run.seal(module),
                    partial(task.run.start, module, either, reads_all=True),
                )
                ran.append((execution, disagreements))
            if on_output:
                on_output(module)

        if task.naming is None:
            compiled = self._compile_surely(task, either, use)
        else:
            compiled = self._compile_once(task, either, use)
        execution = self._with_refusal(
            task,
            compiled.execution,
            task.seal,
            lambda: self.compile(task, either, reads_all=True),
        )
        records = [replace(compiled, execution=execution)]
        for execution, disagreements in ran[-1:]:
            key = task.run_key or ""
            record = task.record(key, execution, disagreements=disagreements)
            records.append(record)
        return records

    def _with_refusal(
        self,
        task: Task,
        execution: Execution,
        seal: Seal,
        start: Callable[[], Execution],
    ) -> Execution:
        """Return an execution that failed with what its seal refused, if that is why.

        If the output names no path, the program is started once more and may read
        everything. If it fails all the same, the seal is not why.
        """
        refused = what_was_refused(execution, seal)
        if refused is None or not task.sealed:
            return execution
        if not refused.startswith("/"):
            agreements = {agreement_of(run, task.case) for run in (execution, start())}
            if len(agreements) == 1:
                return execution
        return replace(execution, refused=refused)

    def _compile_surely(
        self, task: Task, stop: StopSignal, use: Callable[[Path], None]
    ) -> Record:
        """Compile up to three times until the ending is sure. If the failure needs the
        name of its pass, compile once more, printing it.
        """
        same, disagreements = agreeing_runs(
            lambda: self.compile(task, stop, on_output=use),
            lambda execution: execution.ending not in _REPEATED,
            lambda execution: agreement_of(execution, task.case),
        )
        execution, failing_pass = same[0], None
        if execution.ending is Ending.SIGNALLED:
            execution = self._identifying_crash(task, same, stop)
        elif needs_pass(execution, rules_of(task.case)):
            reporting = task.with_pass_reporting()
            if reporting != task:
                _, failing_pass = self._compile_naming(reporting, stop)
        return task.record(task.key, execution, failing_pass, disagreements)

    def _compile_once(
        self, task: Task, stop: StopSignal, use: Callable[[Path], None]
    ) -> Record:
        reporting = task.with_pass_reporting()
        if task.naming is Naming.AT_ONCE and reporting != task:
            execution, failing_pass = self._compile_naming(reporting, stop, use)
            return task.record(task.key, execution, failing_pass)
        return task.record(task.key, self.compile(task, stop, on_output=use))

    def _compile_naming(
        self,
        reporting: Task,
        stop: StopSignal,
        use: Callable[[Path], None] | None = None,
    ) -> tuple[Execution, PassName]:
        """Compile with options that print the failing pass. Return the execution and
        that pass, `NO_PASS` if none was printed.
        """
        from triage.classify import PassScanner  # slow to import

        scanner = PassScanner()
        execution = self.compile(reporting, stop, on_stderr=scanner.feed, on_output=use)
        return execution, scanner.finish() or NO_PASS

    def compile(
        self,
        task: Task,
        stop: StopSignal | None = None,
        *,
        on_stderr: Callable[[bytes], None] | None = None,
        on_output: Callable[[Path], object] | None = None,
        writes: tuple[Path, ...] = (),
        reads_all: bool = False,
    ) -> Execution:
        """Compile once in a folder of its own. on_stderr: receives standard error as it
        arrives; writes: further folders that it may write to; reads_all: it may read
        everything; see `run`.
        """
        with self.scratch.folder() as folder:
            output, counted = folder / "out", folder / "statistics.json"
            kernels = task.compiler.kernels if task.counts_dispatches else None
            argv = task.argv(output)
            if kernels:
                argv += kernels.count_options(counted)
            seal = replace(task.seal, writes=writes)
            execution = run(
                argv,
                task.case.limits,
                folder,
                seal=seal.reading_all() if reads_all else seal,
                env=task.env,
                stop=stop or self.stop,
                on_stderr=on_stderr,
            )
            execution = with_named_stack(execution)
            size = regular_size(output) if execution.ok else None
            # the exit status alone is what a user's script says
            must_write = task.invocation.has_output and task.case.script is None
            if execution.ok and must_write and not size:
                execution = replace(execution, ending=Ending.NO_OUTPUT)
            if kernels and is_regular(counted):
                count = kernels.kernel_count(counted.read_text("utf-8", "replace"))
            else:
                count = None
            if on_output and size:
                on_output(output)
        facts = reported_facts(execution)
        if count is None:
            dispatches = {}
        else:
            dispatches = {DISPATCHES: float(count)}
        if facts.ignored and facts.ignored not in self._warned:
            self._warned.add(facts.ignored)
            names = ", ".join(map(repr, facts.ignored))
            place = f"{task.case.name} on {task.toolchain.revision.name}"
            self.warn(f"{place}: metrics that are not finite numbers: {names}; ignored")
        return replace(
            execution,
            output_bytes=size,
            phase=facts.phase,
            metrics={**facts.metrics, **dispatches},
        )

    def _identifying_crash(
        self, task: Task, runs: Sequence[Execution], stop: StopSignal
    ) -> Execution:
        """Return the crash that identifies the failure. Threads that crash at different
        places print different stacks; then the case is compiled once more on one
        thread, and that stack counts.
        """
        single, rules = task.on_one_thread(), rules_of(task.case)
        signatures = {signature_of(judge(run, rules)) for run in runs}
        if single != task and len(signatures) > 1:
            again = self.compile(single, stop)
            if again.signal == runs[0].signal:
                return again
        return runs[0]

    @contextmanager
    def _measuring_lock(self) -> Iterator[None]:
        """Lock measured runs: no process that uses this home measures meanwhile."""
        lock = self.home.measuring_lock
        with ExitStack() as held:
            with suppress(OSError):  # a file system without locks
                held.enter_context(lock_file(lock, fcntl.LOCK_EX, self.stop))
            yield


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Set as soon as one of two stop signals is."""

    first: StopSignal
    second: StopSignal | None

    def is_set(self) -> bool:
        return self.first.is_set() or (self.second is not None and self.second.is_set())


def agreement_of(execution: Execution, case: Case) -> str:
    """Return what two runs must have in common to agree.

    For a crash, only the signal: with several threads the stack differs from run to
    run.
    """
    if execution.ending is Ending.SIGNALLED:
        return f"signal {execution.signal}"
    outcome = judge(execution, rules_of(case))
    if isinstance(outcome, NoAnswer):
        return outcome.cause
    return signature_of(outcome)


def signature_of(outcome: Outcome) -> str:
    """Return what is the same for outcomes that do not contradict each other."""
    if isinstance(outcome, Failed):
        return outcome.failure.signature
    return ""
