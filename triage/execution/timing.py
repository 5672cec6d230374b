"""Compile programs that are measured, and measure them and their compiles once."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.compilers.invocation import Invocation
from triage.execution.engine import Engine
from triage.execution.in_turn import Sampler
from triage.execution.judge import judge, rules_of
from triage.execution.metric import DISPATCHES, Metric, value_of
from triage.execution.mlir_tools import Reader
from triage.execution.run_task import RunTask
from triage.execution.task import Naming, ProbeJob
from triage.mlir import UnparsableError, parse_module
from triage.model.case import Case, Input, InputKind, RunSpec
from triage.model.errors import EnvironmentFailure
from triage.model.foreign_file import is_regular
from triage.model.outcome import Cause, Failed, NoAnswer, Outcome, Probe
from triage.model.revision import Revision
from triage.processes.process import StopSignal
from triage.recipes.run_values import zero_of
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
        printed = execution.stderr if not execution.stderr.empty else execution.stdout
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

    def sample() -> float | NoAnswer:
        fresh = not metric.exact
        once = Naming.NEVER if is_trial else None
        probe = engine.probe(ProbeJob(case, ref, fresh=fresh, here=True, once=once))
        value = value_of(probe, metric)
        if value is not None:
            return value
        name = ref.revision.name
        if isinstance(probe.outcome, NoAnswer):
            return replace(probe.outcome, reason=f"{name}: {probe.outcome.reason}")
        if isinstance(probe.outcome, Failed):
            return NoAnswer(Cause.NOISE, f"it does not compile on {name}")
        names = sorted({*probe.measured.metrics, "cpu_seconds", "peak_rss_mb"})
        return NoAnswer(Cause.NOISE, f"on {name} it has {', '.join(names)}")

    return sample


def function_programs(
    engine: Engine, case: Case, ref: ToolchainRef, folder: Path, reader: ToolchainRef
) -> list[Program] | NoAnswer:
    """Compile a case; return the functions to measure with their values: those of the
    recipe, else the only public one on zeros. reader: the toolchain that reads the
    program to find this one.
    """
    specs = case.benchmarks
    if not specs and case.run and case.run.inputs:
        specs = (case.run,)
    if not specs:
        public = _public_function(engine, case, reader)
        if isinstance(public, NoAnswer):
            return public
        specs = (public,)
    return _compiled(engine, case, ref, folder, specs)


def dispatch_programs(
    engine: Engine, case: Case, ref: ToolchainRef, folder: Path, text: str
) -> list[Program] | NoAnswer:
    """Compile a case and, as programs of their own, its kernels with a text in their
    names.

    Each program has the size and the number of dispatches of the whole.
    """
    kernels = engine.compilers[case.compiler].kernels
    if kernels is None:
        why = f"{case.compiler} has no kernels that are measured alone"
        return NoAnswer(Cause.TARGET, why)
    sources = folder / "dispatches"
    sources.mkdir(parents=True)
    usual = next(iter(case.benchmarks), case.run) or RunSpec()
    options = kernels.extract_options(sources)
    whole = _compiled(
        engine, case, ref, folder / "whole", (usual,), options, (sources,)
    )
    if isinstance(whole, NoAnswer):
        return whole
    programs = []
    for source in filter(is_regular, sorted(sources.glob("*.mlir"))):
        alone = replace(case, input=Input(source, InputKind.MLIR))
        specs = [
            RunSpec(usual.device, flags=(*usual.flags, option), name=name)
            for name, option in kernels.kernels_in(source.read_text("utf-8", "replace"))
            if text in name
        ]
        compiled = _compiled(engine, alone, ref, folder / source.stem, specs)
        if isinstance(compiled, NoAnswer):
            return compiled
        size, dispatches = whole[0].bytes, whole[0].dispatches
        programs += [
            replace(program, bytes=size, dispatches=dispatches) for program in compiled
        ]
    why = f"{ref.revision.name} extracts no dispatch with {text!r} in its name"
    return programs or NoAnswer(Cause.NOT_FOUND, why)


def _compiled(
    engine: Engine,
    case: Case,
    ref: ToolchainRef,
    folder: Path,
    specs: Sequence[RunSpec],
    options: Sequence[str] = (),
    writes: tuple[Path, ...] = (),
) -> list[Program] | NoAnswer:
    """Compile a case into a new folder, with options that make the compiler write more
    into other folders; return its functions.
    """
    try:
        toolchain = engine.registry.obtain(ref)
    except EnvironmentFailure as error:
        return NoAnswer(Cause.ENVIRONMENT, str(error))
    counted = ((DISPATCHES, math.inf),)
    compiled_only = replace(case, phase=None, run=None, thresholds=counted)
    runs = []
    for spec in specs:
        spec = replace(spec, measured=True, expected=(), reference=None)
        task = engine.planner.plan(replace(compiled_only, run=spec), toolchain)
        run = task.outcome if isinstance(task, Probe) else task.run
        if not isinstance(run, RunTask):
            return _reason(run)
        assert run.measures
        runs.append(replace(run, options=(*run.options, run.measures.quick_option)))

    def with_options(invocation: Invocation) -> Invocation:
        return replace(invocation, printing=(*invocation.printing, *options))

    folder.mkdir(parents=True, exist_ok=True)
    module = folder / "program"
    compiled = engine.observe(
        compiled_only,
        toolchain,
        with_options,
        on_output=lambda output: shutil.move(output, module),
        writes=writes,
    )
    if isinstance(compiled, NoAnswer):
        return compiled
    if not is_regular(module):
        return _reason(judge(compiled, rules_of(case)))
    size, dispatches = module.stat().st_size, compiled.metrics.get(DISPATCHES)
    count = None if dispatches is None else int(dispatches)
    revision, stop = toolchain.revision, engine.stop
    return [Program(run, module, size, count, revision, stop) for run in runs]


def _reason(outcome: Outcome | None) -> NoAnswer:
    """Return why there is nothing to measure."""
    if isinstance(outcome, NoAnswer):
        return outcome
    assert isinstance(outcome, Failed)
    why = f"it does not compile: {outcome.failure.headline}"
    return NoAnswer(Cause.NOISE, why, outcome.failure)


def _public_function(
    engine: Engine, case: Case, ref: ToolchainRef
) -> RunSpec | NoAnswer:
    """Return the only public function of a program, on zeros, or why it cannot be
    measured.
    """
    toolchain = engine.registry.obtain(ref)
    tools = engine.compilers[case.compiler].mlir_tools(toolchain)
    prepared = engine.planner.input_of(case, toolchain)
    text = ""
    if tools and not isinstance(prepared, NoAnswer):
        text = Reader(tools, engine.stop).generic_form(prepared.path, elide=True) or ""
    try:
        functions = parse_module(text).functions()
    except UnparsableError:
        return NoAnswer(Cause.INPUT, "its input cannot be read")
    public = [
        function
        for function in functions
        if function.symbol and function.attribute("sym_visibility") != '"private"'
    ]
    advice = "name the functions with their inputs under `bench` in the recipe"
    if len(public) != 1:
        problem = "it does not have exactly one public function"
        return NoAnswer(Cause.RECIPE, f"{problem}; {advice}")
    arguments = public[0].regions[0].blocks[0].arguments
    zeros = [zero_of(value.type) for value in arguments]
    inputs = tuple(text for text in zeros if text is not None)
    if len(inputs) < len(zeros):
        problem = "the size of an argument is not known"
        return NoAnswer(Cause.RECIPE, f"{problem}; {advice}")
    return RunSpec(function=public[0].symbol, inputs=inputs)
