"""Lint a case: read its program, apply the family's rules, measure the limit of the
affinity solver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.compilers.base import LintedCase, LintFinding, Severity
from triage.compilers.registry import (
    DEFAULT_FAMILY,
    RecipesByFamily,
    family_of,
    load_cases,
)
from triage.execution.engine import Engine
from triage.execution.mlir_tools import Reader
from triage.execution.task import PassNaming, ProbeJob
from triage.mlir import Module, UnparsableError, parse_module
from triage.model.case import Case, Flag, InputKind, Target
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.fields import as_json, in_json
from triage.model.outcome import Cause, Exit, NoAnswer, Outcome, Passed
from triage.model.revision import Toolchain
from triage.recipes.expectations import applied_flags
from triage.toolchains.home import path_from_here

_RECIPES = (".yaml", ".yml")
_SOLVER_RULE = "solver-iterations"
_MAX_ITERATIONS = 4096  # a program that needs more does not converge
# After such a failure, it is not known whether the solver converges.
_RESOURCE_CLASSES = frozenset({"timeout", "out-of-memory"})


@dataclass(frozen=True)
class LintResult:
    """The lint results of all cases. JSON has one list of all findings and one of all
    devices.
    """

    cases: Sequence[LintedCase]

    @property
    def exit(self) -> Exit:
        severities = [
            finding.severity for case in self.cases for finding in case.findings
        ]
        if Severity.ERROR in severities:
            return Exit.FAILURE
        return Exit.OK

    @in_json
    def findings(self) -> list[Mapping[str, object]]:
        return self._entries_of_all_cases("findings")

    @in_json
    def devices(self) -> list[Mapping[str, object]]:
        return self._entries_of_all_cases("devices")

    @in_json
    def suggested_flags(self) -> list[str]:
        """The options that fix findings. Empty if cases need different ones; each case
        has its own.
        """
        wanted = {
            linted.suggested_flags for linted in self.cases if linted.suggested_flags
        }
        if len(wanted) == 1:
            return list(wanted.pop())
        return []

    def _entries_of_all_cases(self, name: str) -> list[Mapping[str, object]]:
        return [
            {**as_json(entry), "case": linted.case}
            for linted in self.cases
            for entry in getattr(linted, name)
        ]


def cases_to_lint(paths: Sequence[Path]) -> list[Case]:
    """Return the cases of recipes whose compiler has lint rules, and one case for each
    program. Raises BadInput if a program is not one, or no case can be linted.
    """
    family = RecipesByFamily()[DEFAULT_FAMILY]
    programs = [
        path for path in paths if not path.is_dir() and path.suffix not in _RECIPES
    ]
    recipes = [path for path in paths if path not in programs]
    loaded = load_cases(recipes) if recipes else ()
    cases = [case for case in loaded if family_of(case).lint]
    for path in programs:
        if family.kind_of(path.suffix) in (None, InputKind.OTHER):
            kinds = ", ".join((*family.inputs, *_RECIPES))
            raise BadInput(f"{path}: expected a program or a recipe ({kinds})")
        program = family.input_at(path.absolute())
        name = path.stem
        target = Target("")
        cases.append(Case(name, str(path), "", family.name, path, program, target))
    if not cases:
        raise BadInput("there is nothing to lint: no case has a compiler with rules")
    return cases


def lint_case(engine: Engine, case: Case, rev: str | None) -> LintedCase:
    """Lint the program of a case with the toolchain `rev`, and measure the limit of the
    affinity solver. Without `rev`, use the installed toolchain and do not measure.

    Raises:
        BadInput: The program does not parse, or there is none.
        EnvironmentFailure: The toolchain's tools do not run.
    """
    linter = family_of(case).lint
    assert linter  # see `cases_to_lint`
    ref = engine.registry.resolve(rev or "installed", case.compiler)
    toolchain = engine.registry.obtain(ref)
    prepared = engine.inputs.input_of(case, toolchain)
    if isinstance(prepared, NoAnswer):
        raise BadInput(f"{case.name}: {prepared.reason}")
    name = str(case.source)
    recipe = None
    path = prepared.path
    if path != case.input.path:  # it was made
        name = str(path)
        recipe = case.source
    elif case.source.suffix in _RECIPES:
        name = str(path_from_here(path))
    module = _read_module(engine, case, toolchain, path, name)
    options = _options(engine, case, toolchain)
    report = linter.check(module, options, case.target.backend or None)
    if rev and all(device.declared for device in report.devices):
        report = _with_measured_limit(engine, report, case, toolchain)
    return replace(
        report,
        case=case.name,
        source=name,
        recipe=recipe,
        findings=tuple(sorted(report.findings, key=_severity_and_line)),
    )


def _severity_and_line(finding: LintFinding) -> tuple[int, int]:
    """Return a key for sorting: the worst first, then by line."""
    position = finding.position
    return list(Severity).index(finding.severity), position.line if position else 0


def _options(engine: Engine, case: Case, toolchain: Toolchain) -> tuple[str, ...]:
    if not case.target.backend:
        return tuple(applied_flags(case, toolchain.version))
    invocation = engine.compilers[case.compiler].invocation(case, toolchain)
    if isinstance(invocation, NoAnswer):
        raise BadInput(f"{case.name}: {invocation.reason}")
    return invocation.options


def _read_module(
    engine: Engine, case: Case, toolchain: Toolchain, path: Path, name: str
) -> Module:
    """Parse a file. Positions in the module have the name instead of the path."""
    tools = engine.compilers[case.compiler].mlir_tools(toolchain)
    if tools is None:
        raise BadInput(
            f"{case.name}: {toolchain.revision.name} has no tools that read MLIR"
        )
    reader = Reader(tools, engine.stop)
    text = reader.generic_form(path, elide=True)
    if text is None:
        raise BadInput((reader.parse_error(path) or "").replace(str(path), name))
    named = json.dumps(name, ensure_ascii=False)
    try:
        return parse_module(text.replace(json.dumps(str(path)), named))
    except UnparsableError as error:
        raise BadInput(f"{name}: its generic form cannot be read: {error}") from error


def _with_measured_limit(
    engine: Engine, report: LintedCase, case: Case, toolchain: Toolchain
) -> LintedCase:
    """Add the smallest limit of iterations that suffices, if the affinity solver
    reaches the default limit, or a note on why that is not known.
    """
    linter = family_of(case).lint
    assert linter
    staged = replace(case, phase=linter.solver_phase)
    ref = engine.registry.ref_of(toolchain)
    outcome: Outcome = NoAnswer(Cause.TARGET, "the backend is unknown")
    if case.target.backend:
        outcome = engine.probe(ProbeJob(staged, ref)).outcome
    if isinstance(outcome, Passed):
        return report
    failure = outcome.failure
    if failure is None or failure.failure_class not in linter.solver_failures:
        reason = failure.headline if failure else outcome.reason
        return replace(report, notes=(f"solver iterations are not measured: {reason}",))
    flags = report.suggested_flags
    option = linter.solver_option(toolchain)
    text = f"{failure.headline} on {toolchain.revision.name}"
    if option:
        # after another failure than these, the solver has converged
        not_converging = _RESOURCE_CLASSES | linter.solver_failures

        def converges(iterations: int) -> bool:
            other_flags = [
                flag for flag in case.flags if not flag.text.startswith(option)
            ]
            flags = (*other_flags, Flag(f"{option}{iterations}"))
            job = ProbeJob(
                replace(staged, flags=flags), ref, once=PassNaming.IN_FIRST_COMPILE
            )
            limited = engine.probe(job).outcome
            if isinstance(limited, NoAnswer):
                raise EnvironmentFailure(f"{case.name}: {limited.reason}")
            failure = limited.failure
            return failure is None or failure.failure_class not in not_converging

        guess = max(1, report.longest_chain)
        needed = smallest_working(converges, 0, _MAX_ITERATIONS + 1, guess)
        if needed <= _MAX_ITERATIONS:
            flags = (*flags, f"{option}{needed}")
            text += f"; it needs {needed} iterations: pass `{flags[-1]}`"
        else:
            text += f", also with {_MAX_ITERATIONS} iterations"
    finding = LintFinding(_SOLVER_RULE, Severity.ERROR, text)
    return replace(report, findings=(*report.findings, finding), suggested_flags=flags)


def smallest_working(
    works: Callable[[int], bool], low: int, high: int, guess: int
) -> int:
    """Return the smallest number that works, if all greater ones work, too. `low` is
    known not to work, and `high` to work. The search goes away from the guess in
    growing steps, then it halves.

    >>> smallest_working(lambda number: number >= 138, 0, 4096, guess=140)
    138
    """
    number = min(guess, high - 1)
    step = 4
    while high - low > 1:
        if works(number):
            high = number
            number = max((low + high) // 2, high - step)
        else:
            low = number
            number = min((low + high) // 2, low + step)
        step *= 4
    return high
