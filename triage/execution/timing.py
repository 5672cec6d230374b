"""Measure how long compiled programs take: all configurations in turn, on one core, until the intervals are narrow enough."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from triage.compilers.base import Runner
from triage.execution.inputs import Prepared
from triage.execution.mlir_tools import Reader
from triage.execution.process import run
from triage.execution.runner import ProbeRunner
from triage.execution.statistics import LEAST, Comparison, Pace, compare_times
from triage.mlir import UnparsableError, parse_module
from triage.model.case import Case, RunSpec
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Limits
from triage.model.outcome import Compiled, Failed, Untestable
from triage.toolchains.registry import ToolchainRef

_LIMITS = Limits(timeout=120.0, memory=8 << 30)
_MOST_ROUNDS = 60
_REPETITIONS = 5  # for a single program, which nothing is compared with
_ONE_THREAD = ("--device=local-sync",)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A case compiled with a toolchain: a row of the table."""

    case: Case
    ref: ToolchainRef

    @property
    def name(self) -> str:
        return f"{self.case.name} on {self.ref.revision.name}"


@dataclass(slots=True)
class Series:
    """The times of one function in one configuration, in seconds. reason: why there are none."""

    configuration: Configuration
    function: str
    samples: list[float] = field(default_factory=list)
    reason: str | None = None
    comparison: Comparison | None = None

    @property
    def median(self) -> float | None:
        return median(self.samples) if self.samples else None


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """Times of all configurations. baseline: the configuration that the others are compared with; sizes: bytes of the
    compiled programs by configuration; seconds: duration of the measurement.
    """

    configurations: tuple[Configuration, ...]
    functions: tuple[str, ...]
    series: tuple[Series, ...]
    baseline: Configuration
    sizes: dict[str, int]
    threshold: float
    seconds: float

    def of(self, configuration: Configuration, function: str) -> Series | None:
        """Return the series in one cell of the table."""
        matches = (row for row in self.series if row.configuration == configuration and row.function == function)
        return next(matches, None)


@dataclass(frozen=True, slots=True)
class _Program:
    """A compiled program that can be measured."""

    runner: Runner
    tool: Path
    module: Path
    case: Case

    def sample(self, probe_runner: ProbeRunner, spec: RunSpec, repetitions: int = 1) -> list[float] | str:
        """Measure once; the reason when it does not run. Nothing else of this program runs meanwhile."""
        argv = self.runner.benchmark_argv(self.tool, self.module, self.case, spec, repetitions)
        with TemporaryDirectory() as folder:
            printed = Path(folder) / "printed"
            execution = run(
                [*_pinned(argv), *argv],
                _LIMITS,
                Path(folder),
                env=dict(self.case.env),
                stop=probe_runner.stop,
                stdout_to=printed,
            )
            times = self.runner.seconds(printed.read_text("utf-8", "replace")) if execution.ok else []
        if times:
            return times
        missing = self.runner.missing_device(execution.stderr.text)
        return missing or execution.stderr.last_line[:200] or f"the run ended with {execution.ending}"


def measure(
    runner: ProbeRunner, configurations: Sequence[Configuration], *, threshold: float, budget: float
) -> BenchmarkResult:
    """Compile every configuration and measure them in turn, forwards and backwards, so that drift affects all alike.

    threshold: the smallest change that counts; budget: seconds to measure for. It ends earlier when every verdict is clear.
    The first configuration is the baseline.
    """
    started = time.monotonic()
    task = runner.progress.task("compile", total=len(configurations))
    with TemporaryDirectory() as folder:
        cells: list[tuple[Series, _Program, RunSpec]] = []
        rows: list[Series] = []
        sizes: dict[str, int] = {}
        for index, configuration in enumerate(configurations):
            task.describe(f"compile  {configuration.name}")
            program = _compiled(runner, configuration, Path(folder) / f"{index}.out")
            specs = () if isinstance(program, str) else functions_of(runner, configuration.case, configuration.ref)
            if isinstance(program, str) or isinstance(specs, str):
                reason = program if isinstance(program, str) else str(specs)
                rows.append(Series(configuration, "", reason=reason))
            else:
                sizes[configuration.name] = program.module.stat().st_size
                new = [(Series(configuration, spec.function or "main"), program, spec) for spec in specs]
                rows += [series for series, _, _ in new]
                cells += new
            task.advance()
        task.finish()
        _measure_in_turn(runner, cells, configurations[0], threshold, budget)
    functions = tuple(dict.fromkeys(series.function for series in rows if series.function))
    seconds = time.monotonic() - started
    return BenchmarkResult(tuple(configurations), functions, tuple(rows), configurations[0], sizes, threshold, seconds)


