"""Probe one case on one toolchain: look up the cache, run, repeat what is doubtful, name the failing pass, record."""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path

from triage.classify import NO_PASS, PassScanner
from triage.compilers.base import Compiler, MlirTools
from triage.compilers.invocation import Invocation
from triage.execution.artifacts import Artifacts, Download
from triage.execution.cache import Record, ResultCache
from triage.execution.claims import Claims
from triage.execution.compile_runs import CompileRuns, result_of, state_of
from triage.execution.compile_task import CompileTask
from triage.execution.crash_stack import lacks_names
from triage.execution.inputs import FailedImport, Inputs, Prepared, verified, write_checksum
from triage.execution.judge import judge_import, rules_of
from triage.execution.onnxruntime_reference import onnxruntime_results
from triage.execution.process import StopSignal
from triage.execution.result_files import intact_results, keep_results
from triage.execution.run_stage import RunPlanner, RunTask
from triage.execution.scratch import Scratch
from triage.model.case import Case, Flag, InputKind, Library, Reference, RunSpec
from triage.model.errors import TriageError
from triage.model.execution import Ending, Execution, Stage
from triage.model.outcome import Cause, Compiled, Failed, Measured, Probe, Untestable
from triage.model.revision import Toolchain
from triage.toolchains.home import disk_errors

_FOOTPRINT = "footprint 1"  # increase the number when the IR is read in another way
_REFERENCE, _DEFINED_REFERENCE = "reference", "reference with defined results"  # marks of a compile
_READS_UNWRITTEN = "reads_unwritten"  # the metric of a run whose results depend on memory that was never written to


class Naming(StrEnum):
    """Whether a trial finds out which pass failed. AT_ONCE: the run itself prints its passes, on one thread, so that a
    crash has the same stack each time; only a crash whose stack has no symbols is run again.
    """

    NEVER = "never"
    AT_ONCE = "at once"


@dataclass(frozen=True, slots=True)
class Trial:
    """A single compile, as a search among many programs makes it. attempt: number of the repetition."""

    naming: Naming
    attempt: int = 0

    @property
    def mark(self) -> str:
        """What distinguishes its result from others of the same compile."""
        return f"trial {self.attempt} {self.naming}"


