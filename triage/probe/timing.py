"""How long a compiled program runs on this machine, where its family can run it here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from triage.compilers.port import Invocation, Runner
from triage.mlir import UnparsableError, parse_module
from triage.model.case import Case
from triage.model.execution import Limits
from triage.model.outcome import Untestable
from triage.model.revision import Toolchain
from triage.probe.inputs import Prepared
from triage.probe.process import run
from triage.probe.reading import Reader
from triage.probe.workbench import Workbench
from triage.toolchains.shed import Place

_LIMITS = Limits(timeout=120.0, memory=8 << 30)


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall seconds of one function's repetitions, its inputs zeros."""

    seconds: tuple[float, ...]

    def metrics(self) -> dict[str, float]:
        """The median in milliseconds, and the least and the most."""
        milliseconds = [1000 * one for one in self.seconds]
        return {"run_ms": median(milliseconds), "run_ms_least": min(milliseconds), "run_ms_most": max(milliseconds)}


def timed(bench: Workbench, case: Case, place: Place, runner: Runner) -> Timing | str:
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


def _entry(bench: Workbench, case: Case, toolchain: Toolchain) -> tuple[str, tuple[str, ...]] | str:
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
