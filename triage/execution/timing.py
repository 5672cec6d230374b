"""Compile programs that are measured, and measure them and their compiles once."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.compilers.invocation import Invocation
from triage.compilers.parts import Measures, Runner
from triage.execution.engine import Engine
from triage.execution.in_turn import Sampler
from triage.execution.judge import judge, rules_of
from triage.execution.metric import DISPATCHES, Metric, value_of
from triage.execution.mlir_tools import Reader
from triage.execution.reads import files_in
from triage.execution.run_task import RunTool, run_tool, with_readable_values
from triage.execution.task import Naming, ProbeJob
from triage.mlir import UnparsableError, parse_module
from triage.model.case import Case, Input, InputKind, RunSpec
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Limits
from triage.model.foreign_file import is_regular
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.model.revision import Revision
from triage.processes.process import run
from triage.processes.sealing import Seal
from triage.recipes.run_values import zero_of
from triage.toolchains.home import KeptKind, temporary_folder
from triage.toolchains.registry import ToolchainRef

_LIMITS = Limits(timeout=120.0, memory=8 << 30)
_ONE_THREAD = "--device=local-sync"


@dataclass(frozen=True, slots=True)
class Program:
    """A function of a compiled program, which can be measured."""

    engine: Engine
    case: Case
    runner: Runner
    measures: Measures
    tool: RunTool
    module: Path
    bytes: int
    """Size of the compiled file."""
    dispatches: int | None
    """How many kernels its functions start, if that is known."""
    toolchain: Revision
    spec: RunSpec

    def sample(self) -> float | NoAnswer:
        """Measure once, while nothing else of this program runs.

        Times of a device with one thread are CPU times: other work on the core does not
        count.
        """
        runner, case, spec = self.runner, self.case, self.spec
        argv = self.measures.argv(runner, self.tool.path, self.module, case, spec)
        surroundings = runner.surroundings(case, spec)
        reads = (self.module, *self.tool.reads, *surroundings.reads, *case.reads)
        with temporary_folder() as folder:
            execution = run(
                argv,
                _LIMITS,
                folder,
                seal=Seal((*reads, *files_in(argv)), devices=surroundings.devices),
                env={**surroundings.variables, **dict(case.env)},
                stop=self.engine.stop,
            )
        times = self.measures.seconds(execution.stdout.text, cpu=_ONE_THREAD in argv)
        if execution.ok and times:
            return times[0]
        # some versions print errors on standard output
        printed = execution.stderr if not execution.stderr.empty else execution.stdout
        why = printed.last_line[:200] or execution.ending_text(_LIMITS)
        return runner.startup_failure(printed.text) or NoAnswer(Cause.NOISE, why)


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
    engine: Engine, case: Case, ref: ToolchainRef, target: Path, reader: ToolchainRef
) -> list[Program] | NoAnswer:
    """Compile a case; return the functions to measure with their values: those of the
    recipe, else the only public one on zeros. reader: the toolchain that reads the
    program to find this one.
    """
    program = compile_program(engine, case, ref, target)
    if isinstance(program, NoAnswer):
        return program
    specs = case.benchmarks
    if not specs and case.run and case.run.inputs:
        specs = (replace(case.run, expected=()),)
    if not specs:
        public = _public_function(engine, case, reader)
        if isinstance(public, NoAnswer):
            return public
        return [replace(program, spec=public)]
    programs, values = [], engine.registry.home.kept(KeptKind.VALUES)
    for spec in specs:
        missing = engine.planner.inputs.obtain(spec.artifacts)
        if missing:
            return missing
        try:
            inputs = with_readable_values(spec.inputs, values, program.runner)
        except (OSError, ValueError) as error:
            return NoAnswer(Cause.RECIPE, str(error))
        programs.append(replace(program, spec=replace(spec, inputs=inputs)))
    return programs


def dispatch_programs(
    engine: Engine, case: Case, ref: ToolchainRef, target: Path, text: str
) -> list[Program] | NoAnswer:
    """Compile a case and, as programs of their own, its kernels with a text in their
    names.

    Each program has the size and the number of dispatches of the whole.
    """
    kernels = engine.compilers[case.compiler].kernels
    if kernels is None:
        why = f"{case.compiler} has no kernels that are measured alone"
        return NoAnswer(Cause.TARGET, why)
    sources = target.with_suffix(".dispatches")
    sources.mkdir()
    options = kernels.extract_options(sources)
    whole = compile_program(engine, case, ref, target, options, (sources,))
    if isinstance(whole, NoAnswer):
        return whole
    usual = next(iter(case.benchmarks), case.run) or RunSpec()
    programs = []
    for number, source in enumerate(filter(is_regular, sorted(sources.glob("*.mlir")))):
        alone = replace(case, input=Input(source, InputKind.MLIR))
        place = target.with_suffix(f".{number:04}")
        program = compile_program(engine, alone, ref, place)
        if isinstance(program, NoAnswer):
            return program
        program = replace(program, bytes=whole.bytes, dispatches=whole.dispatches)
        for name, option in kernels.kernels_in(source.read_text("utf-8", "replace")):
            flags = (*usual.flags, option)
            spec = RunSpec(usual.device, None, flags=flags, name=name)
            if text in name:
                programs.append(replace(program, spec=spec))
    why = f"{ref.revision.name} extracts no dispatch with {text!r} in its name"
    return programs or NoAnswer(Cause.NOT_FOUND, why)


def compile_program(
    engine: Engine,
    case: Case,
    ref: ToolchainRef,
    target: Path,
    options: Sequence[str] = (),
    writes: tuple[Path, ...] = (),
) -> Program | NoAnswer:
    """Compile a case into a file, with options that make the compiler write more into
    folders.
    """
    family = engine.compilers[case.compiler]
    if family.run is None or family.measures is None:
        why = f"{case.compiler} has nothing that measures compiled programs here"
        return NoAnswer(Cause.TARGET, why)
    try:
        toolchain = engine.registry.obtain(ref)
    except EnvironmentFailure as error:
        return NoAnswer(Cause.ENVIRONMENT, str(error))
    tool = run_tool(engine.registry, toolchain, family.run, measured=True)
    if isinstance(tool, NoAnswer):
        return tool

    def with_options(invocation: Invocation) -> Invocation:
        return replace(invocation, printing=(*invocation.printing, *options))

    counted = ((DISPATCHES, math.inf),)
    compiled = engine.observe(
        replace(case, phase=None, run=None, thresholds=counted),
        toolchain,
        with_options,
        on_output=lambda module: shutil.move(module, target),
        writes=writes,
    )
    if isinstance(compiled, NoAnswer):
        return compiled
    if is_regular(target):
        size, count = target.stat().st_size, compiled.metrics.get(DISPATCHES)
        dispatches = None if count is None else int(count)
        return Program(
            engine,
            case,
            family.run,
            family.measures,
            tool,
            target,
            size,
            dispatches,
            toolchain.revision,
            RunSpec(),
        )
    outcome = judge(compiled, rules_of(case))
    if isinstance(outcome, NoAnswer):
        return outcome
    why = "the compile wrote nothing"
    if outcome.failure:
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
