"""Measure the functions of compiled programs, and the compiles of cases, once."""

from __future__ import annotations

import math
import os
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
from triage.execution.reads import files_in
from triage.execution.run_task import RunTool, run_tool, with_readable_values
from triage.execution.task import Naming, ProbeJob
from triage.mlir import UnparsableError, parse_module
from triage.model.case import Case, Input, InputKind, RunSpec
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Limits
from triage.model.foreign_file import is_regular
from triage.model.outcome import Cause, Failed, NoAnswer, Outcome, Passed
from triage.processes.process import run
from triage.processes.sealing import Seal
from triage.recipes.run_values import zero_of
from triage.toolchains.home import KeptKind, temporary_folder
from triage.toolchains.registry import ToolchainRef

_LIMITS = Limits(timeout=120.0, memory=8 << 30)
_ONE_THREAD = "--device=local-sync"


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program that can be measured."""

    case: Case
    tool: RunTool
    module: Path
    bytes: int
    """Size of the compiled file."""
    dispatches: int | None = None
    """How many kernels its functions start, if that is known."""

    def sample(self, engine: Engine, spec: RunSpec) -> float | NoAnswer:
        """Measure once, while nothing else of this program runs.

        Times of a device with one thread are CPU times: other work on the core does not
        count.
        """
        family = engine.compilers[self.case.compiler]
        runner, measures = family.run, family.measures
        assert runner
        assert measures
        argv = measures.argv(runner, self.tool.path, self.module, self.case, spec)
        surroundings = runner.surroundings(self.case, spec)
        reads = (self.module, *self.tool.reads, *surroundings.reads, *self.case.reads)
        on_one_core = _ONE_THREAD in argv
        with temporary_folder() as folder:
            printed = folder / "printed"
            execution = run(
                [*_words_to_pin(), *argv] if on_one_core else argv,
                _LIMITS,
                folder,
                seal=Seal((*reads, *files_in(argv)), devices=surroundings.devices),
                env={**surroundings.variables, **dict(self.case.env)},
                stop=engine.stop,
                stdout_to=printed,
            )
            output = ""
            if is_regular(printed):
                output = printed.read_text("utf-8", "replace")
        times = measures.seconds(output, cpu=on_one_core)
        if execution.ok and times:
            return times[0]
        # some versions print errors on standard output
        errors = execution.stderr.text.strip() or output.strip()
        why = execution.ending_text(_LIMITS)
        if errors:
            why = errors.splitlines()[-1][:200]
        return runner.startup_failure(errors) or NoAnswer(Cause.NOISE, why)


def compile_sampler(
    engine: Engine,
    metric: Metric,
    case: Case,
    ref: ToolchainRef,
    once: Naming | None = None,
) -> Sampler:
    """Return what compiles a case and reads a number of the compile; one that varies is
    read of a new compile. With `once`, it is a trial.
    """
    if metric.is_time:
        case = replace(case, run=None)

    def sample() -> float | NoAnswer:
        fresh = not metric.exact
        job = ProbeJob(case, ref, fresh=fresh, here=True, once=once)
        probe = engine.probe(job)
        value = value_of(probe, metric)
        name = ref.revision.name
        if value is not None:
            return value
        if isinstance(probe.outcome, NoAnswer):
            return replace(probe.outcome, reason=f"{name}: {probe.outcome.reason}")
        if isinstance(probe.outcome, Failed):
            return NoAnswer(Cause.NOISE, f"it does not compile on {name}")
        names = sorted({*probe.measured.metrics, "cpu_seconds", "peak_rss_mb"})
        return NoAnswer(Cause.NOISE, f"on {name} it has {', '.join(names)}")

    return sample


def dispatch_programs(
    engine: Engine, case: Case, ref: ToolchainRef, target: Path
) -> list[tuple[RunSpec, Program | NoAnswer]] | NoAnswer:
    """Compile a case and, as programs of their own, each of its kernels.

    Each program has the size and the number of dispatches of the whole.
    """
    kernels = engine.compilers[case.compiler].kernels
    if kernels is None:
        why = f"{case.compiler} has no kernels that are measured alone"
        return NoAnswer(Cause.TARGET, why)
    sources = target.with_suffix(".dispatches")
    sources.mkdir(exist_ok=True)
    options = kernels.extract_options(sources)
    whole = compile_measured(engine, case, ref, target, options, (sources,))
    if isinstance(whole, NoAnswer):
        return whole
    usual = next(iter(case.benchmarks), case.run) or RunSpec()
    measured: list[tuple[RunSpec, Program | NoAnswer]] = []
    programs = filter(is_regular, sorted(sources.glob("*.mlir")))
    for number, source in enumerate(programs):
        alone = replace(case, input=Input(source, InputKind.MLIR))
        place = target.with_suffix(f".{number:04}")
        program = compile_measured(engine, alone, ref, place)
        if isinstance(program, Program):
            program = replace(program, bytes=whole.bytes, dispatches=whole.dispatches)
        for name, option in kernels.kernels_in(source.read_text("utf-8", "replace")):
            flags = (*usual.flags, option)
            spec = RunSpec(usual.device, None, flags=flags, name=name)
            measured.append((spec, program))
    why = f"{ref.revision.name} extracts none of its dispatches"
    return measured or NoAnswer(Cause.NOT_FOUND, why)


def compile_measured(
    engine: Engine,
    original: Case,
    ref: ToolchainRef,
    target: Path,
    options: Sequence[str] = (),
    writes: tuple[Path, ...] = (),
) -> Program | NoAnswer:
    """Compile a case into a file, with options that make the compiler write more into
    folders.
    """
    family = engine.compilers[original.compiler]
    if family.run is None or family.measures is None:
        why = f"{original.compiler} has nothing that measures compiled programs here"
        return NoAnswer(Cause.TARGET, why)
    try:
        toolchain = engine.registry.obtain(ref)
    except EnvironmentFailure as error:
        return NoAnswer(Cause.ENVIRONMENT, str(error))
    tool = run_tool(engine.registry, toolchain, family.run, measured=True)
    if isinstance(tool, NoAnswer):
        return tool
    plain = replace(original, phase=None, run=None, thresholds=())
    counted = replace(plain, thresholds=((DISPATCHES, math.inf),))

    def with_options(invocation: Invocation) -> Invocation:
        return replace(invocation, printing=(*invocation.printing, *options))

    outcome: Outcome = Passed()
    for case in (counted, plain):  # the second for a compiler that cannot count
        compiled = engine.observe(
            case,
            toolchain,
            with_options,
            on_output=lambda module: shutil.move(module, target),
            writes=writes,
        )
        if isinstance(compiled, NoAnswer):
            return compiled
        if is_regular(target):
            count = compiled.metrics.get(DISPATCHES)
            dispatches = None if count is None else int(count)
            size = target.stat().st_size
            return Program(original, tool, target, size, dispatches)
        outcome = judge(compiled, rules_of(case))
    if isinstance(outcome, NoAnswer):
        return outcome
    why = "the compile wrote nothing"
    if outcome.failure:
        why = f"it does not compile: {outcome.failure.headline}"
    return NoAnswer(Cause.NOISE, why, outcome.failure)


def functions_of(
    engine: Engine, case: Case, ref: ToolchainRef
) -> tuple[RunSpec, ...] | NoAnswer:
    """Return the functions to measure with their values: those of the recipe, else the
    only public one on zeros.
    """
    device, named = engine.compilers[case.compiler].run, case.benchmarks
    if not named and case.run and case.run.inputs:
        named = (replace(case.run, expected=()),)
    if device is None or not named:
        return _public_function(engine, case, ref)
    if any(spec.libraries for spec in named):
        why = "programs that load others are not measured side by side"
        return NoAnswer(Cause.RECIPE, why)
    values = engine.registry.home.kept(KeptKind.VALUES)
    specs = []
    for spec in named:
        missing = engine.planner.inputs.obtain(spec.artifacts)
        if missing:
            return missing
        try:
            inputs = with_readable_values(spec.inputs, values, device)
        except OSError as error:
            return NoAnswer(Cause.RECIPE, f"{error.filename}: {error.strerror}")
        except ValueError as error:
            return NoAnswer(Cause.RECIPE, str(error))
        specs.append(replace(spec, inputs=inputs))
    return tuple(specs)


def _public_function(
    engine: Engine, case: Case, ref: ToolchainRef
) -> tuple[RunSpec, ...] | NoAnswer:
    """Return the only public function of a program, on zeros, or why it cannot be
    measured.
    """
    unreadable = NoAnswer(Cause.INPUT, "its input cannot be read")
    toolchain = engine.registry.obtain(ref)
    tools = engine.compilers[case.compiler].mlir_tools(toolchain)
    prepared = engine.planner.input_of(case, toolchain)
    if tools is None or isinstance(prepared, NoAnswer):
        return unreadable
    text = Reader(tools, engine.stop).generic_form(prepared.path, elide=True)
    try:
        functions = parse_module(text or "").functions()
    except UnparsableError:
        return unreadable
    public = [
        function
        for function in functions
        if function.symbol and function.attribute("sym_visibility") != '"private"'
    ]
    if len(public) != 1:
        problem = "it does not have exactly one public function; name the functions"
        return NoAnswer(Cause.RECIPE, f"{problem} under `bench` in the recipe")
    arguments = public[0].regions[0].blocks[0].arguments
    zeros = [zero_of(value.type) for value in arguments]
    inputs = tuple(text for text in zeros if text is not None)
    if len(inputs) < len(zeros):
        problem = "the size of an argument is not known; name inputs"
        return NoAnswer(Cause.RECIPE, f"{problem} under `bench` in the recipe")
    return (RunSpec(function=public[0].symbol, inputs=inputs),)


def _words_to_pin() -> list[str]:
    """Return the words that keep a program on one core, none if that is impossible."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1 and shutil.which("taskset"):
        return ["taskset", "-c", str(cores[-1])]
    return []
