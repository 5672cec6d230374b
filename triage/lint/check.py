"""Lint a case: read its program, apply the family's rules, drop silenced findings,
measure the limit of the affinity solver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.linter import (
    LintFinding,
    LintRule,
    ProgramFindings,
    Severity,
    SolverLimit,
)
from triage.compilers.registry import (
    DEFAULT_FAMILY,
    family_of,
    load_cases,
    recipe_families,
)
from triage.execution.engine import Engine
from triage.execution.mlir_tools import Reader
from triage.execution.task import Naming, ProbeJob
from triage.mlir import Module, SourcePosition, UnparsableError, parse_module
from triage.model.case import Case, Flag, InputKind, Target
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.json_form import UNPRINTED, as_json, in_json
from triage.model.outcome import NoAnswer, Passed
from triage.model.revision import Toolchain
from triage.recipes.expectations import applied_flags
from triage.toolchains.home import below_here

if TYPE_CHECKING:
    from triage.compilers.linter import Linter

_SEVERITIES = list(Severity)
_IGNORE = re.compile(rb"(^\s*)?//\s*triage:\s*ignore(?:\[([\w\s,-]*)\])?\s*$")
_ALL = "*"
_RECIPES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class LintedCase(ProgramFindings):
    """The lint result of one case."""

    case: str
    recipe: Path = field(metadata=UNPRINTED)
    """The file that the case is from."""
    source: str
    """The file that positions refer to: as the user named it, or the generated program.
    """
    generated: bool = field(metadata=UNPRINTED)
    silenced: int
    """Findings that comments silence."""
    graph: str = field(metadata=UNPRINTED)
    """The program as a Mermaid flowchart."""

    @property
    def has_errors(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self.findings)


@dataclass(frozen=True)
class LintResult:
    """The lint results of all cases, and the rules of their families. JSON has one list
    of all findings and one of all devices.
    """

    cases: Sequence[LintedCase]
    rules: Sequence[LintRule] = field(metadata=UNPRINTED)

    @in_json
    def findings(self) -> list[Mapping[str, object]]:
        """Each finding with its case."""
        return [
            {**as_json(finding), "case": linted.case}
            for linted in self.cases
            for finding in linted.findings
        ]

    @in_json
    def devices(self) -> list[Mapping[str, object]]:
        """Each device with its case."""
        return [
            {**as_json(device), "case": linted.case}
            for linted in self.cases
            for device in linted.devices
        ]

    @in_json
    def suggested_flags(self) -> list[str]:
        """The options that fix findings. Empty if cases need different ones; each case
        has its own.
        """
        wanted = {linted.flags for linted in self.cases if linted.flags}
        return list(wanted.pop()) if len(wanted) == 1 else []


def linter_of(case: Case) -> Linter:
    """Return the rules of a case's family. Raises BadInput if it has none."""
    linter = family_of(case).lint
    if linter is None:
        raise BadInput(f"no lint rules for compiler {case.compiler}")
    return linter


def cases_to_lint(
    paths: Sequence[Path], flags: Sequence[str], warn: Callable[[str], None]
) -> list[Case]:
    """Return the cases of recipes, and one case for each program.

    Args:
        paths: Recipes, folders of recipes, and programs.
        flags: Added to the flags of each case.
        warn: Called with a sentence if cases are left out, because their compiler has
            no lint rules.

    Raises:
        BadInput: A flag or a program is not one, or no case can be linted.
    """
    family = recipe_families()[DEFAULT_FAMILY]
    for text in flags:
        if not text.startswith("-"):
            raise BadInput(
                f"--flag {text!r} is not a flag; write it with its dashes, --flag=-O3"
            )
    programs = [
        path for path in paths if not path.is_dir() and path.suffix not in _RECIPES
    ]
    recipes = [path for path in paths if path not in programs]
    loaded = load_cases(recipes) if recipes else ()
    cases = [case for case in loaded if family_of(case).lint]
    if len(cases) < len(loaded):
        if not cases and not programs:
            linter_of(loaded[0])
        warn(
            f"no lint rules for the compilers of {len(loaded) - len(cases)} of "
            f"{len(loaded)} cases: they are left out"
        )
    for path in programs:
        kind = family.kind_of(path.suffix)
        if kind is None or kind is InputKind.OTHER:
            raise BadInput(
                f"{path}: expected a program ({', '.join(family.inputs)}) or a recipe "
                f"({', '.join(_RECIPES)})"
            )
        if not path.is_file():
            raise BadInput(f"{path}: no such file")
        cases.append(
            Case(
                path.stem,
                str(path),
                "",
                family.name,
                path,
                family.input_at(path.absolute()),
                Target(""),
            )
        )
    return [replace(case, flags=(*case.flags, *map(Flag, flags))) for case in cases]


