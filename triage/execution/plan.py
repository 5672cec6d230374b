"""Plan the task of a case on a toolchain: prepare its input, compile its libraries,
compute what its reference expects.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from triage.compilers.base import Compiler
from triage.compilers.invocation import Invocation
from triage.execution.files import KeptFiles, Prepared
from triage.execution.inputs import (
    GeneratorProgram,
    Inputs,
    NoInput,
    own_python,
    package_version,
    recipe_mistake,
)
from triage.execution.mlir_tools import WORKER
from triage.execution.reads import files_in, mentioned_by
from triage.execution.run_task import RunTask, RunTools, differences, plan_run
from triage.execution.task import AnyOf, Maker, Naming, Task, probe_not_made
from triage.model.case import OWN, Case, Flag, InputKind, Library, Reference, RunSpec
from triage.model.content import file_sha256, settled_sha256
from triage.model.errors import TriageError
from triage.model.execution import Ending, Execution, Stage
from triage.model.foreign_file import is_regular
from triage.model.outcome import (
    OF_MACHINE,
    Cause,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.model.revision import Toolchain
from triage.processes.containment import COMPILE_PATH
from triage.processes.process import StopSignal, run
from triage.processes.sealing import Seal, is_sealing
from triage.recipes.run_values import file_value, identity_of, read_value
from triage.toolchains.contents import file_state
from triage.toolchains.home import KeptKind
from triage.toolchains.registry import ToolchainRegistry, recorded_rev

_PROBLEM = "problem"  # the file that says why there are no results
UNWRITTEN = (85, 170)  # bytes that glibc fills new memory with


@dataclass
class Planner:
    """Plans tasks. Safe for several threads."""

    registry: ToolchainRegistry
    compilers: Mapping[str, Compiler]
    inputs: Inputs
    maker: Maker
    """Makes the tasks that other tasks need."""
    _kept: KeptFiles = field(default_factory=KeptFiles)

    def __post_init__(self) -> None:
        self._tools = RunTools(self.registry.runtime, self.registry.contents)

    def plan(self, case: Case, toolchain: Toolchain) -> Task | Probe:
        """Return the task of a case, or the probe that says why there is nothing to
        compile.
        """
        prepared = self._prepare_input(case, toolchain)
        if isinstance(prepared, NoInput):
            return probe_not_made(
                case, toolchain, prepared.outcome, cached=prepared.cached
            )
        compiler = self.compilers[case.compiler]
        try:
            if case.run:
                resolved = replace(case, run=case.run.with_arguments())
            else:
                resolved = case
        except ValueError as error:
            return probe_not_made(case, toolchain, recipe_mistake(str(error)))
        if case.script is None:
            invocation = compiler.invocation(case, toolchain)
        else:
            invocation = _script_invocation(case, case.script, toolchain)
        if isinstance(invocation, NoAnswer):
            return probe_not_made(case, toolchain, invocation)
        try:
            reads = _reads(case, invocation, toolchain, prepared)
            state = file_state(reads)
            contents = [self.registry.contents.digest(path) for path in reads]
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}"
            return probe_not_made(case, toolchain, recipe_mistake(problem))
        run = None if case.script else self._plan_run(resolved, toolchain)
        return Task(
            case,
            toolchain,
            compiler,
            prepared,
            invocation,
            reads,
            " ".join(contents),
            state,
            run,
            is_sealing(),
        )

    def input_of(
        self, case: Case, toolchain: Toolchain | None = None
    ) -> Prepared | NoAnswer:
        """Return the file that the compiler reads for a case, or why there is none.
        `toolchain` imports an ONNX model.
        """
        prepared = self._prepare_input(case, toolchain)
        if isinstance(prepared, NoInput):
            return why_no_task(prepared.outcome)
        return prepared

    def input_hash(self, case: Case, toolchain: Toolchain) -> str:
        """Return a hash of what a case compiles and runs, which an edit of its recipe
        or its files changes and another toolchain does not; empty if it has no input.
        """
        prepared = self.input_of(case, toolchain)
        if isinstance(prepared, NoAnswer):
            return ""
        digest = prepared.digest
        if case.input.imported or case.input.maker == OWN:  # each toolchain makes it
            digest = settled_sha256(str(case.input.path))
        settings = (case.target, case.flags, case.phase, case.limits, case.env)
        more: tuple[object, ...] = (case.spec, case.thresholds, _run_settings(case.run))
        if case.script:
            more += (file_sha256(case.script),)
        # a checkout may lie elsewhere on another machine
        text = repr((digest, settings, more)).replace(str(case.source.parent), "")
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _prepare_input(
        self, case: Case, toolchain: Toolchain | None
    ) -> Prepared | NoInput:
        tools = None
        generator = GeneratorProgram.own(self.registry.contents)
        if toolchain is not None and case.input.imported:
            tools = self.compilers[toolchain.family].mlir_tools(toolchain)
        words = self.compilers[case.compiler].generator
        if case.input.kind is InputKind.GENERATOR and words:
            generating = self._generating_toolchain(case, toolchain)
            if isinstance(generating, NoAnswer):
                return NoInput(generating)
            argv = (str(generating.program), *words)
            generator = GeneratorProgram(argv, generating.reads, generating.identity)
        return self.inputs.prepare(case, toolchain, tools, generator)

    def _generating_toolchain(
        self, case: Case, toolchain: Toolchain | None
    ) -> Toolchain | NoAnswer:
        """Return the toolchain that generates the program of a case: the newest one,
        unless the case names another, or that on which it is compiled (`OWN`).
        """
        rev = case.input.maker
        if rev == OWN and toolchain is not None:
            return toolchain
        if rev is None or rev == OWN:
            rev = "latest"
        try:
            return self._named_toolchain(rev, case)
        except TriageError as error:
            problem = f"cannot obtain the toolchain that makes the program: {error}"
            return NoAnswer(Cause.TOOLCHAIN, problem)

    def _named_toolchain(self, rev: str, case: Case) -> Toolchain:
        """Return the toolchain that a recipe names, which is a release or a nightly."""
        text = recorded_rev(rev.removeprefix(f"{case.compiler}:"))
        return self.registry.obtain(self.registry.resolve(text, case.compiler))

    def _plan_run(
        self, case: Case, toolchain: Toolchain
    ) -> RunTask | NoAnswer | Failed | None:
        """Return the run of a case with all its files, or why it cannot be run; None if
        the case is not run.
        """
        spec = case.run
        if spec is None:
            return None
        missing = self.inputs.obtain(spec.artifacts)
        if missing:
            return missing
        libraries = []
        for library in spec.libraries:
            compiled = self._library(case, library, toolchain)
            if not isinstance(compiled, Path):
                return compiled
            libraries.append(compiled)
        if spec.reference:
            expected = self.reference_results(case, toolchain, spec.reference)
            if isinstance(expected, NoAnswer):
                return expected
            spec = replace(spec, expected=expected)
        compiler = self.compilers[case.compiler]
        values = self.registry.home.kept(KeptKind.VALUES)
        case = replace(case, run=spec)
        return plan_run(case, toolchain, compiler, self._tools, values, libraries)

    def _library(
        self, case: Case, library: Library, toolchain: Toolchain
    ) -> Path | NoAnswer | Failed:
        """Return the compiled file of a library, compiled once for each content, or why
        there is none.
        """
        plain = replace(
            case,
            input=library.input,
            flags=library.flags,
            artifacts=library.artifacts,
            run=None,
            thresholds=(),
            benchmarks=(),
        )
        task = self.plan(plain, toolchain)
        if isinstance(task, Probe):
            assert not isinstance(task.outcome, Passed)
            return task.outcome

        def make(scratch: Path) -> Path | NoAnswer | Failed:
            target = scratch / "module"
            probe = self.maker.cached_probe(task)
            if probe is None or isinstance(probe.outcome, Passed):
                probe = self.maker.run(
                    task, on_output=lambda module: module.replace(target), fresh=True
                )
            if not isinstance(probe.outcome, Passed):
                return probe.outcome
            return target

        modules = self.registry.home.kept(KeptKind.MODULES)
        target = modules / f"{task.key}.module"
        kept: Prepared | NoAnswer | Failed = self._kept.get(target, make)
        if isinstance(kept, Prepared):
            return kept.path
        return kept

    def reference_results(
        self,
        case: Case,
        toolchain: Toolchain,
        reference: Reference,
        folder: Path | None = None,
        made: Callable[[Probe], None] = lambda _: None,
        cancelled: StopSignal | None = None,
    ) -> tuple[str, ...] | NoAnswer:
        """Return the results of a reference, computed once for each content, or why
        there are none.

        `folder` keeps the results instead of TRIAGE_HOME. Results that depend on memory
        that was never written to do not count then. `made` receives the compile that
        was needed; `cancelled` ends it early, with Interrupted.
        """
        results = folder or self.registry.home.kept(KeptKind.RESULTS)
        stop = AnyOf(self.maker.stop, cancelled)
        if reference.onnxruntime:
            key = _onnxruntime_key(case)
            if isinstance(key, NoAnswer):
                return key
            kept: Prepared | NoAnswer = self._kept.get(
                results / key,
                lambda scratch: _onnxruntime_results(case, scratch, stop),
            )
            return _read_results(kept)
        task = self.reference_task(case, toolchain, reference)
        if isinstance(task, NoAnswer):
            return task
        strict = folder is not None
        name = f"{task.run_key}-defined" if strict else f"{task.run_key}"
        kept = self._kept.get(
            results / name,
            lambda scratch: _compiled_results(
                task, self.maker, scratch, stop, made, strict=strict
            ),
        )
        return _read_results(kept)

    def reference_task(
        self, case: Case, toolchain: Toolchain, reference: Reference
    ) -> Task | NoAnswer:
        """Return the task that computes the results of a reference."""
        assert case.run is not None
        if reference.flags is None:
            flags = case.flags
        else:
            flags = tuple(map(Flag, reference.flags))
        plain = replace(
            case,
            flags=flags,
            thresholds=(),
            run=replace(case.run, reference=None, expected=()),
        )
        if reference.toolchain is not None:
            try:
                toolchain = self._named_toolchain(reference.toolchain, case)
            except TriageError as error:
                problem = f"cannot obtain the toolchain of the reference: {error}"
                return NoAnswer(Cause.TOOLCHAIN, problem)
        task = self.plan(plain, toolchain)
        outcome: Outcome | None
        if isinstance(task, Probe):
            outcome = task.outcome
        elif isinstance(task.run, RunTask):
            return task
        else:
            outcome = task.run
        if isinstance(outcome, NoAnswer):
            reason = outcome.reason
        else:
            reason = "there is nothing to run"
        return recipe_mistake(f"the reference cannot be run: {reason}")


def _run_settings(run: RunSpec | None) -> tuple[object, ...]:
    """Return what a run reads and is called with, files by their content."""
    if run is None:
        return ()
    values = []
    for value in (*run.inputs, *run.expected):
        try:
            values.append(identity_of(value))
        except OSError:  # it is downloaded later
            values.append(value)
    options = (run.function, run.device, run.flags, run.reference, run.limits)
    return (*values, *options, run.tolerances, run.closeness)


def _reads(
    case: Case, invocation: Invocation, toolchain: Toolchain, prepared: Prepared
) -> tuple[Path, ...]:
    """Return what a compile may read besides its toolchain and its input. Raises
    OSError if a file that the recipe names is missing.
    """
    for path in case.reads:
        path.stat()
    named = files_in((*invocation.options, *(invocation.placeholders or {}).values()))
    usual = Seal(toolchain.reads)
    paths = [*case.reads, *(path for path in named if not usual.may_read(path))]
    if not case.input.is_made:
        paths += mentioned_by(prepared.path)
    return tuple(dict.fromkeys(paths))


def _script_invocation(case: Case, script: Path, toolchain: Toolchain) -> Invocation:
    """Return the command line of the user's test of a toolchain."""
    words = ["{script}"]
    if case.input.path != script:
        words += ["{input}", "{output}"]
    # scripts that a package installs in `bin` may need their own interpreter
    folders = (toolchain.program.parent, toolchain.root / "bin")
    path = [*map(str, folders), COMPILE_PATH]
    return Invocation(
        tuple(words),
        env={
            "PATH": os.pathsep.join(dict.fromkeys(path)),
            "TRIAGE_TOOLCHAIN": str(toolchain.root),
        },
        placeholders={"script": str(script)},
    )


