"""From a case to its findings: read by the toolchain's own tools, looked at by every rule, measured where that was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from triage.execution.mlir_tools import Reader
from triage.execution.runner import ProbeRunner
from triage.lint.comments import Comments
from triage.lint.devices import devices_of, flags_for
from triage.lint.finding import Linted, LintFinding
from triage.lint.program import Program
from triage.lint.rules import check, in_order
from triage.lint.solver import SolverMeasurement, measure
from triage.mlir import Module, SourcePosition, UnparsableError, parse_module
from triage.model.case import Case, InputKind
from triage.model.errors import BadInput
from triage.model.outcome import Untestable
from triage.model.revision import Toolchain
from triage.recipes import flag_applies

_NOTHING_SAID = "no backend is named: what depends on it was not looked at (--flag names one, as for the compiler)"


def lint(bench: ProbeRunner, case: Case, toolchain: Toolchain, *, measured: bool, shown: Path | None = None) -> Linted:
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
    found = _named(check(program), prepared.path, name)
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


def _options(bench: ProbeRunner, case: Case, toolchain: Toolchain) -> tuple[str, ...]:
    """What the compiler would be given: of an input whose backend nobody named, the given flags alone."""
    if not case.target.backend:
        return tuple(flag.text for flag in case.flags if flag_applies(flag, toolchain.version))
    invocation = bench.prober.invocation(case, toolchain)
    if isinstance(invocation, Untestable):
        raise BadInput(f"{case.name}: {invocation.reason}")
    return invocation.options


def _read(reader: Reader, path: Path, name: str) -> Module:
    text = reader.generic(path, elide=True)
    if text is None:
        raise BadInput(reader.parse_error(path).replace(str(path), name))
    try:
        return parse_module(text)
    except UnparsableError as error:
        raise BadInput(f"{name}: its generic form cannot be read: {error}") from error


def _measured(
    bench: ProbeRunner, case: Case, toolchain: Toolchain, program: Program, *, wanted: bool
) -> tuple[SolverMeasurement, tuple[str, ...]]:
    notes = () if program.backend else (_NOTHING_SAID,)
    if not wanted:
        return SolverMeasurement(), notes
    if not program.backend:
        return SolverMeasurement(), (*notes, "iterations of the analysis of devices are not measured")
    missing = [one.name for one in devices_of(program) if one.declared is None]
    if missing:  # the compile would fail for them, and that is said already
        return SolverMeasurement(), (
            *notes,
            "iterations of the analysis of devices are not measured before all devices are declared",
        )
    target = replace(case.target, backend=program.backend, chip=program.chip)
    return measure(bench, replace(case, target=target), toolchain), notes


def _place(place: SourcePosition | None, path: Path, name: str) -> SourcePosition | None:
    """The same place, in the file as the user knows it."""
    return replace(place, file=name) if place and place.file == str(path) else place


def _named(findings: Sequence[LintFinding], path: Path, name: str) -> list[LintFinding]:
    return [replace(finding, place=_place(finding.place, path, name)) for finding in findings]


def _apart(findings: Sequence[LintFinding], path: Path, name: str) -> tuple[list[LintFinding], int]:
    """What comments in the program let through, and how many they do not. Places in other files have no comments here."""
    comments = Comments(path)
    told = [one for one in findings if one.place is None or one.place.file != name or not comments.silence(one)]
    return told, len(findings) - len(told)
