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

CHECKS: dict[LintRule, Callable[[LintProgram], Iterator[LintFinding]]] = {
    LintRule("undeclared-device", ERROR, "A device that the program uses but nothing declares."): placement.undeclared,
    LintRule("unused-device", WARNING, "A device that is declared but never used."): placement.unused,
    LintRule("device-gap", WARNING, "A numbered device below the highest one that is never used."): placement.gaps,
    LintRule("device-names", ERROR, "Flags that name some devices but not all."): placement.rejected,
    LintRule(
        "missing-affinity", WARNING, "An argument or result without an affinity in a function where others have one."
    ): placement.missing,
    LintRule(
        "mixed-devices", WARNING, "Operands on different devices, or a result on the wrong device, without a transfer."
    ): placement.mixed,
    LintRule("redundant-transfer", ADVICE, "A transfer to the device that already holds the value."): placement.redundant,
    LintRule(
        "unplaced-constant", ADVICE, "A constant tensor without an affinity that is used beyond the first device."
    ): placement.unplaced,
    LintRule("long-chain", ADVICE, "More than 32 in-place operations, or transfers, in a row."): placement.long_chains,
    LintRule(
        "undone-reshape",
        ADVICE,
        "A collapse_shape and an expand_shape that undo each other, around an attention or with nothing in between.",
    ): shapes.undone,
    LintRule(
        "dynamic-dimension", ADVICE, "An attention, contraction, convolution or padding with an unknown dimension, on a GPU."
    ): shapes.dynamic,
    LintRule("large-vector", WARNING, "A vector of more than 2048 elements in the program."): shapes.large,
    LintRule(
        "missing-type", WARNING, "An element type that the backend or the chip is known to lack."
    ): shapes.missing_element_types,
    LintRule("demoted-type", ADVICE, "64 bit floats, which are computed in 32 bits unless a flag forbids it."): shapes.demoted,
}
"""The check of each rule, in documentation order."""


class IreeLinter:
    """Lint rules of the IREE family."""

    rules: Sequence[LintRule] = (*list(CHECKS)[:8], _SOLVER, _COMPILE_FAILURE, *list(CHECKS)[8:])

    def target_of(self, options: Sequence[str]) -> tuple[str | None, str | None]:
        return target_of(options)

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
            guess=max(1, placement.longest_chain(LintProgram(module))),
        )
