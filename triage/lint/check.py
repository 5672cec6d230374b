"""Lint a case: read its program, apply the family's rules, drop silenced findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from triage.compilers.analysis import Linter, LintFinding, LintRule, ProgramDevice, ProgramFindings, Severity
from triage.execution.engine import Engine
from triage.execution.mlir_tools import Reader
from triage.lint.solver import SolverMeasurement, measure_solver
from triage.mlir import Module, SourcePosition, UnparsableError, parse_module
from triage.model.case import Case, InputKind
from triage.model.errors import BadInput
from triage.model.json_form import as_json
from triage.model.outcome import Untestable
from triage.model.progress import Task
from triage.model.revision import Toolchain
from triage.recipes.expectations import flag_applies

_SEVERITIES = list(Severity)
_IGNORE = re.compile(rb"(^\s*)?//\s*triage:\s*ignore(?:\[([\w\s,-]*)\])?\s*$")
_ALL = "*"
_NO_BACKEND = "the backend is unknown, so rules that depend on it are skipped (--flag passes flags of the compiler)"


@dataclass(frozen=True, slots=True)
class LintedCase:
    """The lint result of one case.

    Attributes:
        source: The file that positions refer to: as the user named it, or the generated program.
        flags: Options that fix findings.
        silenced: Number of findings that comments silence.
        notes: What was not checked, and why.
        graph: The program as a Mermaid flowchart.
    """

    case: Case
    source: str
    generated: bool
    findings: tuple[LintFinding, ...]
    devices: tuple[ProgramDevice, ...] = ()
    flags: tuple[str, ...] = ()
    silenced: int = 0
    notes: tuple[str, ...] = ()
    graph: str = ""

    JSON_KEYS: ClassVar[Mapping[str, str | None]] = {
        **dict.fromkeys(("case", "generated", "findings", "devices", "graph")),
        "flags": "suggested_flags",
        "case_name": "case",
    }
    JSON_PROPERTIES: ClassVar = ("case_name",)

    @property
    def case_name(self) -> str:
        """The name of the case."""
        return self.case.name

    @property
    def has_errors(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self.findings)


@dataclass(frozen=True)
class LintResult:
    """The lint results of all cases, and the rules of their families. In JSON, findings and devices are one list each."""

    cases: Sequence[LintedCase]
    rules: Sequence[LintRule]

    JSON_KEYS: ClassVar[Mapping[str, str | None]] = {"rules": None}
    JSON_PROPERTIES: ClassVar = ("findings", "devices", "suggested_flags")

    @property
    def findings(self) -> list[Mapping[str, object]]:
        """Each finding with its case."""
        return [{**as_json(finding), "case": linted.case.name} for linted in self.cases for finding in linted.findings]

    @property
    def devices(self) -> list[Mapping[str, object]]:
        """Each device with its case."""
        return [{**as_json(device), "case": linted.case.name} for linted in self.cases for device in linted.devices]

    @property
    def suggested_flags(self) -> list[str]:
        """The options that fix findings."""
        return list(dict.fromkeys(flag for linted in self.cases for flag in linted.flags))


def lint(runner: Engine, linter: Linter, case: Case, toolchain: Toolchain, *, measured: bool, shown: Path | None) -> LintedCase:
    """Lint a case's program.

    `measured` adds a measurement of the solver's limit, which compiles. `shown` is the input as the user named it.

    Raises:
        BadInput: The program does not parse, or there is none.
        EnvironmentFailure: The toolchain's tools do not run.
    """
    task = runner.progress.task(f"lint  {case.name}")
    try:
        return _lint(runner, linter, case, toolchain, task, measured=measured, shown=shown)
    finally:
        task.finish()


def _lint(
    runner: Engine, linter: Linter, case: Case, toolchain: Toolchain, task: Task, *, measured: bool, shown: Path | None
) -> LintedCase:
    tools = runner.compilers[case.compiler].mlir_tools(toolchain)
    if tools is None:
        raise BadInput(f"{case.name}: {toolchain.revision.name} has no tools that read MLIR")
    prepared = runner.planner.input_of(case, toolchain)
    if isinstance(prepared, Untestable):
        raise BadInput(f"{case.name}: {prepared.reason}")
    options = _options(runner, case, toolchain)
    backend, chip = linter.target_of(options)
    target = replace(case.target, backend=case.target.backend or backend or "", chip=case.target.chip or chip)
    generated = case.input.kind in (InputKind.GENERATOR, InputKind.ONNX)
    name = str(prepared.path if generated or shown is None else shown)
    module = _read(Reader(tools, runner.stop), prepared.path, name)
    report = linter.check(module, options, target.backend or None, target.chip)
    ignored = _ignored_rules(prepared.path)
    loud = [
        finding
        for finding in report.findings
        if finding.position is None
        or finding.position.file != str(prepared.path)
        or ignored.get(finding.position.line, set()).isdisjoint((finding.rule, _ALL))
    ]
    notes = () if target.backend else (_NO_BACKEND,)
    extra = SolverMeasurement()
    if measured:
        task.describe(f"lint  {case.name}: compile for the affinity solver")
        extra = _measured(runner, linter, replace(case, target=target), toolchain, report)
    return LintedCase(
        case=case,
        source=name,
        generated=generated,
        findings=tuple(
            replace(finding, position=_renamed(finding.position, prepared.path, name))
            for finding in sorted([*loud, *extra.findings], key=_severity_and_position)
        ),
        devices=tuple(replace(device, position=_renamed(device.position, prepared.path, name)) for device in report.devices),
        flags=(*report.flags, *extra.flags),
        silenced=len(report.findings) - len(loud),
        notes=(*notes, *extra.notes),
        graph=linter.graph(module, options),
    )


def _severity_and_position(finding: LintFinding) -> tuple[int, int, int]:
    position = finding.position
    return _SEVERITIES.index(finding.severity), position.line if position else 0, position.column if position else 0


def _options(runner: Engine, case: Case, toolchain: Toolchain) -> tuple[str, ...]:
    """Return the compiler's options; only the case's own flags if no backend is known."""
    if not case.target.backend:
        return tuple(flag.text for flag in case.flags if flag_applies(flag, toolchain.version))
    invocation = runner.compilers[case.compiler].invocation(case, toolchain)
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


def _measured(runner: Engine, linter: Linter, case: Case, toolchain: Toolchain, report: ProgramFindings) -> SolverMeasurement:
    if not case.target.backend:
        return SolverMeasurement(notes=("solver iterations are not measured: the backend is unknown",))
    if any(device.declared is None for device in report.devices):  # the compile fails for this reason
        return SolverMeasurement(notes=("solver iterations are not measured: declare all devices first",))
    return measure_solver(runner, linter.solver(toolchain), case, toolchain)


def _renamed(position: SourcePosition | None, path: Path, name: str) -> SourcePosition | None:
    """Return a position with the file as the user knows it."""
    return replace(position, file=name) if position and position.file == str(path) else position


def _ignored_rules(source: Path) -> dict[int, set[str]]:
    """Map lines to the rules that `// triage: ignore` comments silence there.

    A comment after code concerns its line; a comment alone on a line concerns the next line.
    """
    rules: dict[int, set[str]] = {}
    if source.suffix == ".mlirbc":
        return rules
    with source.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if b"triage:" in line and (found := _IGNORE.search(line.rstrip())):
                names = [_ALL] if found[2] is None else found[2].decode().split(",")
                alone = not line[: found.start()].strip()
                rules.setdefault(number + alone, set()).update(name.strip() for name in names)
    return rules