def _measure_in_turn(
    runner: ProbeRunner,
    cells: Sequence[tuple[Series, _Program, RunSpec]],
    baseline: Configuration,
    threshold: float,
    budget: float,
) -> None:
    """Add samples to the series of all cells, and compare each with the baseline's."""
    first = {series.function: series for series, _, _ in cells if series.configuration == baseline}
    task = runner.progress.task("measure")
    end = time.monotonic() + budget
    undecided = list(cells)
    for number in range(_MOST_ROUNDS + 1):
        if not undecided or (number > LEAST and time.monotonic() > end):
            break
        task.describe(f"measure  round {number + 1}")
        for series, program, spec in undecided if number % 2 else reversed(undecided):
            times = program.sample(runner, spec)
            if isinstance(times, str):
                series.reason = times
            elif number:  # the first round warms up
                series.samples += times
        for series, _, _ in undecided:
            base = first.get(series.function)
            if base is not None and base is not series:
                series.comparison = compare_times(base.samples, series.samples, threshold)
        # All configurations of a function go on together: the baseline's samples must be of the same minutes.
        functions = {series.function for series, _, _ in undecided if _is_open(series, first.get(series.function))}
        undecided = [cell for cell in undecided if cell[0].function in functions and cell[0].reason is None]
    task.finish()


def _is_open(series: Series, base: Series | None) -> bool:
    """Whether a series needs more samples."""
    if series.reason is not None:
        return False
    if base is None or base is series:
        return len(series.samples) < LEAST
    return base.reason is None and (series.comparison is None or series.comparison.pace is Pace.NOISY)


def timed(runner: ProbeRunner, case: Case, ref: ToolchainRef) -> dict[str, float] | str:
    """Compile the case completely and run its function. Nothing else runs meanwhile.

    Returns:
        The median, least and largest wall time of the repetitions in milliseconds; the reason when it cannot be run.
    """
    with TemporaryDirectory() as folder:
        program = _compiled(runner, Configuration(case, ref), Path(folder) / "out")
        specs = functions_of(runner, case, ref) if isinstance(program, _Program) else program
        if isinstance(program, str) or isinstance(specs, str):
            return specs if isinstance(specs, str) else str(program)
        times = program.sample(runner, specs[0], _REPETITIONS)
    if isinstance(times, str):
        return times
    milliseconds = [1000 * seconds for seconds in times]
    return {"run_ms": median(milliseconds), "run_ms_least": min(milliseconds), "run_ms_most": max(milliseconds)}


def _compiled(runner: ProbeRunner, configuration: Configuration, target: Path) -> _Program | str:
    """Compile a configuration into a file; the reason when it cannot be measured."""
    case = replace(configuration.case, phase=None, run=None)
    device = runner.prober.compilers[case.compiler].runner()
    if device is None:
        return f"{case.compiler} has nothing that runs compiled programs here"
    try:
        toolchain = runner.registry.obtain(configuration.ref)
        root = runner.registry.runtime(toolchain, device.distribution)
    except EnvironmentFailure as error:
        return str(error)
    tool = device.benchmark_program(root) or device.benchmark_program(toolchain.program.parent)
    if tool is None:
        return f"{toolchain.revision.name} comes without a program that measures"
    compiled = runner.prober.observe(
        case, toolchain, lambda invocation: invocation, on_output=lambda module: _keep(module, target)
    )
    if isinstance(compiled, Untestable):
        return compiled.reason
    if not target.is_file():
        outcome = runner.probe(case, configuration.ref).outcome
        match outcome:
            case Failed(failure):
                return f"it does not compile: {failure.headline}"
            case Untestable(reason=reason):
                return reason
            case Compiled():
                return "it did not compile again"
    return _Program(device, tool, target, configuration.case)


def _keep(module: Path, target: Path) -> None:
    shutil.move(module, target)


def functions_of(runner: ProbeRunner, case: Case, ref: ToolchainRef) -> tuple[RunSpec, ...] | str:
    """Return the functions to measure with their values: those of the recipe, else the only public one on zeros."""
    if case.benchmarks:
        return case.benchmarks
    if case.run is not None and case.run.inputs:
        return (replace(case.run, expected=()),)
    toolchain = runner.registry.obtain(ref)
    tools, prepared = runner.prober.mlir_tools(case, toolchain), runner.prober.input_of(case, toolchain)
    device = runner.prober.compilers[case.compiler].runner()
    if tools is None or device is None or not isinstance(prepared, Prepared):
        return "its input cannot be read"
    text = Reader(tools, runner.stop).generic(prepared.path, elide=True)
    try:
        module = parse_module(text or "")
    except UnparsableError:
        return "its input cannot be read"
    functions = [function for function in module.functions() if function.attribute("sym_visibility") != '"private"']
    if len(functions) != 1 or functions[0].symbol is None:
        return "it does not have exactly one public function; name the functions under `bench` in the recipe"
    zeros = device.zeros(tuple(value.type for value in functions[0].regions[0].blocks[0].arguments))
    if zeros is None:
        return "the size of an argument is not known; name inputs under `bench` in the recipe"
    return (RunSpec(function=functions[0].symbol, inputs=zeros),)


def _pinned(argv: Sequence[str]) -> list[str]:
    """The words that keep a program with one thread on one core; none where that is not possible."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 or not set(_ONE_THREAD) & set(argv) or shutil.which("taskset") is None:
        return []
    return ["taskset", "-c", str(cores[-1])]
