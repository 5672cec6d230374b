"""Run a compiled program on this machine and measure how long it takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from triage.compilers.base import Runner
from triage.execution.inputs import Prepared
from triage.execution.mlir_tools import Reader
from triage.execution.process import run
from triage.execution.runner import ProbeRunner
from triage.mlir import UnparsableError, parse_module
from triage.model.case import Case
from triage.model.execution import Limits
from triage.model.outcome import Untestable
from triage.model.revision import Toolchain
from triage.toolchains.registry import ToolchainRef

_LIMITS = Limits(timeout=120.0, memory=8 << 30)


def timed(runner: ProbeRunner, case: Case, ref: ToolchainRef, device: Runner) -> dict[str, float] | str:
    """Compile the case completely and run its function on zeros. Nothing else runs meanwhile.

    Returns:
        The median, least and largest wall time of the repetitions in milliseconds; the reason when it cannot be run.
    """
    toolchain = runner.registry.obtain(ref)
    program = device.benchmark_program(runner.registry.companion(ref, device.distribution))
    entry = _entry_point(runner, case, toolchain)
    if isinstance(entry, str):
        return entry
    if program is None:
        return f"{device.distribution} {ref.revision.name} has no program that runs it"
    milliseconds: list[float] = []
    reason = "it did not compile again"

    def measure(module: Path) -> None:
        nonlocal reason
        argv = device.benchmark_argv(program, module, *entry)
        if argv is None:
            reason = "the size of an argument is not known"
            return
        with TemporaryDirectory() as folder:
            printed = Path(folder) / "printed"
            execution = run(argv, _LIMITS, Path(folder), env=dict(case.env), stop=runner.stop, stdout_to=printed)
            if execution.ok:
                milliseconds.extend(1000 * seconds for seconds in device.seconds(printed.read_text("utf-8", "replace")))
        reason = f"the run ended with {execution.ending}"

    whole = replace(case, phase=None)
    compiled = runner.prober.observe(whole, toolchain, lambda invocation: invocation, on_output=measure)
    if isinstance(compiled, Untestable):
        return compiled.reason
    if not milliseconds:
        return reason
    return {"run_ms": median(milliseconds), "run_ms_least": min(milliseconds), "run_ms_most": max(milliseconds)}


def _entry_point(runner: ProbeRunner, case: Case, toolchain: Toolchain) -> tuple[str, tuple[str, ...]] | str:
    """Return the only public function and the types of its arguments, or why there is none."""
    tools, prepared = runner.prober.mlir_tools(case, toolchain), runner.prober.input_of(case)
    if tools is None or not isinstance(prepared, Prepared):
        return "its input cannot be read"
    text = Reader(tools, runner.stop).generic(prepared.path, elide=True)
    try:
        module = parse_module(text or "")
    except UnparsableError:
        return "its input cannot be read"
    functions = [function for function in module.functions() if function.attribute("sym_visibility") != '"private"']
    if len(functions) != 1 or functions[0].symbol is None:
        return "it does not have exactly one public function"
    return functions[0].symbol, tuple(value.type for value in functions[0].regions[0].blocks[0].arguments)
