"""Compute what a case must return: the results of another compile, or of onnxruntime."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from triage.compilers.values import file_value, identity_of, read_value
from triage.execution.inputs import NoTask, no_recipe, version_of
from triage.execution.make import Maker
from triage.execution.mlir_tools import WORKER
from triage.execution.process import StopSignal, run
from triage.execution.run_task import RunTask, differences
from triage.execution.task import Naming, Task
from triage.model.case import Case
from triage.model.content import file_sha256
from triage.model.execution import Ending, Execution, Stage
from triage.model.outcome import Cause, Failed, Probe, Untestable

_PROBLEM = "problem"  # the file that says why there are no results
_UNWRITTEN = ("85", "170")  # bytes that glibc fills new memory with


def read_results(folder: Path) -> tuple[str, ...]:
    """Return the results in a folder as values. Raises NoTask if there are none."""
    if (problem := folder / _PROBLEM).exists():
        raise no_recipe(problem.read_text("utf-8"))
    return tuple(map(file_value, sorted(folder.iterdir(), key=lambda file: int(file.name.partition(".")[0]))))


def compiled_results(
    task: Task, maker: Maker, scratch: Path, stop: StopSignal, made: Callable[[Probe], None], *, strict: bool
) -> Path:
    """Compile and run a task; return a folder with its results, or with the reason why there are none.

    `made` receives the compile. If `strict`, results that depend on memory that was never written to do not count. Raises
    NoTask if another attempt may end in another way.
    """
    (results := scratch / "results").mkdir()
    run_task, ran, is_defined = task.run, list[Execution](), True
    assert isinstance(run_task, RunTask)

    def execute(module: Path) -> None:
        nonlocal is_defined
        execution, files = run_task.results(module, results, stop)
        ran.append(execution)
        is_defined = not (strict and execution.ok) or _is_defined(run_task, module, files, stop)

    with maker.capacity.reserved(maker.reservation(task.case)):
        [compiled] = maker.make(replace(task, run=None, naming=Naming.NEVER), stop, execute)
    probe = task.probe(compiled, *(task.record("", execution) for execution in ran), cached=False)
    assert probe
    made(probe)
    match probe.outcome:
        case Untestable(reason=reason):
            problem = f"cannot be tested: {reason}"
        case Failed(failure=failure):
            problem = f"does not {'compile' if failure.stage is Stage.COMPILE else 'run'}: {failure.headline}"
        case _:
            problem = "" if any(results.iterdir()) else "returns nothing"
            problem = problem if is_defined else "reads memory that was never written to"
    if problem:
        problem = f"the reference on {task.toolchain.revision.name} {problem}"
        is_machine = isinstance(probe.outcome, Untestable) and probe.outcome.cause in (Cause.ENVIRONMENT, Cause.TOOLCHAIN)
        if is_machine or Ending.TIMED_OUT in (compiled.execution.ending, *(execution.ending for execution in ran)):
            raise no_recipe(problem)
        for file in results.iterdir():
            file.unlink()
        (results / _PROBLEM).write_text(problem, "utf-8", "replace")
    return results


def _is_defined(run_task: RunTask, module: Path, files: Sequence[Path], stop: StopSignal) -> bool:
    """Return whether results stay the same when memory that was not written to has another content."""
    again = [module.parent / f"again-{file.name}" for file in files]
    for pattern in _UNWRITTEN:
        ran = run_task.start(module, stop, results=again, MALLOC_PERTURB_=pattern)
        pairs = [(file_value(new), file_value(old)) for new, old in zip(again, files, strict=True)]
        tolerances = dict(run_task.spec.tolerances)
        if not ran.ok or any(differences(*pair, tolerances, run_task.spec.closeness).get("mismatches", 1) for pair in pairs):
            return False
    return True


def onnxruntime_key(case: Case) -> str:
    """Return what decides the results of onnxruntime, as a name. Raises NoTask if it cannot compute them."""
    assert case.run is not None
    if (runtime := version_of("onnxruntime")) == "none":
        advice = "install it with `pip install 'iree-triage[onnxruntime]'`"
        problem = f"onnxruntime, the reference of {case.name}, is not installed; {advice}"
        raise NoTask(Untestable(Cause.ENVIRONMENT, problem))
    try:
        parts = [runtime, file_sha256(case.input.path), *map(identity_of, case.run.inputs)]
    except OSError as error:
        raise no_recipe(f"{error.filename}: {error.strerror}") from None
    return sha256("\0".join(["onnxruntime", *parts]).encode()).hexdigest()


def onnxruntime_results(case: Case, scratch: Path, stop: StopSignal) -> Path:
    """Run a case's model on its inputs in a process, which may crash; return the folder with the results."""
    import numpy as np  # slow to import, and only this reference needs it

    assert case.run is not None
    inputs, results = [], scratch / "results"
    for index, text in enumerate(case.run.inputs):
        array = read_value(text)
        if array is None:
            raise no_recipe(f"onnxruntime cannot be given the value {text}")
        inputs.append(scratch / f"input-{index}.npy")
        np.save(inputs[-1], array, allow_pickle=False)
    results.mkdir()
    argv = [sys.executable, "-P", str(WORKER), "compute", str(case.input.path), str(results), *map(str, inputs)]
    execution = run(argv, case.run.limits, scratch, env=dict(case.env), stop=stop)
    if execution.ok and any(results.iterdir()):
        return results
    raise no_recipe(f"onnxruntime does not run the model: {execution.stderr.last_line[:200] or execution.ending}")
