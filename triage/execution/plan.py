"""Plan the task of a case on a toolchain: prepare its input, compile its libraries, compute what its reference expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.compilers.base import Compiler, mlir_tools
from triage.compilers.values import file_value
from triage.execution.files import KeptFiles, Prepared
from triage.execution.inputs import FailedImport, Inputs
from triage.execution.make import AnyOf, Maker
from triage.execution.onnx_models import compute_reference, reference_key
from triage.execution.process import StopSignal
from triage.execution.run_task import READS_UNWRITTEN, RunTask, plan_run
from triage.execution.task import Naming, Task, unmade
from triage.model.case import Case, Flag, InputKind, Library, Reference
from triage.model.errors import TriageError
from triage.model.execution import Stage
from triage.model.outcome import Cause, Compiled, Failed, Probe, Untestable
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRegistry


@dataclass
class Planner:
    """Plans tasks. Safe for several threads."""

    registry: ToolchainRegistry
    compilers: Mapping[str, Compiler]
    inputs: Inputs
    maker: Maker
    """Makes the tasks that other tasks need."""
    _kept: KeptFiles = field(default_factory=KeptFiles)

    def plan(self, case: Case, toolchain: Toolchain) -> Task | Probe:
        """Return the task of a case, or the probe that says why there is nothing to compile."""
        prepared = self._prepared(case, toolchain)
        if isinstance(prepared, FailedImport):
            return unmade(case, toolchain, prepared.outcome, cached=prepared.cached)
        if isinstance(prepared, Untestable):
            return unmade(case, toolchain, prepared)
        try:
            resolved = replace(case, run=case.run.with_arguments()) if case.run else case
        except ValueError as error:
            return unmade(case, toolchain, Untestable(Cause.RECIPE, str(error)))
        compiler = self.compilers[case.compiler]
        invocation = compiler.invocation(case, toolchain)
        if isinstance(invocation, Untestable):
            return unmade(case, toolchain, invocation)
        return Task(case, toolchain, compiler, prepared, invocation, self._planned_run(resolved, toolchain))

    def input_of(self, case: Case, toolchain: Toolchain | None = None) -> Prepared | Untestable:
        """Return the file that the compiler reads for a case, or why there is none. toolchain: imports an ONNX model."""
        prepared = self._prepared(case, toolchain)
        return not_imported(prepared.outcome) if isinstance(prepared, FailedImport) else prepared

    def _prepared(self, case: Case, toolchain: Toolchain | None) -> Prepared | Untestable | FailedImport:
        tools = None
        if toolchain is not None and case.input.kind is InputKind.ONNX:
            tools = mlir_tools(self.compilers[toolchain.family], toolchain)
        return self.inputs.prepare(case, toolchain, tools.python_root if tools else None)

    def _planned_run(self, case: Case, toolchain: Toolchain) -> RunTask | Untestable | Failed | None:
        """Return the run of a case with all its files, or why it cannot be run."""
        if (spec := case.run) is None:
            return None
        if (problem := self.inputs.obtain(spec.artifacts)) is not None:
            return problem
        libraries = []
        for library in spec.libraries:
            module = self._library(case, library, toolchain)
            if not isinstance(module, Prepared):
                return module
            libraries.append(module.path)
        if spec.reference:
            expected = self.reference_results(case, toolchain, spec.reference)
            if isinstance(expected, Untestable):
                return expected
            spec = replace(spec, expected=expected)
        if (runner := self.compilers[case.compiler].run) is None:
            return Untestable(Cause.TOOLCHAIN, f"{case.compiler} has nothing that runs compiled programs here")
        values = self.registry.home / "values"
        return plan_run(case, spec, toolchain, runner, self.registry.runtime, values, libraries)

    def _library(self, case: Case, library: Library, toolchain: Toolchain) -> Prepared | Untestable | Failed:
        """Return the compiled file of a library, compiled once for each content, or why there is none."""
        plain = replace(
            case, input=library.input, flags=library.flags, artifacts=library.artifacts, run=None, thresholds=(), benchmarks=()
        )
        task = self.plan(plain, toolchain)
        if isinstance(task, Probe):
            return task.outcome if isinstance(task.outcome, Failed) else reason_of(task)

        def make(scratch: Path) -> Path | Untestable | Failed:
            target = scratch / "module"
            probe = self.maker.known(task)
            if probe is None or isinstance(probe.outcome, Compiled):
                probe = self.maker.run(task, on_output=lambda module: module.replace(target), fresh=True)
            return target if isinstance(probe.outcome, Compiled) else probe.outcome

        return self._kept.get(self.registry.home / "modules" / f"{task.key}.module", make)

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
        results = folder or self.registry.home / "results"
        if reference.onnxruntime:
            key = reference_key(case)
            if isinstance(key, Untestable):
                return key
            stop = AnyOf(self.maker.stop, cancelled)
            kept = self._kept.get(results / key, lambda scratch: compute_reference(case, scratch, stop))
        else:
            task = self._reference(case, toolchain, reference, is_strict=folder is not None)
            if isinstance(task, Untestable):
                return task
            place = results / (task.run_key or "")
            kept = self._kept.get(place, lambda scratch: self._referenced(task, scratch, made, cancelled))
        if isinstance(kept, Untestable):
            return kept
        return tuple(map(file_value, sorted(kept.path.iterdir(), key=lambda file: int(file.name.partition(".")[0]))))

    def _reference(self, case: Case, toolchain: Toolchain, reference: Reference, *, is_strict: bool) -> Task | Untestable:
        """Return the task that computes the results of a reference, or why there is none."""
        assert case.run is not None
        flags = case.flags if reference.flags is None else tuple(map(Flag, reference.flags))
        plain = replace(case, flags=flags, thresholds=(), run=replace(case.run, reference=None, expected=()))
        if reference.toolchain is not None:
            try:
                toolchain = self.registry.obtain(self.registry.resolve(reference.toolchain, case.compiler))
            except TriageError as error:
                return Untestable(Cause.TOOLCHAIN, f"cannot obtain the toolchain of the reference: {error}")
        task = self.plan(plain, toolchain)
        run = task.run if isinstance(task, Task) else task.outcome
        if not isinstance(task, Task) or not isinstance(run, RunTask):
            reason = run.reason if isinstance(run, Untestable) else "there is nothing to run"
            return Untestable(Cause.RECIPE, f"the reference cannot be run: {reason}")
        variant = "reference with defined results" if is_strict else "reference"
        return replace(task, variant=variant, naming=Naming.NEVER, run=replace(run, must_be_defined=is_strict))

    def _referenced(
        self, task: Task, scratch: Path, made: Callable[[Probe], None], cancelled: StopSignal | None
    ) -> Path | Untestable:
        """Return the folder with the results of a reference, unless it is known that there are none."""
        target = scratch / "results"
        assert isinstance(task.run, RunTask)
        problem = _reference_problem(self.maker.known(task))
        if problem is None:
            probe = self.maker.run(replace(task, run=replace(task.run, kept=target)), cancelled, fresh=True, here=True)
            made(probe)
            problem = _reference_problem(probe) or (None if any(target.iterdir()) else "returns nothing")
        return Untestable(Cause.RECIPE, f"the reference on {task.toolchain.revision.name} {problem}") if problem else target


def reason_of(probe: Probe) -> Untestable:
    """Return why there is nothing to compile."""
    if isinstance(probe.outcome, Failed):
        return not_imported(probe.outcome)
    assert isinstance(probe.outcome, Untestable)
    return probe.outcome


def not_imported(failed: Failed) -> Untestable:
    """Return why a model that cannot be imported has no input."""
    return Untestable(Cause.RECIPE, f"the model cannot be imported: {failed.failure.headline}", failed.failure)


def _reference_problem(probe: Probe | None) -> str | None:
    if probe is None:
        return None
    match probe.outcome:
        case Untestable(reason=reason):
            return f"cannot be tested: {reason}"
        case Failed(failure=failure):
            does = "compile" if failure.stage is Stage.COMPILE else "run"
            return f"does not {does}: {failure.headline}"
    return "reads memory that was never written to" if READS_UNWRITTEN in probe.measured.metrics else None
