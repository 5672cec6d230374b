"""Plan the task of a case on a toolchain: prepare its input, compile its libraries, compute what its reference expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.compilers.base import Compiler, mlir_tools
from triage.execution.files import KeptFiles, Prepared
from triage.execution.inputs import Inputs, NoTask, no_recipe
from triage.execution.make import AnyOf, Maker
from triage.execution.process import StopSignal
from triage.execution.reference import compiled_results, onnxruntime_key, onnxruntime_results, read_results
from triage.execution.run_task import RunTask, plan_run
from triage.execution.task import Task, unmade
from triage.model.case import Case, Flag, InputKind, Library, Reference
from triage.model.errors import TriageError
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
        try:
            return self._task(case, toolchain)
        except NoTask as error:
            return unmade(case, toolchain, error.outcome, cached=error.cached)

    def _task(self, case: Case, toolchain: Toolchain) -> Task:
        prepared, compiler = self._prepared(case, toolchain), self.compilers[case.compiler]
        try:
            resolved = replace(case, run=case.run.with_arguments()) if case.run else case
        except ValueError as error:
            raise no_recipe(str(error)) from None
        invocation = compiler.invocation(case, toolchain)
        if isinstance(invocation, Untestable):
            raise NoTask(invocation)
        run: RunTask | Untestable | Failed | None
        try:
            run = self._run(resolved, toolchain)
        except NoTask as error:
            run = error.outcome
        return Task(case, toolchain, compiler, prepared, invocation, run)

    def input_of(self, case: Case, toolchain: Toolchain | None = None) -> Prepared | Untestable:
        """Return the file that the compiler reads for a case, or why there is none. `toolchain` imports an ONNX model."""
        try:
            return self._prepared(case, toolchain)
        except NoTask as error:
            return without_task(error.outcome)

    def _prepared(self, case: Case, toolchain: Toolchain | None) -> Prepared:
        tools = None
        if toolchain is not None and case.input.kind is InputKind.ONNX:
            tools = mlir_tools(self.compilers[toolchain.family], toolchain)
        return self.inputs.prepare(case, toolchain, tools.python_root if tools else None)

    def _run(self, case: Case, toolchain: Toolchain) -> RunTask | None:
        """Return the run of a case with all its files. Raises NoTask if it cannot be run."""
        if (spec := case.run) is None:
            return None
        self.inputs.obtain(spec.artifacts)
        libraries = [self._library(case, library, toolchain) for library in spec.libraries]
        if spec.reference:
            spec = replace(spec, expected=self._expected(case, toolchain, spec.reference))
        if (runner := self.compilers[case.compiler].run) is None:
            problem = f"{case.compiler} has nothing that runs compiled programs here"
            raise NoTask(Untestable(Cause.TOOLCHAIN, problem))
        values = self.registry.home / "values"
        return plan_run(case, spec, toolchain, runner, self.registry.runtime, values, libraries)

    def _library(self, case: Case, library: Library, toolchain: Toolchain) -> Path:
        """Return the compiled file of a library, compiled once for each content."""
        plain = replace(
            case, input=library.input, flags=library.flags, artifacts=library.artifacts, run=None, thresholds=(), benchmarks=()
        )
        task = self._task(plain, toolchain)

        def make(scratch: Path) -> Path:
            target = scratch / "module"
            probe = self.maker.known(task)
            if probe is None or isinstance(probe.outcome, Compiled):
                probe = self.maker.run(task, on_output=lambda module: module.replace(target), fresh=True)
            if not isinstance(probe.outcome, Compiled):
                raise NoTask(probe.outcome)
            return target

        return self._kept.get(self.registry.home / "modules" / f"{task.key}.module", make).path

    def reference_results(
        self,
        case: Case,
        toolchain: Toolchain,
        reference: Reference,
        folder: Path,
        made: Callable[[Probe], None],
        cancelled: StopSignal | None,
    ) -> tuple[str, ...] | Untestable:
        """Return the results of a reference, which are kept in a folder, if they are defined.

        `made` receives the compile that was needed; `cancelled` ends it early, with Interrupted.
        """
        try:
            return self._expected(case, toolchain, reference, folder, made, cancelled)
        except NoTask as error:
            return without_task(error.outcome)

    def _expected(
        self,
        case: Case,
        toolchain: Toolchain,
        reference: Reference,
        folder: Path | None = None,
        made: Callable[[Probe], None] = lambda _: None,
        cancelled: StopSignal | None = None,
    ) -> tuple[str, ...]:
        """Return the results of a reference, computed once for each content. With `folder`, they must be defined."""
        results, stop = folder or self.registry.home / "results", AnyOf(self.maker.stop, cancelled)
        if reference.onnxruntime:
            place = results / onnxruntime_key(case)
            return read_results(self._kept.get(place, lambda scratch: onnxruntime_results(case, scratch, stop)).path)
        task, strict = self._reference(case, toolchain, reference), folder is not None
        place = results / f"{task.run_key}{'-defined' if strict else ''}"
        kept = self._kept.get(place, lambda scratch: compiled_results(task, self.maker, scratch, stop, made, strict=strict))
        return read_results(kept.path)

    def _reference(self, case: Case, toolchain: Toolchain, reference: Reference) -> Task:
        """Return the task that computes the results of a reference."""
        assert case.run is not None
        flags = case.flags if reference.flags is None else tuple(map(Flag, reference.flags))
        plain = replace(case, flags=flags, thresholds=(), run=replace(case.run, reference=None, expected=()))
        if reference.toolchain is not None:
            try:
                toolchain = self.registry.obtain(self.registry.resolve(reference.toolchain, case.compiler))
            except TriageError as error:
                problem = f"cannot obtain the toolchain of the reference: {error}"
                raise NoTask(Untestable(Cause.TOOLCHAIN, problem)) from None
        task = self.plan(plain, toolchain)
        run = task.run if isinstance(task, Task) else task.outcome
        if isinstance(task, Task) and isinstance(run, RunTask):
            return task
        reason = run.reason if isinstance(run, Untestable) else "there is nothing to run"
        raise no_recipe(f"the reference cannot be run: {reason}")


def without_task(outcome: object) -> Untestable:
    """Return why there is nothing to compile."""
    if isinstance(outcome, Failed):
        return Untestable(Cause.RECIPE, f"the model cannot be imported: {outcome.failure.headline}", outcome.failure)
    assert isinstance(outcome, Untestable)
    return outcome