def why_no_task(outcome: object) -> NoAnswer:
    """Return why there is nothing to compile; a failed import is a mistake of the
    recipe then.
    """
    if isinstance(outcome, Failed):
        return NoAnswer(
            Cause.RECIPE,
            f"the model cannot be imported: {outcome.failure.headline}",
            outcome.failure,
        )
    assert isinstance(outcome, NoAnswer)
    return outcome


def _read_results(kept: Prepared | NoAnswer) -> tuple[str, ...] | NoAnswer:
    """Return the results in a folder as values, or why there are none."""
    if isinstance(kept, NoAnswer):
        return kept
    problem = kept.path / _PROBLEM
    if problem.exists():
        return recipe_mistake(problem.read_text("utf-8"))
    files = sorted(kept.path.iterdir(), key=lambda file: int(file.name.split(".")[0]))
    return tuple(map(file_value, files))


def _compiled_results(
    task: Task,
    maker: Maker,
    scratch: Path,
    stop: StopSignal,
    made: Callable[[Probe], None],
    *,
    strict: bool,
) -> Path | NoAnswer:
    """Compile and run a task; return a folder with its results.

    If there are none, the folder holds the reason, so that no later attempt is made. If
    another attempt may end in another way, return the reason instead, which is not
    kept. `made` receives the compile. If `strict`, results that depend on memory that
    was never written to do not count.
    """
    results = scratch / "results"
    results.mkdir()
    run_task = task.run
    assert isinstance(run_task, RunTask)
    ran: list[Execution] = []
    is_defined = True

    def execute(module: Path) -> None:
        nonlocal is_defined
        execution, files = run_task.results(module, results, stop)
        ran.append(execution)
        if strict and execution.ok:
            is_defined = _ignores_unwritten_memory(run_task, module, files, stop)
        else:
            is_defined = True

    with maker.capacity.reserve(maker.reservation(task.case)):
        [compiled] = maker.make(
            replace(task, run=None, naming=Naming.NEVER), stop, execute
        )
    probe = task.probe(
        compiled, *(task.record("", execution) for execution in ran), cached=False
    )
    assert probe
    made(probe)
    problem = _problem(probe.outcome)
    if not problem and not is_defined:
        problem = "reads memory that was never written to"
    if not problem and not any(results.iterdir()):
        problem = "returns nothing"
    if not problem:
        return results
    problem = f"the reference on {task.toolchain.revision.name} {problem}"
    endings = [execution.ending for execution in (compiled.execution, *ran)]
    if probe.outcome.cause in OF_MACHINE or Ending.TIMED_OUT in endings:
        return recipe_mistake(problem)
    for file in results.iterdir():
        file.unlink()
    (results / _PROBLEM).write_text(problem, "utf-8", "replace")
    return results


