"""Compile programs that are measured, and measure them and their compiles once."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.execution.engine import Engine
from triage.execution.in_turn import Sampler
from triage.execution.judge import judge, rules_of
from triage.execution.metric import DISPATCHES, Metric, value_of
from triage.execution.run_task import RunTask
from triage.execution.task import Naming, ProbeJob, why_unusable
from triage.model.case import Case, Input, InputKind, RunSpec
from triage.model.foreign_file import is_regular
from triage.model.outcome import Cause, NoAnswer, Passed, Probe
from triage.model.revision import Revision
from triage.processes.process import StopSignal
from triage.toolchains.registry import ToolchainRef

_ONE_THREAD = "--device=local-sync"


@dataclass(frozen=True, slots=True)
class Program:
    """A function of a compiled program, which can be measured."""

    run: RunTask
    module: Path
    bytes: int
    """Size of the compiled file."""
    dispatches: int | None
    """How many kernels its functions start, if that is known."""
    toolchain: Revision
    stop: StopSignal

    @property
    def label(self) -> str:
        return self.run.spec.label

    def sample(self) -> float | NoAnswer:
        """Measure once, while nothing else of this program runs.

        Times of a device with one thread are CPU times: other work on the core does not
        count.
        """
        run = self.run
        assert run.measures
        execution = run.start(self.module, self.stop)
        is_alone = _ONE_THREAD in run.options
        times = run.measures.seconds(execution.stdout.text, cpu=is_alone)
        if execution.ok and times:
            return times[0]
        # some versions print errors on standard output
        printed = execution.stdout if execution.stderr.empty else execution.stderr
        why = printed.last_line[:200] or execution.ending_text(run.spec.limits)
        return run.runner.startup_failure(printed.text) or NoAnswer(Cause.NOISE, why)


def compile_sampler(
    engine: Engine,
    metric: Metric,
    case: Case,
    ref: ToolchainRef,
    *,
    is_trial: bool = False,
) -> Sampler:
    """Return what compiles a case and reads a number of the compile; one that varies is
    read of a new compile. A trial compiles once, whatever the ending.
    """
    if metric.is_time:
        case = replace(case, run=None)
    once = Naming.NEVER if is_trial else None
    job = ProbeJob(case, ref, fresh=not metric.exact, here=True, once=once)

    def sample() -> float | NoAnswer:
        probe = engine.probe(job)
        value = value_of(probe, metric)
        if value is not None:
            return value
        where = ref.revision.name
        if not isinstance(probe.outcome, Passed):
            problem = why_unusable(probe.outcome)
            return replace(problem, reason=f"{where}: {problem.reason}")
        names = sorted({*probe.measured.metrics, "cpu_seconds", "peak_rss_mb"})
        return NoAnswer(Cause.NOISE, f"on {where} it has {', '.join(names)}")

    return sample


def function_programs(
    engine: Engine,
    case: Case,
    ref: ToolchainRef,
    folder: Path,
    dispatch: str | None = None,
) -> list[Program] | NoAnswer:
    """Compile a case; return the functions that its recipe measures, or else runs.

    With `dispatch`, return its kernels with this text in their names instead, each with
    the size and the number of dispatches of the whole.
    """
    specs = case.benchmarks
    if not specs and case.run:
        specs = (case.run,)
    if dispatch is not None:
        return _dispatch_programs(engine, case, ref, folder, specs, dispatch)
    if not specs:
        advice = "name the functions with their inputs under `bench` in the recipe"
        return NoAnswer(Cause.RECIPE, advice)
    return _compiled(engine, case, ref, folder, specs)


def _dispatch_programs(
    engine: Engine,
    case: Case,
    ref: ToolchainRef,
    folder: Path,
    specs: Sequence[RunSpec],
    text: str,
) -> list[Program] | NoAnswer:
    kernels = engine.compilers[case.compiler].kernels
    if kernels is None:
        why = f"{case.compiler} has no kernels that are measured alone"
        return NoAnswer(Cause.TARGET, why)
    sources = folder / "dispatches"
    sources.mkdir(parents=True)
    usual = next(iter(specs), RunSpec())
    options = kernels.extract_options(sources)
    whole = _compiled(engine, case, ref, folder, [usual], options, (sources,))
    if isinstance(whole, NoAnswer):
        return whole
    programs = []
    for source in filter(is_regular, sorted(sources.glob("*.mlir"))):
        alone = replace(case, input=Input(source, InputKind.MLIR))
        named = [
            RunSpec(usual.device, flags=(*usual.flags, option), name=name)
            for name, option in kernels.kernels_in(source.read_text("utf-8", "replace"))
            if text in name
        ]
        if named:
            compiled = _compiled(engine, alone, ref, folder / source.stem, named)
            if isinstance(compiled, NoAnswer):
                return compiled
            programs += compiled
    size, dispatches = whole[0].bytes, whole[0].dispatches
    why = f"{ref.revision.name} extracts no dispatch with {text!r} in its name"
    return [
        replace(program, bytes=size, dispatches=dispatches) for program in programs
    ] or NoAnswer(Cause.NOT_FOUND, why)


def _compiled(
    engine: Engine,
    case: Case,
    ref: ToolchainRef,
    folder: Path,
    specs: Sequence[RunSpec],
    options: Sequence[str] = (),
    writes: tuple[Path, ...] = (),
) -> list[Program] | NoAnswer:
    """Compile a case into a folder, with options that make the compiler write more into
    other folders; return its functions.
    """
    case = replace(case, phase=None, thresholds=((DISPATCHES, math.inf),))
    tasks, runs = [], []
    for spec in specs:
        spec = replace(spec, measured=True, expected=(), reference=None)
        task = engine.plan(ProbeJob(replace(case, run=spec), ref))
        if isinstance(task, Probe):
            return why_unusable(task.outcome)
        run = task.run
        if not isinstance(run, RunTask):
            return why_unusable(run)
        assert run.measures
        tasks.append(task)
        runs.append(replace(run, options=(*run.options, run.measures.quick_option)))
    toolchain, invocation = tasks[0].toolchain, tasks[0].invocation
    invocation = replace(invocation, printing=(*invocation.printing, *options))
    folder.mkdir(parents=True, exist_ok=True)
    module = folder / "program"
    compiled = engine.compile(
        replace(tasks[0], invocation=invocation),
        engine.stop,
        on_output=lambda output: shutil.move(output, module),
        writes=writes,
    )
    if not is_regular(module):
        return why_unusable(judge(compiled, rules_of(case)))
    size, dispatches = module.stat().st_size, compiled.metrics.get(DISPATCHES)
    count = None if dispatches is None else int(dispatches)
    revision, stop = toolchain.revision, engine.stop
    return [Program(run, module, size, count, revision, stop) for run in runs]
