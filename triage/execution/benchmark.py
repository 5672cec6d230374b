"""Measure the functions of compiled programs in turn, until the intervals of their
ratios are narrow enough.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self

from triage.compilers.invocation import QUICK_OPTION, measured_seconds
from triage.execution.engine import Engine
from triage.execution.in_turn import (
    CONFIDENCE,
    LOOKS,
    Contender,
    Pace,
    Ratio,
    measure_in_turn,
    ratio_of,
)
from triage.execution.judge import (
    DISPATCHES,
    NoTask,
    judge,
    recipe_mistake,
    rules_of,
    why_unusable,
)
from triage.execution.task import ProbeJob, RunTask
from triage.model.case import Case, Input, InputKind, RunSpec
from triage.model.content import is_regular
from triage.model.fields import UNPRINTED, in_json, key
from triage.model.outcome import Cause, Exit, NoAnswer, Probe
from triage.model.revision import Revision
from triage.processes.process import StopSignal
from triage.toolchains.home import temporary_folder
from triage.toolchains.registry import ToolchainRef

_GRACE = 300.0  # seconds more for the least number of samples
_ONE_THREAD = "--device=local-sync"

# Programs


@dataclass(frozen=True)
class TimedProgram:
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
        execution = run.start(self.module, self.stop)
        is_alone = _ONE_THREAD in run.runner.options(run.case, run.spec)
        times = measured_seconds(execution.stdout.text, cpu=is_alone)
        if execution.ok and times:
            return times[0]
        # some versions print errors on standard output
        printed = execution.stdout if execution.stderr.empty else execution.stderr
        why = printed.last_line[:200] or execution.ending_text(run.spec.limits)
        return run.runner.startup_failure(printed.text) or NoAnswer(Cause.NOISE, why)


def compile_functions(
    engine: Engine,
    case: Case,
    ref: ToolchainRef,
    folder: Path,
    dispatch: str | None = None,
) -> list[TimedProgram]:
    """Compile a case; return the functions that its recipe measures, or else runs.
    Raises NoTask if there is none.

    With `dispatch`, return its kernels with this text in their names instead, each with
    the size and the number of dispatches of the whole.
    """
    specs = case.benchmarks or tuple(filter(None, [case.run]))
    if dispatch is not None:
        usual = (*specs, RunSpec())[0]
        return _compile_dispatches(engine, case, ref, folder, usual, dispatch)
    if not specs:
        advice = "name the functions with their inputs under `bench` in the recipe"
        raise recipe_mistake(advice)
    return _compile_programs(engine, case, ref, folder, specs)


def _compile_dispatches(
    engine: Engine,
    case: Case,
    ref: ToolchainRef,
    folder: Path,
    usual: RunSpec,
    text: str,
) -> list[TimedProgram]:
    kernels = engine.compilers[case.compiler].kernels
    if kernels is None:
        why = f"{case.compiler} has no kernels that are measured alone"
        raise NoTask(NoAnswer(Cause.TARGET, why))
    sources = folder / "dispatches"
    sources.mkdir(parents=True)
    whole = _compile_programs(engine, case, ref, folder, [usual], extracted=sources)
    size = whole[0].bytes
    dispatches = whole[0].dispatches
    programs: list[TimedProgram] = []
    for source in filter(is_regular, sorted(sources.glob("*.mlir"))):
        alone = replace(case, input=Input(source, InputKind.MLIR))
        named = [
            RunSpec(usual.device, flags=(*usual.flags, option), name=name)
            for name, option in kernels.kernels_in(source.read_text("utf-8", "replace"))
            if text in name
        ]
        if not named:
            continue
        compiled = _compile_programs(engine, alone, ref, folder / source.stem, named)
        programs += [
            replace(program, bytes=size, dispatches=dispatches) for program in compiled
        ]
    if not programs:
        why = f"{ref.revision.name} extracts no dispatch with {text!r} in its name"
        raise NoTask(NoAnswer(Cause.NOT_FOUND, why))
    return programs


def _compile_programs(
    engine: Engine,
    case: Case,
    ref: ToolchainRef,
    folder: Path,
    specs: Sequence[RunSpec],
    extracted: Path | None = None,
) -> list[TimedProgram]:
    """Compile a case into a folder, and write its kernels to another one if there is
    one; return its functions.
    """
    tasks = []
    runs = []
    for spec in specs:
        spec = replace(spec, measured=True, expected=(), reference=None)
        alone = replace(case, run=spec, phase=None)
        task = engine.plan(ProbeJob(alone, ref, resources=True))
        if isinstance(task, Probe):
            raise NoTask(why_unusable(task.outcome))
        run = task.runnable()
        tasks.append(task)
        quick = replace(run.spec, flags=(*run.spec.flags, QUICK_OPTION))
        runs.append(replace(run, spec=quick))
    task = tasks[0]
    kernels = task.compiler.kernels
    if extracted and kernels:
        printing = (*task.invocation.printing, *kernels.extract_options(extracted))
        invocation = replace(task.invocation, printing=printing)
        task = replace(task, invocation=invocation, writes=(extracted,))
    folder.mkdir(parents=True, exist_ok=True)
    module = folder / "program"
    compiled = engine.compile(
        task,
        engine.stop,
        on_output=lambda output: shutil.move(output, module),
    )
    if not is_regular(module):
        raise NoTask(why_unusable(judge(compiled, rules_of(case))))
    size = module.stat().st_size
    dispatches = compiled.metrics.get(DISPATCHES)
    count = None if dispatches is None else int(dispatches)
    revision = task.toolchain.revision
    stop = engine.stop
    return [TimedProgram(run, module, size, count, revision, stop) for run in runs]


# Their comparison


@dataclass
class Series(Contender):
    """The times of one function in one configuration."""

    configuration: ProbeJob = field(metadata=UNPRINTED)
    function: str = ""
    program: TimedProgram | None = field(default=None, metadata=UNPRINTED)
    change: Ratio | None = field(default=None, metadata=UNPRINTED)
    """To the baseline."""
    verdict: Pace | None = None

    @in_json
    def case(self) -> str:
        return self.configuration.case.name

    @in_json
    def toolchain(self) -> Revision | None:
        """What the toolchain reports, once the case was compiled."""
        return getattr(self.program, "toolchain", None)

    @in_json
    def ratio(self) -> float | None:
        return getattr(self.change, "value", None)

    @in_json
    def low(self) -> float | None:
        return getattr(self.change, "low", None)

    @in_json
    def high(self) -> float | None:
        return getattr(self.change, "high", None)


@dataclass
class Benchmark:
    """Times of all configurations. While `measure` runs it holds what is known so far,
    which can be reported at any time.
    """

    configurations: Sequence[ProbeJob] = field(metadata=UNPRINTED)
    """The first one is the baseline, with which the others are compared."""
    smallest_change: ClassVar[float] = 0.05
    series: list[Series] = field(default_factory=list, metadata=key("results"))
    stopped: bool = field(default=False, metadata=key("partial"))
    """The measurement was interrupted."""

    @property
    def exit(self) -> Exit:
        paces = {series.verdict for series in self.series}
        if Pace.SLOWER in paces:
            return Exit.FAILURE
        if Pace.NOISY in paces or any(series.reason for series in self.series):
            return Exit.INCONCLUSIVE
        return Exit.OK

    @in_json
    def baseline(self) -> Series | None:
        """The first times of the baseline, None before it is compiled."""
        return next(iter(self.rows(self.configurations[0]).values()), None)

    @in_json
    def confidence(self) -> float:
        """The probability that an interval holds the true ratio."""
        return CONFIDENCE

    @in_json
    def sizes(self) -> list[Mapping[str, object]]:
        """The size of each compiled program, and how many kernels its functions
        start.
        """
        sizes: dict[str, Mapping[str, object]] = {}
        for row in self.series:
            if row.program:
                sizes[row.configuration.name] = {
                    "case": row.case,
                    "toolchain": row.toolchain,
                    "bytes": row.program.bytes,
                    "dispatches": row.program.dispatches,
                }
        return [*sizes.values()]

    def rows(self, configuration: ProbeJob) -> dict[str, Series]:
        """Return the series of one configuration by function."""
        return {
            row.function: row
            for row in self.series
            if row.configuration == configuration
        }

    def measure(
        self, engine: Engine, budget: float, dispatch: str | None = None
    ) -> Self:
        """Compile every configuration, and measure them in turn.

        It ends when every verdict is clear, or `budget` seconds after the compiles. The
        least number of samples is taken even then, unless that takes much longer. With
        `dispatch`, kernels with this text in their names are measured instead of
        functions.
        """
        with temporary_folder() as folder:
            # paths have one length: that of a command moves the stack, and some times
            for index, configuration in enumerate(self.configurations):
                case = configuration.case
                ref = configuration.ref
                target = folder / f"{index:04}"
                try:
                    with engine.progress.task(f"compile  {configuration.name}"):
                        programs = compile_functions(
                            engine, case, ref, target, dispatch
                        )
                except NoTask as error:
                    self.series.append(Series(configuration, problem=error.why))
                    continue
                for program in programs:
                    label = program.label
                    if dispatch is not None:
                        # where the whole is split otherwise, another kernel has the
                        # same name
                        label += f" of {program.dispatches}"
                    row = Series(configuration, label, program, sampler=program.sample)
                    self.series.append(row)
            self._measure_in_turn(engine, time.monotonic() + budget)
        return self

    def _measure_in_turn(self, engine: Engine, end: float) -> None:
        base = self.rows(self.configurations[0])
        undecided = [row for row in self.series if row.program]
        with engine.progress.task("measure") as update:
            for samples_taken in measure_in_turn(undecided, end, _GRACE):
                update(f"measure  round {samples_taken + 1}", 0)
                if samples_taken not in LOOKS:
                    continue
                noisy = set()
                for row in undecided:
                    other = base.get(row.function)
                    if other is None or other is row:
                        continue
                    row.change = ratio_of(other.samples, row.samples)
                    if row.change:
                        row.verdict = row.change.pace(self.smallest_change)
                    if row.verdict is Pace.NOISY:
                        noisy.add(row.function)
                # All configurations of a function go on together: the baseline's
                # samples must be of the same minutes.
                undecided[:] = [row for row in undecided if row.function in noisy]
