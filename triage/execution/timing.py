"""Measure the functions of compiled programs, and the compiles of cases, once."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.invocation import Invocation
from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.in_turn import Sampler
from triage.execution.judge import judge, rules_of
from triage.execution.metric import DISPATCHES, Metric, value_of
from triage.execution.mlir_tools import Reader
from triage.execution.reads import files_in
from triage.execution.run_task import no_program, with_readable_values
from triage.mlir import UnparsableError, parse_module
from triage.model.case import Case, Input, InputKind, RunSpec
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Execution, Limits
from triage.model.foreign_file import is_regular
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.processes.process import run
from triage.processes.sealing import Seal
from triage.recipes.run_values import zero_of
from triage.toolchains.home import KeptKind, temporary_folder
from triage.toolchains.registry import ToolchainRef

if TYPE_CHECKING:
    from triage.compilers.parts import Measures, Runner

_LIMITS = Limits(timeout=120.0, memory=8 << 30)
_ONE_THREAD = "--device=local-sync"


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program that can be measured."""

    runner: Runner
    measures: Measures
    tool: Path
    module: Path
    reads: tuple[Path, ...]
    """What the tool may read besides."""
    case: Case
    bytes: int
    """Size of the compiled file."""
    dispatches: int | None = None
    """How many kernels its functions start, if that is known."""

    def sample(self, engine: Engine, spec: RunSpec) -> float | NoAnswer:
        """Measure once, while nothing else of this program runs.

        Times of a device with one thread are CPU times: other work on the core does not
        count.
        """
        argv = self.measures.argv(self.runner, self.tool, self.module, self.case, spec)
        on_one_core = _ONE_THREAD in argv
        with temporary_folder() as folder:
            printed = Path(folder) / "printed"
            if on_one_core:
                argv = [*_words_to_pin(), *argv]
            surroundings = self.runner.surroundings(self.case, spec)
            reads = (
                *self.reads,
                *surroundings.reads,
                *self.case.reads,
                *files_in(argv),
            )
            execution = run(
                argv,
                _LIMITS,
                Path(folder),
                seal=Seal(reads, devices=surroundings.devices),
                env={**surroundings.variables, **dict(self.case.env)},
                stop=engine.stop,
                stdout_to=printed,
            )
            if is_regular(printed):
                output = printed.read_text("utf-8", "replace")
            else:
                output = ""
        if execution.ok:
            times = self.measures.seconds(output, cpu=on_one_core)
            if times:
                return times[0]
        # some versions print errors on standard output
        errors = execution.stderr.text.strip() or output.strip()
        if execution.signal:
            ending = f"signal {execution.signal}"
        else:
            ending = f"exit code {execution.exit_code}"
        unusable = self.runner.startup_failure(errors)
        if unusable:
            return unusable
        if errors:
            return NoAnswer(Cause.NOISE, errors.splitlines()[-1][:200])
        return NoAnswer(Cause.NOISE, f"the run ended with {ending}")


def compile_sampler(
    engine: Engine, metric: Metric, case: Case, ref: ToolchainRef
) -> Sampler:
    """Return what compiles a case and reads a number of the compile; one that varies is
    read of a new compile.
    """
    if metric.is_time:
        case = replace(case, run=None)

    def sample() -> float | NoAnswer:
        probe = engine.probe(case, ref, fresh=not metric.exact)
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
    whole = compile_measured(engine, case, ref, target, sources)
    if isinstance(whole, NoAnswer):
        return whole
    usual = next(iter(case.benchmarks), case.run) or RunSpec()
    measured: list[tuple[RunSpec, Program | NoAnswer]] = []
    programs = filter(is_regular, sorted(sources.glob("*.mlir")))
    for number, source in enumerate(programs):
        alone = replace(case, input=Input(source, InputKind.MLIR))
        program = compile_measured(
            engine, alone, ref, target.with_suffix(f".{number:04}")
        )
        if isinstance(program, Program):
            program = replace(program, bytes=whole.bytes, dispatches=whole.dispatches)
        for name, option in kernels.kernels_in(source.read_text("utf-8", "replace")):
            measured.append(
                (
                    RunSpec(
                        usual.device, None, flags=(*usual.flags, option), name=name
                    ),
                    program,
                )
            )
    why = f"{ref.revision.name} extracts none of its dispatches"
    return measured or NoAnswer(Cause.NOT_FOUND, why)