def lint_case(engine: Engine, case: Case, rev: str | None) -> LintedCase:
    """Lint the program of a case with the toolchain `rev`, and measure the limit of the
    affinity solver. Without `rev`, use the installed toolchain and do not measure.

    Raises:
        BadInput: The program does not parse, or there is none.
        EnvironmentFailure: The toolchain's tools do not run.
    """
    linter = linter_of(case)
    toolchain = engine.registry.obtain(
        engine.registry.resolve(rev or "installed", case.compiler)
    )
    tools = engine.compilers[case.compiler].mlir_tools(toolchain)
    if tools is None:
        raise BadInput(
            f"{case.name}: {toolchain.revision.name} has no tools that read MLIR"
        )
    prepared = engine.planner.input_of(case, toolchain)
    if isinstance(prepared, NoAnswer):
        raise BadInput(f"{case.name}: {prepared.reason}")
    options = _options(engine, case, toolchain)
    backend, chip = linter.target_of(options)
    target = replace(
        case.target,
        backend=case.target.backend or backend or "",
        chip=case.target.chip or chip,
    )
    name = _shown_name(case, prepared.path)
    module = _read(Reader(tools, engine.stop), prepared.path, name)
    found = linter.check(module, options, target.backend or None)
    shown = _not_silenced(found.findings, prepared.path, name)
    measured = ProgramFindings()
    solver = linter.solver(toolchain, module) if rev else None
    if solver and not target.backend:
        measured = _unmeasured("the backend is unknown")
    elif solver and not all(device.declared for device in found.devices):
        measured = _unmeasured("declare all devices first")
    elif solver:
        case = replace(case, target=target)
        measured = measure_solver(engine, solver, case, toolchain, prepared.path, name)
    return LintedCase(
        case=case.name,
        recipe=case.source,
        source=name,
        generated=case.input.is_made,
        findings=tuple(
            sorted([*shown, *measured.findings], key=_severity_and_position)
        ),
        devices=found.devices,
        flags=(*found.flags, *measured.flags),
        silenced=len(found.findings) - len(shown),
        notes=measured.notes,
        graph=linter.graph(module, options),
    )


def _shown_name(case: Case, program: Path) -> str:
    """Return what positions call the program: the generated file, or the input as the
    user named it.
    """
    if case.input.is_made:
        return str(program)
    if case.source.suffix in _RECIPES:
        return str(below_here(case.input.path))
    return str(case.source)


def _not_silenced(
    findings: Sequence[LintFinding], program: Path, name: str
) -> list[LintFinding]:
    """Return the findings that no comment in the program silences. `name` is what
    positions call the program.
    """
    silenced = _silenced_rules(program)
    shown = []
    for finding in findings:
        line = 0
        if finding.position and finding.position.file == name:
            line = finding.position.line
        if silenced.get(line, set()).isdisjoint((finding.rule, _ALL)):
            shown.append(finding)
    return shown


def _severity_and_position(finding: LintFinding) -> tuple[int, int, int]:
    position = finding.position
    return (
        _SEVERITIES.index(finding.severity),
        position.line if position else 0,
        position.column if position else 0,
    )


def _options(engine: Engine, case: Case, toolchain: Toolchain) -> tuple[str, ...]:
    if not case.target.backend:
        return tuple(applied_flags(case, toolchain.version))
    invocation = engine.compilers[case.compiler].invocation(case, toolchain)
    if isinstance(invocation, NoAnswer):
        raise BadInput(f"{case.name}: {invocation.reason}")
    return invocation.options


def _read(reader: Reader, path: Path, name: str) -> Module:
    """Parse a file. Positions in the module have the name instead of the path."""
    text = reader.generic_form(path, elide=True)
    if text is None:
        raise BadInput((reader.parse_error(path) or "").replace(str(path), name))
    try:
        return parse_module(
            text.replace(json.dumps(str(path)), json.dumps(name, ensure_ascii=False))
        )
    except UnparsableError as error:
        raise BadInput(f"{name}: its generic form cannot be read: {error}") from error


def _silenced_rules(source: Path) -> dict[int, set[str]]:
    """Return the rules that `// triage: ignore` comments silence, by line.

    A comment after code silences rules on its line. A comment alone on a line silences
    rules on the next line.
    """
    rules: dict[int, set[str]] = {}
    with source.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            found = _IGNORE.search(line.rstrip()) if b"triage:" in line else None
            if found is None:
                continue
            names = [_ALL] if found[2] is None else found[2].decode().split(",")
            is_alone = not line[: found.start()].strip()
            silenced_line = number + 1 if is_alone else number
            rules.setdefault(silenced_line, set()).update(map(str.strip, names))
    return rules


MAX_ITERATIONS = 4096  # a program that needs more does not converge for another reason
# After such a failure, it is not known whether the solver converges.
_RESOURCE_CLASSES = frozenset({"timeout", "out-of-memory"})


