"""Numbers of compiles that succeed, and a compile read as a failure because its number is too large. More is worse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from triage.compilers.base import Runner
from triage.compilers.invocation import Invocation
from triage.execution.inputs import Prepared
from triage.execution.mlir_tools import Reader
from triage.execution.prober import Prober
from triage.execution.process import run
from triage.execution.runner import ProbeRunner
from triage.mlir import UnparsableError, parse_module
from triage.model.case import Case
from triage.model.execution import Limits
from triage.model.outcome import Compiled, Failed, Failure, Probe, Untestable
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef

_NEAR = 1.3  # a value this close to the threshold, as a factor, is measured again
TIMES = 3  # measurements at most; the smallest counts, since a busy machine only adds


class Metric(StrEnum):
    """What is measured of a compile that succeeds."""

    CPU_SECONDS = "cpu_seconds"
    PEAK_RSS_MB = "peak_rss_mb"
    ARTIFACT_BYTES = "artifact_bytes"
    BINARY_BYTES = "binary_bytes"
    SHARED_BYTES = "shared_bytes"
    REGISTERS = "registers"
    SPILL_BYTES = "spill_bytes"

    @property
    def exact(self) -> bool:
        """Whether it is the same each time, however busy the machine is."""
        return self not in (Metric.CPU_SECONDS, Metric.PEAK_RSS_MB)


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads a compile whose number lies above the threshold as a failure of its own class, so that every search that
    looks for failures looks for numbers as well. Other failures stay what they are.
    """

    metric: Metric
    threshold: float

    def __call__(self, prober: Prober, toolchain: Toolchain, probe: Probe) -> Probe:
        """Measured again, nothing recalled, while the value lies too near to the threshold."""
        value = value_of(probe, self.metric)
        for _ in range(TIMES - 1):
            if value is None or self.metric.exact or not self.threshold / _NEAR < value < self.threshold * _NEAR:
                break
            again = value_of(prober.probe(probe.case, toolchain, fresh=True), self.metric)
            value = value if again is None else min(value, again)
        if value is None or value <= self.threshold:
            return probe
        return replace(probe, outcome=Failed(self._failure(value)))

    def _failure(self, value: float) -> Failure:
        words = f"{self.metric} is {value:.4g}, above {self.threshold:.4g}"
        name = f"metric:{self.metric}"
        return Failure("metric", "metric", name, words, details={"value": f"{value:.4g}", "threshold": f"{self.threshold:.4g}"})


def value_of(probe: Probe, metric: Metric) -> float | None:
    """The number; None where the case did not compile or it was not measured."""
    if not isinstance(probe.outcome, Compiled):
        return None
    match metric:
        case Metric.CPU_SECONDS:
            return probe.measured.cpu_seconds
        case Metric.PEAK_RSS_MB:
            return probe.measured.peak_rss_mb
        case _:
            return probe.measured.metrics.get(metric.value)


_LIMITS = Limits(timeout=120.0, memory=8 << 30)


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall seconds of one function's repetitions, its inputs zeros."""

    seconds: tuple[float, ...]

    def metrics(self) -> dict[str, float]:
        """The median in milliseconds, and the least and the most."""
        milliseconds = [1000 * one for one in self.seconds]
        return {"run_ms": median(milliseconds), "run_ms_least": min(milliseconds), "run_ms_most": max(milliseconds)}


def timed(bench: ProbeRunner, case: Case, place: ToolchainRef, runner: Runner) -> Timing | str:
    """The case compiled once more, all the way, and run; or why it is not. Nothing else is started meanwhile."""
    toolchain = bench.shed.obtain(place)
    program = runner.program(bench.shed.beside(place, runner.distribution))
    entry = _entry(bench, case, toolchain)
    if program is None or isinstance(entry, str):
        return entry if isinstance(entry, str) else f"{runner.distribution} {place.revision.name} has no program that runs one"
    found: list[float] = []
    why = ["it did not compile again"]

    def start(module: Path) -> None:
        argv = runner.argv(program, module, *entry)
        if argv is None:
            why[0] = "the size of an argument is not known"
            return
        with TemporaryDirectory() as folder:
            execution = run(argv, _LIMITS, Path(folder), stop=bench.stop, stdout_to=(said := Path(folder) / "said"))
            found.extend(runner.seconds(said.read_text("utf-8", "replace")) if execution.ok and said.is_file() else [])
        why[0] = f"the run ended with {execution.ending}"

    compiled = bench.prober.observe(replace(case, phase=None), toolchain, _unaltered, on_output=start)
    if isinstance(compiled, Untestable):
        return compiled.reason
    return Timing(tuple(found)) if found else why[0]


def _unaltered(invocation: Invocation) -> Invocation:
    return invocation


def _entry(bench: ProbeRunner, case: Case, toolchain: Toolchain) -> tuple[str, tuple[str, ...]] | str:
    """The only function that the outside may call, and the types of its arguments; or why there is none."""
    tools, prepared = bench.prober.mlir_tools(case, toolchain), bench.prober.input_of(case)
    if tools is None or not isinstance(prepared, Prepared):
        return "its input cannot be read"
    text = Reader(tools, bench.stop).generic(prepared.path, elide=True)
    try:
        module = parse_module(text or "")
    except UnparsableError:
        return "its input cannot be read"
    functions = [one for one in module.functions() if one.attribute("sym_visibility") != '"private"']
    if len(functions) != 1 or functions[0].symbol is None:
        return "it has not one function but several"
    return functions[0].symbol, tuple(value.type for value in functions[0].regions[0].blocks[0].arguments)
