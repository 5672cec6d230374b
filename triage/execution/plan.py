"""Plan the task of a case on a toolchain: prepare its input, compile its libraries, compute what its reference expects."""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from triage.compilers.base import Compiler, mlir_tools
from triage.compilers.values import file_value
from triage.execution.inputs import FailedImport, Inputs, Prepared, verified, write_checksum
from triage.execution.judge import judge_import, rules_of
from triage.execution.make import AnyOf, Maker
from triage.execution.onnxruntime_reference import onnxruntime_results
from triage.execution.process import StopSignal
from triage.execution.run_task import READS_UNWRITTEN, RunTask, intact_results, plan_run
from triage.execution.task import Naming, Task, untestable
from triage.model.case import Case, Flag, InputKind, Library, Reference
from triage.model.errors import TriageError
from triage.model.execution import Stage
from triage.model.outcome import Cause, Compiled, Failed, Measured, Outcome, Probe, Untestable
from triage.model.revision import Toolchain
from triage.toolchains.home import disk_errors
from triage.toolchains.registry import ToolchainRegistry

_REFERENCE, _DEFINED_REFERENCE = "reference", "reference with defined results"


class Planner:
    """Plans tasks. Safe for several threads."""

    def __init__(self, registry: ToolchainRegistry, compilers: Mapping[str, Compiler], inputs: Inputs, maker: Maker) -> None:
        """Take what obtains toolchains and files, and `maker` for the tasks that other tasks need."""
        self._registry, self._compilers, self._inputs, self._maker = registry, compilers, inputs, maker
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # so that each file is made once

    def plan(self, case: Case, toolchain: Toolchain) -> Task | Probe:
        """Return the task of a case, or the probe that says why there is nothing to compile."""
        prepared = self._prepared(case, toolchain)
        if isinstance(prepared, FailedImport):
            outcome = judge_import(prepared.execution, rules_of(case))
            return Probe(case, toolchain.revision, toolchain.version, outcome, Measured(), cached=prepared.cached)
        if isinstance(prepared, Untestable):
            return untestable(case, toolchain, prepared)
        try:
            resolved = replace(case, run=case.run.with_arguments()) if case.run else case
        except ValueError as error:
            return untestable(case, toolchain, Untestable(Cause.RECIPE, str(error)))
        compiler = self._compilers[case.compiler]
        invocation = compiler.invocation(case, toolchain)
        if isinstance(invocation, Untestable):
            return untestable(case, toolchain, invocation)
        return Task(case, toolchain, compiler, prepared, invocation, self._planned_run(resolved, toolchain))

    def _prepared(self, case: Case, toolchain: Toolchain | None) -> Prepared | Untestable | FailedImport:
        tools = None
        if toolchain is not None and case.input.kind is InputKind.ONNX:
            tools = mlir_tools(self._compilers[toolchain.family], toolchain)
        return self._inputs.prepare(case, toolchain, tools.python_root if tools else None)

    def _planned_run(self, case: Case, toolchain: Toolchain) -> RunTask | Untestable | Failed | None:
        """Return the run of a case with all its files, or why it cannot be run."""
        if (spec := case.run) is None:
            return None
        if (problem := self._inputs.obtain(spec.artifacts)) is not None:
            return problem
        libraries = []
        for library in spec.libraries:
            module = self._library(case, library, toolchain)
            if not isinstance(module, Path):
                return module if isinstance(module, Untestable | Failed) else None
            libraries.append(module)
        if spec.reference:
            expected = self.reference_results(case, toolchain, spec.reference)
            if isinstance(expected, Untestable):
                return expected
            spec = replace(spec, expected=expected)
        if (runner := self._compilers[case.compiler].run) is None:
            return Untestable(Cause.TOOLCHAIN, f"{case.compiler} has nothing that runs compiled programs here")
        values = self._registry.home / "values"
        return plan_run(case, spec, toolchain, runner, self._registry.runtime, values, libraries)

    def _library(self, case: Case, library: Library, toolchain: Toolchain) -> Path | Outcome:
        """Return the compiled file of a library, compiled once for each content, or why there is none."""
        plain = replace(
            case, input=library.input, flags=library.flags, artifacts=library.artifacts, run=None, goldens=(), benchmarks=()
        )
        task = self.plan(plain, toolchain)
        if isinstance(task, Probe):
            return task.outcome
        target = self._registry.home / "modules" / f"{task.key}.module"

        def keep(module: Path) -> None:
            with disk_errors("keep a compiled program"):
                target.parent.mkdir(exist_ok=True)
                write_checksum(target, module)
                shutil.move(module, target)

        with self._locks[str(target)]:
            if verified(target) is not None:
                return target
            known = self._maker.known(task)
            if known is None or isinstance(known.outcome, Compiled):
                known = self._maker.made(task, on_output=keep)
        return target if isinstance(known.outcome, Compiled) else known.outcome

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

        folder: keeps the results; with it, results that depend on memory that was never written to are Untestable; made:
        receives the compile that was needed; cancelled: ends it early, with Interrupted.
        """
        assert case.run is not None
        results = folder or self._registry.home / "results"
        if reference.onnxruntime:
            return onnxruntime_results(case, results, self._maker.scratch, AnyOf(self._maker.stop, cancelled))
        flags = case.flags if reference.flags is None else tuple(map(Flag, reference.flags))
        plain = replace(case, flags=flags, goldens=(), run=replace(case.run, reference=None, expected=()))
        base = toolchain
        if reference.toolchain is not None:
            try:
                base = self._registry.obtain(self._registry.resolve(reference.toolchain, case.compiler))
            except TriageError as error:
                return Untestable(Cause.TOOLCHAIN, f"cannot obtain the toolchain of the reference: {error}")
        task = self.plan(plain, base)
        run = task.run if isinstance(task, Task) else task.outcome
        if not isinstance(task, Task) or not isinstance(run, RunTask):
            reason = run.reason if isinstance(run, Untestable) else "there is nothing to run"
            return Untestable(Cause.RECIPE, f"the reference cannot be run: {reason}")
        target = results / (task.run_key or "")
        variant, run = (_DEFINED_REFERENCE if folder else _REFERENCE), replace(run, kept=target, must_be_defined=bool(folder))
        task = replace(task, variant=variant, naming=Naming.NEVER, run=run)
        with self._locks[str(target)]:
            files = intact_results(target)
            problem = None if files else _reference_problem(self._maker.known(task))
            if not files and problem is None:
                probe = self._maker.made(task, cancelled)
                made(probe)
                files, problem = intact_results(target), _reference_problem(probe)
        if not files:
            return Untestable(Cause.RECIPE, f"the reference on {base.revision.name} {problem or 'returns nothing'}")
        return tuple(map(file_value, files))

    def input_of(self, case: Case, toolchain: Toolchain | None = None) -> Prepared | Untestable:
        """Return the file that the compiler reads for a case, or why there is none. toolchain: imports an ONNX model."""
        prepared = self._prepared(case, toolchain)
        if not isinstance(prepared, FailedImport):
            return prepared
        failure = judge_import(prepared.execution, rules_of(case)).failure
        return Untestable(Cause.RECIPE, f"the model cannot be imported: {failure.headline}", failure)


def _reference_problem(probe: Probe | None) -> str | None:
    """Return why a reference has no results; None when it has, or is not known."""
    if probe is None:
        return None
    match probe.outcome:
        case Untestable(reason=reason):
            return f"cannot be tested: {reason}"
        case Failed(failure=failure):
            does = "compile" if failure.stage is Stage.COMPILE else "run"
            return f"does not {does}: {failure.headline}"
    return "reads memory that was never written to" if READS_UNWRITTEN in probe.measured.metrics else None