def measure_solver(
    engine: Engine,
    solver: SolverLimit,
    case: Case,
    toolchain: Toolchain,
    path: Path,
    shown: str,
) -> ProgramFindings:
    """Find the smallest limit that suffices, if the solver reaches the default limit.
    Its flag is suggested after the case compiled with it.

    `shown` is what the user calls the program in `path`.
    """
    ref = engine.registry.ref_of(toolchain)
    staged = _ended_after(case, toolchain, solver.phase)
    if staged is None:
        return _unmeasured(f"the case ends before phase {solver.phase}")
    outcome = engine.probe(ProbeJob(staged, ref)).outcome
    if isinstance(outcome, NoAnswer):
        return _unmeasured(outcome.reason)
    if isinstance(outcome, Passed):
        return ProgramFindings()
    version = toolchain.revision.name
    headline = outcome.failure.headline
    rule = solver.rule
    if outcome.failure.failure_class not in solver.failure_classes:
        position = _position((outcome.failure.location or "").replace(str(path), shown))
        rule, text = solver.other_rule, f"does not compile on {version}: {headline}"
        return ProgramFindings(
            (LintFinding(rule.name, rule.severity, text, position=position),)
        )
    flags: tuple[str, ...] = ()
    if solver.option is None:
        text = (
            f"the affinity solver does not converge, and {version} has no option for "
            "more iterations"
        )
        return ProgramFindings((LintFinding(rule.name, rule.severity, text),))
    smallest = _smallest_limit(engine, solver, solver.option, staged, toolchain)
    if smallest is None:
        text = (
            f"{headline} on {version}; {MAX_ITERATIONS} iterations do not suffice, so "
            "the limit is not the cause"
        )
    else:
        flag = f"{solver.option}{smallest}"
        flags = (flag,)
        text = f"{headline} on {version}; it needs {smallest} iterations: pass `{flag}`"
        limited = _with_limit(case, solver.option, smallest)
        complete = engine.probe(ProbeJob(limited, ref)).outcome
        if not isinstance(complete, Passed):
            failure = complete.failure
            other = failure.headline if failure else "it cannot be tested"
            text += f". It then fails differently: {other}"
    return ProgramFindings((LintFinding(rule.name, rule.severity, text),), flags=flags)


def _unmeasured(reason: str) -> ProgramFindings:
    return ProgramFindings(notes=(f"solver iterations are not measured: {reason}",))


def _ended_after(case: Case, toolchain: Toolchain, phase: str) -> Case | None:
    """Return the case with its compile ended after a phase, or None if it ends before
    that phase.
    """
    phases = toolchain.capabilities.phases
    if case.phase in phases and phases.index(case.phase) < phases.index(phase):
        return None
    return replace(case, phase=phase)


def _position(location: str) -> SourcePosition | None:
    """Read `file:line:column`. Compilers write an unknown position as 0:0."""
    place = re.fullmatch(r"(.+):([1-9]\d{0,8}):(\d{1,9})", location)
    if place is None:
        return None
    return SourcePosition(place[1], int(place[2]), int(place[3]))


def _smallest_limit(
    engine: Engine, solver: SolverLimit, option: str, staged: Case, toolchain: Toolchain
) -> int | None:
    """Return the smallest limit with which the solver converges, if one does. `option`
    sets the limit.
    """
    ref = engine.registry.ref_of(toolchain)
    task = engine.progress.task(f"affinity solver iterations  {staged.name}")
    not_converging = _RESOURCE_CLASSES | solver.failure_classes

    def converges(iterations: int) -> bool:
        """Compile up to the solver's phase. After another failure than these, the
        solver has converged.
        """
        task.describe(f"{iterations} iterations  {staged.name}")
        limited = _with_limit(staged, option, iterations)
        outcome = engine.probe(ProbeJob(limited, ref, once=Naming.AT_ONCE)).outcome
        if isinstance(outcome, NoAnswer):
            raise EnvironmentFailure(
                f"{staged.name} with {iterations} iterations: {outcome.reason}"
            )
        if isinstance(outcome, Passed):
            return True
        return outcome.failure.failure_class not in not_converging

    try:
        return smallest_sufficient(converges, solver.guess, MAX_ITERATIONS)
    finally:
        task.finish()


def _with_limit(case: Case, option: str, iterations: int) -> Case:
    flags = [flag for flag in case.flags if not flag.text.startswith(option)]
    return replace(case, flags=(*flags, Flag(f"{option}{iterations}")))


def smallest_sufficient(
    sufficient: Callable[[int], bool], guess: int, most: int
) -> int | None:
    """Return the smallest number from 1 to `most` that suffices, or None if `most` does
    not. The search starts at `guess`.

    If a number suffices, all greater ones must suffice, too. Each number is tested at
    most once.
    """
    # `low` does not suffice; `high` suffices or is beyond `most`
    low, high, step = 0, most + 1, 4
    number = min(guess, most)
    while high - low > 1:
        if sufficient(number):
            high = number
        else:
            low = number
        # Go away from the guess in growing steps until the answer is between two
        # tested numbers, then halve.
        if low == 0 and high > step:
            number = high - step
        elif high > most and low + step <= most:
            number = low + step
        else:
            number = (low + high) // 2
        step *= 4
    return high if high <= most else None
