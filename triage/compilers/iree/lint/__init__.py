"""IREE's lint rules: devices, affinities, chains, shapes and element types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from triage.compilers.analysis import LintFinding, LintRule, ProgramFindings, Severity, SolverLimit
from triage.compilers.iree.devices import target_of
from triage.compilers.iree.lint import placement, shapes
from triage.compilers.iree.lint.mermaid import mermaid
from triage.compilers.iree.lint.program import LintProgram
from triage.mlir import Module
from triage.model.revision import Toolchain

ERROR, WARNING, ADVICE = Severity.ERROR, Severity.WARNING, Severity.ADVICE
_LIMIT = "iree-stream-affinity-solver-max-iterations"

_SOLVER = LintRule(
    "solver-iterations",
    ERROR,
    "The affinity solver needs more iterations than its limit. With --toolchain, the smallest sufficient limit is measured.",
)
_COMPILE_FAILURE = LintRule(
    "compile-failure", ERROR, "With --toolchain: the program does not compile up to the phase where the solver is done."
)

_CHECKS: Sequence[tuple[str, Severity, Callable[[LintProgram], Iterator[LintFinding]]]] = (
    ("undeclared-device", ERROR, placement.undeclared),
    ("unused-device", WARNING, placement.unused),
    ("device-gap", WARNING, placement.gaps),
    ("device-names", ERROR, placement.rejected),
    ("missing-affinity", WARNING, placement.missing),
    ("mixed-devices", WARNING, placement.mixed),
    ("redundant-transfer", ADVICE, placement.redundant),
    ("unplaced-constant", ADVICE, placement.unplaced),
    ("long-chain", ADVICE, placement.long_chains),
    ("undone-reshape", ADVICE, shapes.undone),
    ("dynamic-dimension", ADVICE, shapes.dynamic),
    ("large-vector", WARNING, shapes.large),
    ("missing-type", WARNING, shapes.missing_types),
    ("demoted-type", ADVICE, shapes.demoted),
)
CHECKS = {LintRule(name, severity, check.__doc__ or ""): check for name, severity, check in _CHECKS}
"""The check of each rule, in documentation order."""


class IreeLinter:
    """Lint rules of the IREE family."""

    rules: Sequence[LintRule] = (*list(CHECKS)[:8], _SOLVER, _COMPILE_FAILURE, *list(CHECKS)[8:])

    target_of = staticmethod(target_of)

    def check(self, module: Module, options: Sequence[str], backend: str | None, chip: str | None) -> ProgramFindings:
        program = LintProgram(module, options, backend, chip)
        findings = tuple(finding for check in CHECKS.values() for finding in check(program))
        return ProgramFindings(findings, placement.devices_of(program), placement.flags_for(program))

    def graph(self, module: Module, options: Sequence[str]) -> str:
        return mermaid(LintProgram(module, options))

    def solver(self, toolchain: Toolchain, module: Module) -> SolverLimit:
        return SolverLimit(
            _SOLVER,
            _COMPILE_FAILURE,
            option=f"--{_LIMIT}=" if _LIMIT in toolchain.capabilities.flags else None,
            phase="stream",
            # Other solvers of this phase have fixed limits.
            failure_classes=frozenset({"affinity-non-convergence", "clone-to-consumers-non-convergence"}),
            guess=max(1, placement.longest_chain(LintProgram(module))[0]),
        )
