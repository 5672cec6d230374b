"""Ask a release's affinity solver which devices it chooses for the operations of a program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from triage.compilers.analysis import SolverLimit
from triage.compilers.invocation import Invocation
from triage.execution.mlir_tools import Reader
from triage.execution.runner import ProbeRunner
from triage.mlir import Module, UnparsableError, parse_module
from triage.model.case import Case
from triage.model.revision import Toolchain

_POSITIONS = ("--mlir-print-debuginfo",)


def solver_choices(
    runner: ProbeRunner, solver: SolverLimit, case: Case, toolchain: Toolchain, iterations: int | None
) -> Module | None:
    """The program with the solver's choices as attributes; None when it does not get that far.

    iterations: a limit that suffices, None for the release's own.
    """
    tools = runner.prober.mlir_tools(case, toolchain)
    limit = (f"{solver.option}{iterations}",) if solver.option and iterations else ()
    modules: list[Module] = []
    if tools is None:
        return None
    reader = Reader(tools, runner.stop)

    def analyse(program: Path) -> None:
        options = (*solver.analysis, *limit, "--mlir-print-op-generic", *_POSITIONS)
        text = reader.transformed(program.read_text("utf-8", "replace"), options)
        if text is not None:
            try:
                modules.append(parse_module(text))
            except UnparsableError:  # the picture does without
                return

    def with_positions(invocation: Invocation) -> Invocation:
        return replace(invocation, options=(*invocation.options, *solver.prepared, *_POSITIONS))

    runner.prober.observe(replace(case, phase=solver.prepared_phase), toolchain, with_positions, on_output=analyse)
    return modules[0] if modules else None
