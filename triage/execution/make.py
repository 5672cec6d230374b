"""Make tasks on this machine: compile under limits, run what was compiled, and repeat
what one execution does not prove.
"""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from triage.compilers.invocation import reported_facts
from triage.execution.cache import Record
from triage.execution.judge import (
    agreement_of,
    judge,
    needs_pass,
    rules_of,
    signature_of,
)
from triage.execution.metric import DISPATCHES
from triage.execution.reads import what_was_refused
from triage.execution.run_task import RunTask, agreeing_runs
from triage.execution.task import Naming, Task
from triage.model.execution import Ending, Execution
from triage.model.foreign_file import is_regular, regular_size
from triage.model.pass_name import NO_PASS, PassName
from triage.processes.crash_stack import with_named_stack
from triage.processes.process import StopSignal, run
from triage.processes.sealing import Seal
from triage.toolchains.home import disk_errors, lock_file, temporary_folder
from triage.toolchains.registry import ToolchainRegistry

# Endings that one execution does not prove.
_REPEATED = (Ending.SIGNALLED, Ending.TIMED_OUT, Ending.OVER_MEMORY, Ending.OVER_OUTPUT)

OnOutput = Callable[[Path], object]
"""Receives the path of what a compile wrote, before it is removed."""


class Maker:
    """Makes tasks. Safe for several threads."""

    def __init__(
        self,
        registry: ToolchainRegistry,
        stop: threading.Event,
        jobs: int,
    ) -> None:
        """Make up to `jobs` tasks at once, until `stop` is set."""
        self._registry, self._stop = registry, stop
        self._slots = threading.Semaphore(jobs)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a folder in which a process works, and remove it afterwards."""
        root = self._registry.home.scratch
        with disk_errors("make room for a compile"):
            root.mkdir(parents=True, exist_ok=True)
            with temporary_folder(root) as folder:
                yield folder

    def make(
        self, task: Task, stop: StopSignal, on_output: OnOutput | None = None
    ) -> list[Record]:
        """Compile, run the program if there is one, and return a record of each."""
        self._registry.workspace.refuse_if_dry("compile")
        rules_of(task.case)  # reports mistakes in them before anything is compiled
        ran: list[Record] = []

        def use(module: Path) -> None:
            """Run the program while its file exists; the last compile counts."""
            if isinstance(task.run, RunTask):
                ran[:] = [self._run_program(task, task.run, module, stop)]
            if on_output:
                on_output(module)

        with self._slots:
            compiled = self._compile_until_sure(task, stop, use)
            again = partial(self.compile, task, stop, reads_all=True)
            execution = _with_refusal(task, compiled.execution, task.seal, again)
        return [replace(compiled, execution=execution), *ran]

    def _run_program(
        self, task: Task, run: RunTask, module: Path, stop: StopSignal
    ) -> Record:
        """Run a compiled program. No process that uses this home measures while it is
        measured.
        """
        with ExitStack() as held:
            if run.spec.measured:
                lock = self._registry.home.measuring_lock
                with suppress(OSError):  # a file system without locks
                    held.enter_context(lock_file(lock, fcntl.LOCK_EX, self._stop))
            agreement = partial(agreement_of, task.case)
            execution, disagreements = run.make(module, stop, agreement)
        again = partial(run.start, module, stop, reads_all=True)
        execution = _with_refusal(task, execution, run.seal(module), again)
        return task.record(task.run_key or "", execution, disagreements=disagreements)

    def _compile_until_sure(
        self, task: Task, stop: StopSignal, use: OnOutput
    ) -> Record:
        """Compile a trial once, everything else up to three times until the ending is
        sure. If the failure needs the name of its pass, compile once more, printing it.
        """
        reporting = task.altered(lambda passes: passes.naming_failed_pass)
        can_report = reporting != task
        if task.naming is Naming.AT_ONCE and can_report:
            return task.record(task.key, *self._compile_naming(reporting, stop, use))
        start = partial(self.compile, task, stop, on_output=use)
        if task.naming:
            return task.record(task.key, start())
        same, disagreements = agreeing_runs(
            start,
            lambda execution: execution.ending not in _REPEATED,
            partial(agreement_of, task.case),
        )
        execution, failing_pass, rules = same[0], None, rules_of(task.case)
        if execution.ending is Ending.SIGNALLED:
            # threads that crash at different places print different stacks
            single = task.altered(lambda passes: passes.on_one_thread)
            stacks = {signature_of(judge(crash, rules)) for crash in same}
            if single != task and len(stacks) > 1:
                again = self.compile(single, stop)
                if again.signal == execution.signal:
                    execution = again
        elif can_report and needs_pass(execution, rules):
            _, failing_pass = self._compile_naming(reporting, stop)
        return task.record(task.key, execution, failing_pass, disagreements)

    def _compile_naming(
        self, task: Task, stop: StopSignal, use: OnOutput | None = None
    ) -> tuple[Execution, PassName]:
        """Compile with options that print the failing pass. Return the execution and
        that pass, `NO_PASS` if none was printed.
        """
        from triage.classify import PassScanner  # slow to import

        scanner = PassScanner()
        execution = self.compile(task, stop, on_stderr=scanner.feed, on_output=use)
        return execution, scanner.finish() or NO_PASS

    def compile(
        self,
        task: Task,
        stop: StopSignal,
        *,
        on_stderr: Callable[[bytes], None] | None = None,
        on_output: OnOutput | None = None,
        writes: tuple[Path, ...] = (),
        reads_all: bool = False,
    ) -> Execution:
        """Compile once in a folder of its own; with `reads_all`, it may read
        everything.
        """
        seal = replace(task.seal, writes=writes)
        if reads_all:
            seal = seal.reading_all()
        kernels = task.compiler.kernels if task.counts_dispatches else None
        metrics: dict[str, float] = {}
        with self.folder() as folder:
            output, counted = folder / "out", folder / "statistics.json"
            argv = task.argv(output)
            if kernels:
                argv += kernels.count_options(counted)
            ended = run(
                argv,
                task.case.limits,
                folder,
                seal=seal,
                env=task.env,
                stop=stop,
                on_stderr=on_stderr,
            )
            execution = with_named_stack(ended)
            size = regular_size(output) if execution.ok else None
            # the exit status alone is what a user's script says
            must_write = task.invocation.has_output and task.case.script is None
            if execution.ok and must_write and not size:
                execution = replace(execution, ending=Ending.NO_OUTPUT)
            if kernels and is_regular(counted):
                count = kernels.kernel_count(counted.read_text("utf-8", "replace"))
                if count is not None:
                    metrics[DISPATCHES] = float(count)
            if on_output and size:
                on_output(output)
        facts = reported_facts(execution)
        metrics = {**facts.metrics, **metrics}
        return replace(execution, output_bytes=size, phase=facts.phase, metrics=metrics)


def _with_refusal(
    task: Task, execution: Execution, seal: Seal, start: Callable[[], Execution]
) -> Execution:
    """Return an execution that failed with what its seal refused, if that is why.

    If the output names no path, the program is started once more and may read
    everything. If it fails all the same, the seal is not why.
    """
    refused = what_was_refused(execution, seal)
    if refused is None or not task.sealed:
        return execution
    if refused.startswith("/"):
        return replace(execution, refused=refused)
    if agreement_of(task.case, execution) == agreement_of(task.case, start()):
        return execution
    return replace(execution, refused=refused)
