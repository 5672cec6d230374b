"""Make what the run of a case needs of other compiles: the compiled files of its
libraries, and the results that its reference computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from triage.execution.cache import Record
from triage.execution.compare import differences
from triage.execution.files import Prepared
from triage.execution.inputs import named_toolchain, recipe_mistake
from triage.execution.run_task import RunTask
from triage.execution.task import AnyOf, Naming, Task, why_unusable
from triage.model.case import Case, Flag, Library, Reference
from triage.model.errors import TriageError
from triage.model.outcome import Cause, Failed, NoAnswer, Passed, Probe
from triage.model.revision import Toolchain
from triage.processes.process import StopSignal
from triage.recipes.run_values import file_value
from triage.toolchains.home import KeptKind

if TYPE_CHECKING:
    from triage.execution.engine import Engine

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
        return why_unusable(task.outcome)

    def make(scratch: Path) -> Path | NoAnswer | Failed:
        target = scratch / "module"

        make = partial(
            engine.make, task, engine.stop, lambda file: file.replace(target)
        )
        outcome = engine.probe_unless_known(task, make).outcome
        if isinstance(outcome, Passed):
            return target
        return outcome

    target = engine.registry.home.kept(KeptKind.MODULES) / f"{task.key}.module"
    file: Prepared | NoAnswer | Failed = engine.kept.get(target, make)
    if isinstance(file, Prepared):
        return file.path
    return file


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
    task = reference_task(engine, case, toolchain, reference)
    if isinstance(task, NoAnswer):
        return task
    run_task, stop = task.run, AnyOf(engine.stop, cancelled)
    assert isinstance(run_task, RunTask)

    def compute(scratch: Path) -> Path | NoAnswer:
        """Compile and run; return a folder with the results, empty if none counts."""
        results = scratch / "results"
        results.mkdir()
        ran: list[Record] = []

        def execute(module: Path) -> None:
            execution, files = run_task.results(module, results, stop)
            ran[:] = [task.record(task.keys[1], execution)]
            if folder and not _ignores_unwritten_memory(run_task, module, files, stop):
                for file in files:
                    file.unlink()

        def make() -> Sequence[Record]:
            compiled = engine.make(replace(task, run=None), stop, execute)
            return [*compiled, *ran]

        probe = engine.probe_unless_known(task, make)
        if not probe.cached:
            made(probe)
        if isinstance(probe.outcome, Passed):
            return results
        why = why_unusable(probe.outcome).reason
        return recipe_mistake(f"the reference on {task.toolchain.revision.name}: {why}")

    place = folder or engine.registry.home.kept(KeptKind.RESULTS)
    target = place / task.keys[1]
    kept: Prepared | NoAnswer = engine.kept.get(target, compute)
    if isinstance(kept, NoAnswer):
        return kept
    files = sorted(kept.path.iterdir(), key=lambda file: int(file.name.split(".")[0]))
    if not files:
        problem = "returns nothing, or reads memory that was never written to"
        return recipe_mistake(f"the reference {problem}")
    return tuple(map(file_value, files))


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
    if isinstance(task, Task) and isinstance(task.run, RunTask):
        return replace(task, variant="reference", naming=Naming.NEVER)
    outcome = task.outcome if isinstance(task, Probe) else task.run
    assert not isinstance(outcome, RunTask)
    why = why_unusable(outcome)
    return recipe_mistake(f"the reference cannot be run: {why.reason}")


def _ignores_unwritten_memory(
    run_task: RunTask, module: Path, files: Sequence[Path], stop: StopSignal
) -> bool:
    """Return whether results stay the same when memory that was not written to has
    another content.
    """
    spec = run_task.spec
    again = [module.parent / f"again-{file.name}" for file in files]
    for pattern in UNWRITTEN:
        ran = run_task.start(module, stop, results=again, MALLOC_PERTURB_=str(pattern))
        if not ran.ok:
            return False
        for new, old in zip(
            map(file_value, again), map(file_value, files), strict=True
        ):
            numbers = differences(new, old, dict(spec.tolerances), spec.closeness)
            if numbers.get("mismatches", 1):
                return False
    return True