def _problem(outcome: Outcome) -> str:
    """Return what is wrong with a reference by its outcome, empty if nothing is."""
    match outcome:
        case NoAnswer(reason=reason):
            return f"cannot be tested: {reason}"
        case Failed(failure=Failure(stage=Stage.COMPILE, headline=headline)):
            return f"does not compile: {headline}"
        case Failed(failure=failure):
            return f"does not run: {failure.headline}"
    return ""


def _ignores_unwritten_memory(
    run_task: RunTask, module: Path, files: Sequence[Path], stop: StopSignal
) -> bool:
    """Return whether results stay the same when memory that was not written to has
    another content.
    """
    again = [module.parent / f"again-{file.name}" for file in files]
    for pattern in UNWRITTEN:
        ran = run_task.start(module, stop, results=again, MALLOC_PERTURB_=str(pattern))
        pairs = [
            (file_value(new), file_value(old))
            for new, old in zip(again, files, strict=True)
        ]
        tolerances = dict(run_task.spec.tolerances)
        if not ran.ok or any(
            differences(*pair, tolerances, run_task.spec.closeness).get("mismatches", 1)
            for pair in pairs
        ):
            return False
    return True


def _onnxruntime_key(case: Case) -> str | NoAnswer:
    """Return the content key of the results of onnxruntime, or why it cannot compute
    them.
    """
    assert case.run is not None
    runtime = package_version("onnxruntime")
    if runtime == "none":
        advice = "install it with `pip install 'iree-triage[onnxruntime]'`"
        problem = (
            f"onnxruntime, the reference of {case.name}, is not installed; {advice}"
        )
        return NoAnswer(Cause.ENVIRONMENT, problem)
    try:
        parts = [
            runtime,
            file_sha256(case.input.path),
            *map(identity_of, case.run.inputs),
        ]
    except OSError as error:
        return recipe_mistake(f"{error.filename}: {error.strerror}")
    return sha256("\0".join(["onnxruntime", *parts]).encode()).hexdigest()