def compile_measured(
    engine: Engine,
    original: Case,
    ref: ToolchainRef,
    target: Path,
    sources: Path | None = None,
) -> Program | NoAnswer:
    """Compile a case into a file. sources: folder for a program of each kernel."""
    plain = replace(original, phase=None, run=None, thresholds=())
    family = engine.compilers[original.compiler]
    device, measures = family.run, family.measures
    if device is None or measures is None:
        why = f"{original.compiler} has nothing that measures compiled programs here"
        return NoAnswer(Cause.TARGET, why)
    try:
        toolchain = engine.registry.obtain(ref)
        root = engine.registry.runtime(toolchain, device.distribution)
    except EnvironmentFailure as error:
        return NoAnswer(Cause.ENVIRONMENT, str(error))
    tool = device.program(root, measured=True) or device.program(
        toolchain.program.parent, measured=True
    )
    if tool is None:
        return NoAnswer(Cause.TOOLCHAIN, no_program(toolchain, device.distribution))
    counted = replace(plain, thresholds=((DISPATCHES, math.inf),))
    if sources and family.kernels:
        sources.mkdir(exist_ok=True)
        extracting = family.kernels.extract_options(sources)
    else:
        extracting = []
    # the second for a compiler that cannot count
    for case, options in ((counted, extracting), (plain, [])):
        alter = partial(_with_options, options)
        compiled = engine.observe(
            case,
            toolchain,
            alter,
            on_output=lambda module: _keep(module, target),
            writes=(sources,) if sources else (),
        )
        if isinstance(compiled, NoAnswer):
            return compiled
        if is_regular(target):
            count = compiled.metrics.get(DISPATCHES)
            return Program(
                device,
                measures,
                tool,
                target,
                (root, *toolchain.reads),
                original,
                target.stat().st_size,
                None if count is None else int(count),
            )
    assert isinstance(compiled, Execution)
    outcome = judge(compiled, rules_of(plain))
    if isinstance(outcome, Failed):
        headline = outcome.failure.headline
        why = f"it does not compile: {headline}"
        return NoAnswer(Cause.NOISE, why, outcome.failure)
    if isinstance(outcome, NoAnswer):
        return outcome
    return NoAnswer(Cause.NOISE, "the compile wrote nothing")


def _with_options(options: Sequence[str], invocation: Invocation) -> Invocation:
    return replace(invocation, printing=(*invocation.printing, *options))


def _keep(module: Path, target: Path) -> None:
    shutil.move(module, target)


def functions_of(
    engine: Engine, case: Case, ref: ToolchainRef
) -> tuple[RunSpec, ...] | NoAnswer:
    """Return the functions to measure with their values: those of the recipe, else the
    only public one on zeros.
    """
    device = engine.compilers[case.compiler].run
    named = case.benchmarks or (
        (replace(case.run, expected=()),)
        if case.run is not None and case.run.inputs
        else ()
    )
    if any(spec.libraries for spec in named):
        why = "programs that load others are not measured side by side"
        return NoAnswer(Cause.RECIPE, why)
    if named and device is not None:
        try:
            for spec in named:
                missing = engine.planner.inputs.obtain(spec.artifacts)
                if missing:
                    return missing
            values = engine.registry.home.kept(KeptKind.VALUES)
            return tuple(
                replace(spec, inputs=with_readable_values(spec.inputs, values, device))
                for spec in named
            )
        except OSError as error:
            return NoAnswer(Cause.RECIPE, f"{error.filename}: {error.strerror}")
        except ValueError as error:
            return NoAnswer(Cause.RECIPE, str(error))
    if device is None:
        return NoAnswer(Cause.INPUT, "its input cannot be read")
    return _public_function(engine, case, ref)


def _public_function(
    engine: Engine, case: Case, ref: ToolchainRef
) -> tuple[RunSpec, ...] | NoAnswer:
    """Return the only public function of a program, on zeros, or why it cannot be
    measured.
    """
    toolchain = engine.registry.obtain(ref)
    tools = engine.compilers[case.compiler].mlir_tools(toolchain)
    prepared = engine.planner.input_of(case, toolchain)
    if tools is None or not isinstance(prepared, Prepared):
        return NoAnswer(Cause.INPUT, "its input cannot be read")
    text = Reader(tools, engine.stop).generic_form(prepared.path, elide=True)
    try:
        module = parse_module(text or "")
    except UnparsableError:
        return NoAnswer(Cause.INPUT, "its input cannot be read")
    functions = [
        function
        for function in module.functions()
        if function.attribute("sym_visibility") != '"private"'
    ]
    if len(functions) != 1 or functions[0].symbol is None:
        return NoAnswer(
            Cause.RECIPE,
            "it does not have exactly one public function; name the functions under "
            "`bench` in the recipe",
        )
    zeros = [
        zero_of(value.type) for value in functions[0].regions[0].blocks[0].arguments
    ]
    inputs = tuple(text for text in zeros if text is not None)
    if len(inputs) < len(zeros):
        return NoAnswer(
            Cause.RECIPE,
            "the size of an argument is not known; name inputs under `bench` in the "
            "recipe",
        )
    return (RunSpec(function=functions[0].symbol, inputs=inputs),)


def _words_to_pin() -> list[str]:
    """Return the words that keep a program on one core, none if that is impossible."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1 and shutil.which("taskset"):
        return ["taskset", "-c", str(cores[-1])]
    return []
