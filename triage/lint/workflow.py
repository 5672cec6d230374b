"""From a case to its findings: read by the toolchain's own tools, looked at by every rule, measured where that was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from triage.compilers.placement import Placement
from triage.lint.comments import Comments
from triage.lint.devices import devices_of, flags_for
from triage.lint.finding import Finding, Linted
from triage.lint.program import Program
from triage.lint.rules import check, in_order
from triage.lint.solver import Measured, measure
from triage.mlir import Module, UnparsableError, parse_module
from triage.model.case import Case, InputKind
from triage.model.errors import BadInput
from triage.model.outcome import Untestable
from triage.model.revision import Toolchain
from triage.probe.reading import Reader
from triage.probe.workbench import Workbench
from triage.recipes import flag_applies

_NOTHING_SAID = "no backend is named: what depends on it was not looked at (--flag names one, as for the compiler)"


def lint(bench: Workbench, case: Case, toolchain: Toolchain, *, measured: bool, shown: Path | None = None) -> Linted:
    """What is wrong with a case's program. measured: compile where that tells more; shown: how the user named the input.

    BadInput where the program does not parse, or where there is none; EnvironmentFailure as the toolchain's tools do.
    """
    placement = bench.prober.placement_of(case.compiler)
    tools = bench.prober.mlir_tools(case, toolchain)
    if placement is None or tools is None:
        raise BadInput(f"{case.name}: {toolchain.revision.name} has no tools that read its input as MLIR")
    prepared = bench.prober.input_of(case)
    if isinstance(prepared, Untestable):
        raise BadInput(f"{case.name}: {prepared.reason}")
    options = _options(bench, case, toolchain)
    backend, chip = placement.target_of(options)
    generated = case.input.kind in (InputKind.GENERATOR, InputKind.ONNX)
    name = str(prepared.path if generated or shown is None else shown)
    module = _read(Reader(tools, bench.stop), prepared.path, name)
    program = Program(module, placement, options, case.target.backend or backend, case.target.chip or chip)
    found = [_named(finding, prepared.path, name) for finding in check(program)]
    told, silenced = _apart(found, prepared.path, name)
    more, notes = _measured(bench, case, toolchain, program, wanted=measured)
    return Linted(
        case=case,
        source=name,
        generated=generated,
        findings=tuple(in_order([*told, *more.findings])),
        devices=tuple(replace(one, place=_place(one.place, prepared.path, name)) for one in devices_of(program)),
        flags=(*flags_for(program), *more.flags),
        silenced=silenced,
        notes=(*notes, *more.notes),
    )