class Prober:
    """Runs cases and records them in the evidence. Safe for several threads."""

    def __init__(
        self,
        home: Path,
        compilers: Mapping[str, Compiler],
        evidence: ResultCache,
        inputs: Inputs,
        stop: threading.Event,
        *,
        runtime: Callable[[Toolchain, str], Path],
        toolchain_of: Callable[[str, str], Toolchain],
        download: Download,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """runtime: the folder of a package that belongs to a toolchain; toolchain_of: a REV and its family -> toolchain;
        download: obtains a file of a suite; warn: receives what the user must know about a compiler's own output.
        """
        self.compilers = compilers
        self.runs = RunPlanner(lambda family: compilers[family].runner(), runtime, home / "values")
        self._toolchain_of = toolchain_of
        self._results = home / "results"
        self._evidence = evidence
        self._inputs = inputs
        self._stop = stop
        self._scratch = Scratch(home / "scratch", warn)
        self._claims = Claims(home / "claims.lock", stop)
        self._artifacts = Artifacts(download, self._claims)
        self._modules = home / "modules"
        self._compiles = CompileRuns(self._scratch, stop, warn)

    def probe(self, case: Case, toolchain: Toolchain, *, fresh: bool = False, after: int = 0) -> Probe:
        """Return the outcome of a case on a toolchain, from the evidence where it is known, unless `fresh`.

        after: number of the last cached result to ignore.

        Raises Interrupted when the stop signal is set; nothing is recorded then.
        """
        task = self.plan(case, toolchain)
        if isinstance(task, Probe):
            return task
        if fresh:
            return self._executed(task)
        if known := self.known(task, after):
            return known
        with self._claims.claim(task.key()):
            return self.known(task, after) or self._executed(task)

    def _executed(self, task: CompileTask) -> Probe:
        """Compile a task, run what was compiled where the case asks for it, and record both."""
        return self._compiled_and_run(task, task.key(), self._stop, partial(self._compiles.until_sure, task))

    def plan(self, case: Case, toolchain: Toolchain) -> CompileTask | Probe:
        """Return the compile of a case, or the probe that says why there is nothing to compile."""
        task = self._task(case, toolchain)
        return task if isinstance(task, CompileTask) else _not_compiled(case, toolchain, task)

    def known(self, task: CompileTask, after: int = 0, key: str | None = None) -> Probe | None:
        """Return the outcome of a planned compile, and of its run, from the evidence; None when one of them is unknown.

        after: see `probe`; key: of the compile, if it is not that of a probe.
        """
        key = key or task.key()
        compiled = self._evidence.find(key, after)
        if compiled is None or lacks_names(compiled.execution):
            return None
        return self.judged(task, compiled, lambda run_key: self._evidence.find(run_key, after), key)

    def recall(self, case: Case, toolchain: Toolchain, after: int = 0) -> Probe | None:
        """Return what the evidence knows of a case on a toolchain; None when that is nothing. Compiles nothing."""
        task = self.plan(case, toolchain)
        return task if isinstance(task, Probe) else self.known(task, after)

    def judged(
        self, task: CompileTask, compiled: Record, ran: Callable[[str], Record | None], key: str | None = None
    ) -> Probe | None:
        """Return the outcome of a compile and of its run, from their records; None when `ran` has none of a run key."""
        probe = task.probe(compiled, cached=True)
        if not isinstance(probe.outcome, Compiled) or task.run is None:
            return probe
        if not isinstance(task.run, RunTask):
            return replace(probe, outcome=task.run)
        record = ran(task.run.key(key or task.key()))
        return task.ran(record, probe, cached=True) if record else None

    def _compiled_and_run(
        self, task: CompileTask, key: str, stop: StopSignal, compile_: Callable[[Callable[[Path], None] | None], Record]
    ) -> Probe:
        """Compile a task, run what comes out, and record both. compile_: receives what to do with the output."""
        run_task, ran = task.run, list[tuple[Execution, int]]()

        def run_compiled(module: Path) -> None:
            if isinstance(run_task, RunTask):
                # Nothing else is measured meanwhile, by any process that uses this home.
                with self._claims.claim("measured run") if run_task.spec.measured else nullcontext():
                    ran.append(run_task.execute(module, module.parent, stop, partial(result_of, case=task.case)))

        probe = self._recorded(task, compile_(run_compiled if isinstance(run_task, RunTask) else None))
        if not isinstance(probe.outcome, Compiled) or run_task is None:
            return probe
        if not isinstance(run_task, RunTask):
            return replace(probe, outcome=run_task)
        execution, disagreements = ran[-1]
        run_record = replace(task.record(run_task.key(key), execution, None), disagreements=disagreements)
        return self._recorded(task, run_record, probe)

    def trial(
        self, case: Case, toolchain: Toolchain, naming: Naming, *, attempt: int = 0, cancelled: StopSignal | None = None
    ) -> Probe:
        """Compile a case once, without repeating doubtful endings, run it where it is run, and record it apart from probes.

        This is for a search that tries many programs and probes only its result in full. attempt: number of the
        repetition, each is cached by itself; cancelled: ends the run early, with Interrupted.
        """
        task = self.plan(case, toolchain)
        if isinstance(task, Probe):
            return task
        key = task.key(Trial(naming, attempt).mark)
        if known := self.known(task, key=key):
            return known
        stop = _AnyOf(self._stop, cancelled)
        if naming is Naming.NEVER:
            return self._compiled_and_run(
                task, key, stop, lambda output: task.record(key, self._compiles.run(task, stop, on_output=output), None)
            )
        scanner = PassScanner()
        reporting = task.with_pass_reporting()
        execution = self._compiles.run(reporting, stop, on_stderr=scanner.feed)
        failing_pass = scanner.finish() or (None if reporting == task else NO_PASS)
        return self._recorded(task, task.record(key, execution, failing_pass))

    def footprint(self, case: Case, toolchain: Toolchain) -> Mapping[str, float]:
        """Return the resources that a compiled case needs on its target, such as shared memory.

        They are read from the IR of one more compile and recorded. Empty when the family's IR does not show them or that
        compile fails.
        """
        task, ir = self._task(case, toolchain), self.compilers[case.compiler].ir()
        phase = ir.footprint_phase(toolchain, case.phase) if ir else None
        if not isinstance(task, CompileTask) or ir is None or phase is None:
            return {}
        key = task.key(_FOOTPRINT)
        if known := self._evidence.find(key):
            return {name: known.metrics[name] for name in known.metrics if name != "artifact_bytes"}
        numbers: dict[str, float] = {}
        execution = self._compiles.run(
            replace(task, invocation=ir.up_to(task.invocation, phase)),
            on_output=lambda printed: numbers.update(ir.footprint(printed, case.target.backend)),
        )
        if numbers:
            self._evidence.add(task.record(key, replace(execution, metrics=numbers, output_bytes=None), None))
        return numbers

    def recorded(self, case: Case, toolchain: Toolchain) -> tuple[Invocation, Execution] | None:
        """Return the invocation of a probed case, and the execution of its last stage; None when nothing is recorded."""
        task = self._task(case, toolchain)
        if not isinstance(task, CompileTask):
            return None
        known = self._evidence.find(task.key())
        ran = self._evidence.find(task.run.key(task.key())) if isinstance(task.run, RunTask) else None
        return (task.invocation, (ran or known).execution) if known else None

    def run_command(self, case: Case, toolchain: Toolchain, values: RunSpec, module: str) -> tuple[str, ...]:
        """Return the command that runs what a case compiles to, with other values; empty when it is not run."""
        task = self._task(case, toolchain)
        if not isinstance(task, CompileTask) or not isinstance(task.run, RunTask):
            return ()
        runner = task.run.runner
        options = [*task.run.options, *runner.value_options(values.inputs, values.expected)]
        return tuple(runner.argv(Path(task.run.program.name), Path(module), options))

    def is_unsteady(self, case: Case, toolchain: Toolchain) -> bool:
        """Return whether the same compile, or the same run of its program, ended in different ways at different times."""
        task = self._task(case, toolchain)
        if not isinstance(task, CompileTask):
            return False
        records = [record for record in self._evidence.all(task.key()) if not lacks_names(record.execution)]
        compiled = [task.probe(record, cached=True) for record in records]
        probes = compiled
        if compiled and isinstance(task.run, RunTask):
            ran = self._evidence.all(task.run.key(task.key()))
            probes = [*compiled, *(task.ran(record, compiled[0], cached=True) for record in ran)]
            probes = [probe for probe in probes if probe not in compiled or not isinstance(probe.outcome, Compiled)]
        states = {state_of(probe.outcome) for probe in probes if not isinstance(probe.outcome, Untestable)}
        return len(states) > 1 or any(isinstance(probe.outcome, Failed) and probe.outcome.flaky for probe in probes)

    def output(self, case: Case, toolchain: Toolchain) -> str | None:
        """Return what the compiler printed for a case or, where it compiled, what its program printed; None when nothing is
        recorded.
        """
        task = self._task(case, toolchain)
        if not isinstance(task, CompileTask) or (known := self._evidence.find(task.key())) is None:
            return None
        if known.execution.ok and isinstance(task.run, RunTask):
            known = self._evidence.find(task.run.key(task.key())) or known
        return known.execution.stdout.text + known.execution.stderr.text

    def input_of(self, case: Case, toolchain: Toolchain | None = None) -> Prepared | Untestable:
        """Return the file that the compiler reads for a case, or why there is none. toolchain: imports an ONNX model."""
        prepared = self._prepared(case, toolchain)
        return prepared if isinstance(prepared, Prepared) else _untestable(prepared, case)

    def mlir_tools(self, case: Case, toolchain: Toolchain) -> MlirTools | None:
        """Return the toolchain's tools for reading MLIR; None where it has none."""
        return self.compilers[case.compiler].mlir_tools(toolchain)

    def command_line(self, case: Case, toolchain: Toolchain) -> str:
        """Return what `probe` would run as a shell line; a comment with the reason where it would run nothing."""
        task = self._task(case, toolchain)
        if not isinstance(task, CompileTask):
            return f"# {case.name} on {toolchain.revision.name}: {_untestable(task, case).reason}"
        variables = [f"{name}={value}" for name, value in task.env.items() if value is not None]
        return shlex.join([*variables, *task.argv(Path(os.devnull))])

    def observe(
        self,
        case: Case,
        toolchain: Toolchain,
        alter: Callable[[Invocation], Invocation],
        *,
        on_stderr: Callable[[bytes], None] | None = None,
        on_output: Callable[[Path], None] | None = None,
    ) -> Execution | Untestable:
        """Run the case's invocation as `alter` changes it; nothing is looked up or recorded.

        on_stderr: receives standard error as it arrives; on_output: receives the path of what a successful run wrote,
        before it is removed. Untestable when there is nothing to run. Raises Interrupted as `probe` does.
        """
        task = self._task(case, toolchain)
        if not isinstance(task, CompileTask):
            return _untestable(task, case)
        altered = replace(task, invocation=alter(task.invocation))
        return self._compiles.run(altered, on_stderr=on_stderr, on_output=on_output)

    def _prepared(self, case: Case, toolchain: Toolchain | None) -> Prepared | Untestable | FailedImport:
        if (problem := self._artifacts.obtain(case.artifacts)) is not None:
            return problem
        tools = None
        if toolchain is not None and case.input.kind is InputKind.ONNX:
            tools = self.compilers[toolchain.family].mlir_tools(toolchain)
        return self._inputs.prepare(case, toolchain, tools.python_root if tools else None)

    def _task(self, case: Case, toolchain: Toolchain) -> CompileTask | Untestable | FailedImport:
        prepared = self._prepared(case, toolchain)
        if not isinstance(prepared, Prepared):
            return prepared
        try:
            resolved = replace(case, run=case.run.with_arguments()) if case.run else case
        except ValueError as error:
            return Untestable(Cause.RECIPE, str(error))
        compiler = self.compilers[case.compiler]
        invocation = compiler.invocation(case, toolchain)
        if isinstance(invocation, Untestable):
            return invocation
        planned = self._planned_run(resolved, toolchain)
        return CompileTask(case, toolchain, compiler, prepared, invocation, planned)

    def _planned_run(self, case: Case, toolchain: Toolchain) -> RunTask | Untestable | Failed | None:
        """Return the run of a case with all its files, or why it cannot be run."""
        libraries = []
        if case.run is not None:
            if (problem := self._artifacts.obtain(case.run.artifacts)) is not None:
                return problem
            for library in case.run.libraries:
                module = self._compiled(case, library, toolchain)
                if not isinstance(module, Path):
                    return module
                libraries.append(module)
        return self.runs.plan(case, toolchain, partial(self.reference_results, case, toolchain), libraries)

    def _compiled(self, case: Case, library: Library, toolchain: Toolchain) -> Path | Untestable | Failed:
        """Return the compiled file of a library, compiled once for each content, or why there is none."""
        plain = replace(
            case, input=library.input, flags=library.flags, artifacts=library.artifacts, run=None, goldens=(), benchmarks=()
        )
        task = self._task(plain, toolchain)
        if not isinstance(task, CompileTask):
            outcome = _not_compiled(plain, toolchain, task).outcome
        else:
            target = self._modules / f"{task.key()}.vmfb"

            def keep(module: Path) -> None:
                with disk_errors("keep a compiled program"):
                    self._modules.mkdir(exist_ok=True)
                    write_checksum(target, module)
                    shutil.move(module, target)

            with self._claims.claim(f"module {task.key()}"):
                if verified(target) is not None:
                    return target
                known = self.known(task)
                if known is None or isinstance(known.outcome, Compiled):
                    known = self._recorded(task, self._compiles.until_sure(task, keep))
            outcome = known.outcome
        return target if isinstance(outcome, Compiled) else outcome

    def obtain(self, run: RunSpec) -> Untestable | None:
        """Obtain the files of a run; return why one cannot be obtained."""
        return self._artifacts.obtain(run.artifacts)

    def reference_results(
        self,
        case: Case,
        toolchain: Toolchain,
        reference: Reference,
        *,
        folder: Path | None = None,
        made: Callable[[Probe], None] = lambda _: None,
        cancelled: StopSignal | None = None,
    ) -> tuple[str, ...] | Untestable:
        """Return the results of a case's reference, computed once for each content.

        folder: keeps the results; with it, results that depend on memory that was never written to are Untestable. made:
        receives the compile that was needed; cancelled: ends it early, with Interrupted.
        """
        assert case.run is not None
        stop = _AnyOf(self._stop, cancelled)
        if reference.onnxruntime:
            runner = self.compilers[case.compiler].runner()
            assert runner  # the case is run
            return onnxruntime_results(case, runner, folder or self._results, self._claims, self._scratch, stop)
        flags = case.flags if reference.flags is None else tuple(map(Flag, reference.flags))
        plain = replace(case, flags=flags, goldens=(), run=replace(case.run, reference=None, expected=()))
        base = toolchain
        if reference.toolchain is not None:
            try:
                base = self._toolchain_of(reference.toolchain, case.compiler)
            except TriageError as error:
                return Untestable(Cause.TOOLCHAIN, f"cannot obtain the toolchain of the reference: {error}")
        task = self._task(plain, base)
        run_task = task.run if isinstance(task, CompileTask) else task
        if not isinstance(task, CompileTask) or not isinstance(run_task, RunTask):
            reason = run_task.reason if isinstance(run_task, Untestable) else "there is nothing to run"
            return Untestable(Cause.RECIPE, f"the reference cannot be run: {reason}")
        target = (folder or self._results) / run_task.key(task.key())
        key = task.key(_DEFINED_REFERENCE if folder else _REFERENCE)
        name = f"the reference on {base.revision.name}"
        if (files := intact_results(target)) is None:
            with self._claims.claim(key):
                files, known = intact_results(target), self.known(task, key=key)
                if files is None and (known is None or _reference_problem(known) is None):
                    known = self._computed_reference(task, run_task, key, target, stop, made)
                    files = intact_results(target)
            if files is None:
                reason = (_reference_problem(known) if known else None) or "returns nothing"
                return Untestable(Cause.RECIPE, f"{name} {reason}")
        return tuple(run_task.runner.saved(file) for file in files)

    def _computed_reference(
        self, task: CompileTask, run_task: RunTask, key: str, target: Path, stop: StopSignal, made: Callable[[Probe], None]
    ) -> Probe:
        """Compile and run a reference, keep its results, and record why there are none."""
        ran: list[Execution] = []

        def keep(module: Path) -> None:
            execution, files = run_task.results(module, module.parent, stop)
            is_checked = execution.ok and key == task.key(_DEFINED_REFERENCE)
            if is_checked and not run_task.is_defined(module, files, module.parent, stop):
                execution = replace(execution, metrics={_READS_UNWRITTEN: 1.0})
            elif execution.ok:
                keep_results(files, target)
            ran.append(execution)

        compiled = task.record(key, self._compiles.run(task, stop, on_output=keep), None)
        probe = task.probe(compiled, cached=False)
        made(probe)
        records = [compiled, *(task.record(run_task.key(key), execution, None) for execution in ran)]
        if ran:
            probe = task.ran(records[-1], probe, cached=False)
        # One run does not prove that a program never ends.
        if records[-1].execution.ending is not Ending.TIMED_OUT and intact_results(target) is None:
            for record in records:
                self._recorded(task, record, probe if record is not compiled else None)
        return probe

    def _recorded(self, task: CompileTask, record: Record, compiled: Probe | None = None) -> Probe:
        """Judge a new record, and keep it unless the machine was to blame. `compiled`: set when it is the record of a run."""
        probe = task.ran(record, compiled, cached=False) if compiled else task.probe(record, cached=False)
        if not (isinstance(probe.outcome, Untestable) and probe.outcome.cause in (Cause.ENVIRONMENT, Cause.TOOLCHAIN)):
            self._evidence.add(record)
        return probe


@dataclass(frozen=True, slots=True)
class _AnyOf:
    """Set as soon as one of two stop signals is."""

    first: StopSignal
    second: StopSignal | None

    def is_set(self) -> bool:
        return self.first.is_set() or (self.second is not None and self.second.is_set())


def _reference_problem(probe: Probe) -> str | None:
    """Return why a reference has no results; None when it has."""
    match probe.outcome:
        case Untestable(reason=reason):
            return f"cannot be tested: {reason}"
        case Failed(failure=failure):
            does = "compile" if failure.stage is Stage.COMPILE else "run"
            return f"does not {does}: {failure.headline}"
    return "reads memory that was never written to" if _READS_UNWRITTEN in probe.measured.metrics else None


def _not_compiled(case: Case, toolchain: Toolchain, reason: Untestable | FailedImport) -> Probe:
    if isinstance(reason, Untestable):
        return Probe(case, toolchain.revision, toolchain.version, reason, Measured(), cached=False)
    outcome = judge_import(reason.execution, rules_of(case))
    return Probe(case, toolchain.revision, toolchain.version, outcome, Measured(), cached=reason.cached)


def _untestable(problem: Untestable | FailedImport, case: Case) -> Untestable:
    """Return why there is nothing to compile."""
    if isinstance(problem, Untestable):
        return problem
    failure = judge_import(problem.execution, rules_of(case)).failure
    return Untestable(Cause.RECIPE, f"the model cannot be imported: {failure.headline}", failure)
