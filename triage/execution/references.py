"""Make what the run of a case needs of other compiles: the compiled files of its
libraries, and the results that its reference computes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from triage.execution.capacity import AnyOf
from triage.execution.files import Prepared
from triage.execution.inputs import (
    named_toolchain,
    own_python,
    package_version,
    recipe_mistake,
)
from triage.execution.mlir_tools import WORKER
from triage.execution.reads import mentioned_by
from triage.execution.run_task import RunTask, differences
from triage.execution.task import Naming, Task
from triage.model.case import Case, Flag, Library, Reference
from triage.model.content import file_sha256
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
from triage.processes.process import StopSignal, run
from triage.processes.sealing import Seal
from triage.recipes.run_values import file_value, identity_of, read_value
from triage.toolchains.home import KeptKind

if TYPE_CHECKING:
    from triage.execution.engine import Engine

_PROBLEM = "problem"  # the file that says why there are no results
UNWRITTEN = (85, 170)  # bytes that glibc fills new memory with


def library_file(
    engine: Engine, case: Case, library: Library, toolchain: Toolchain
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
    task = engine.planner.plan(plain, toolchain)
    if isinstance(task, Probe):
        assert not isinstance(task.outcome, Passed)
        return task.outcome

    def make(scratch: Path) -> Path | NoAnswer | Failed:
        target = scratch / "module"
        probe = engine.find(task)
        if probe is None or isinstance(probe.outcome, Passed):
            probe = engine.run(
                task, on_output=lambda module: module.replace(target), fresh=True
            )
        if isinstance(probe.outcome, Passed):
            return target
        return probe.outcome

    modules = engine.registry.home.kept(KeptKind.MODULES)
    file: Prepared | NoAnswer | Failed = engine.kept.get(
        modules / f"{task.key}.module", make
    )
    return file.path if isinstance(file, Prepared) else file


def reference_results(
    engine: Engine,
    case: Case,
    toolchain: Toolchain,
    reference: Reference,
    folder: Path | None = None,
    made: Callable[[Probe], None] = lambda _: None,
    cancelled: StopSignal | None = None,
) -> tuple[str, ...] | NoAnswer:
    """Return the results of a reference, computed once for each content, or why there
    are none.

    `folder` keeps the results instead of TRIAGE_HOME. Results that depend on memory
    that was never written to do not count then. `made` receives the compile that was
    needed; `cancelled` ends it early, with Interrupted.
    """
    results = folder or engine.registry.home.kept(KeptKind.RESULTS)
    stop = AnyOf(engine.stop, cancelled)
    kept: Prepared | NoAnswer
    if reference.onnxruntime:
        key = _onnxruntime_key(case)
        if isinstance(key, NoAnswer):
            return key
        compute = partial(_onnxruntime_results, case, stop)
        kept = engine.kept.get(results / key, compute)
        return _read_results(kept)
    task = reference_task(engine, case, toolchain, reference)
    if isinstance(task, NoAnswer):
        return task
    strict = folder is not None
    compile_ = partial(_compiled_results, engine, task, stop, made, strict)
    name = f"{task.run_key}-defined" if strict else f"{task.run_key}"
    return _read_results(engine.kept.get(results / name, compile_))


def reference_task(
    engine: Engine, case: Case, toolchain: Toolchain, reference: Reference
) -> Task | NoAnswer:
    """Return the task that computes the results of a reference."""
    assert case.run is not None
    flags = case.flags
    if reference.flags is not None:
        flags = tuple(map(Flag, reference.flags))
    spec = replace(case.run, reference=None, expected=())
    plain = replace(case, flags=flags, thresholds=(), run=spec)
    if reference.toolchain is not None:
        try:
            toolchain = named_toolchain(engine.registry, reference.toolchain, case)
        except TriageError as error:
            problem = f"cannot obtain the toolchain of the reference: {error}"
            return NoAnswer(Cause.TOOLCHAIN, problem)
    task = engine.planner.plan(plain, toolchain)
    outcome = task.outcome if isinstance(task, Probe) else task.run
    if isinstance(outcome, RunTask) and not isinstance(task, Probe):
        return task
    reason = "there is nothing to run"
    if isinstance(outcome, NoAnswer):
        reason = outcome.reason
    return recipe_mistake(f"the reference cannot be run: {reason}")


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
    engine: Engine,
    task: Task,
    stop: StopSignal,
    made: Callable[[Probe], None],
    strict: bool,
    scratch: Path,
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

    plain = replace(task, run=None, naming=Naming.NEVER)
    [compiled] = engine.make(plain, stop, execute)
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
    case: Case, stop: StopSignal, scratch: Path
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