def _onnxruntime_results(
    case: Case, scratch: Path, stop: StopSignal
) -> Path | NoAnswer:
    """Run a case's model on its inputs in a process, which may crash; return the folder
    with the results.
    """
    import numpy as np  # slow to import, and only this reference needs it

    assert case.run is not None
    inputs, results = [], scratch / "results"
    for index, text in enumerate(case.run.inputs):
        array = read_value(text)
        # It does not read the types of ml_dtypes.
        if array is None or array.dtype.isbuiltin != 1:
            return recipe_mistake(f"onnxruntime cannot be given the value {text}")
        inputs.append(scratch / f"input-{index}.npy")
        np.save(inputs[-1], array, allow_pickle=False)
    results.mkdir()
    argv = [
        sys.executable,
        "-P",
        str(WORKER),
        "compute",
        str(case.input.path),
        str(results),
        *map(str, inputs),
    ]
    model = (case.input.path, *mentioned_by(case.input.path))
    seal = Seal((*own_python(), WORKER, *model))
    execution = run(
        argv, case.run.limits, scratch, seal=seal, env=dict(case.env), stop=stop
    )
    files = list(results.iterdir())
    if execution.ok and files and all(map(is_regular, files)):
        return results
    return recipe_mistake(
        "onnxruntime does not run the model: "
        f"{execution.stderr.last_line[:200] or execution.ending}"
    )
