"""IREE's lint rules: devices, affinities and chains."""

from __future__ import annotations

from collections.abc import Sequence

from triage.compilers.iree.lint import rules
from triage.compilers.iree.lint.mermaid import mermaid
from triage.compilers.iree.lint.program import LintProgram
from triage.compilers.linter import (
    LintRule,
    ProgramFindings,
    Severity,
    SolverLimit,
)
from triage.mlir import Module
from triage.model.revision import Toolchain

_LIMIT = "iree-stream-affinity-solver-max-iterations"
_SOLVER = LintRule(
    "solver-iterations",
    Severity.ERROR,
    (
        "The affinity solver needs more iterations than its limit. With --toolchain, "
        "the smallest sufficient limit is measured."
    ),
)


class IreeLinter:
    """Checks programs before they are compiled."""

    rules: Sequence[LintRule] = (*rules.CHECKS, _SOLVER)

    def check(
        self, module: Module, options: Sequence[str], backend: str | None
    ) -> ProgramFindings:
        """Apply all rules to a module that is compiled with these options."""
        program = LintProgram(module, options, backend)
        return ProgramFindings(
            rules.findings(program), rules.devices_of(program), rules.flags_for(program)
        )

    def graph(self, module: Module, options: Sequence[str]) -> str:
        """Return a module's devices and transfers as a Mermaid flowchart."""
        return mermaid(LintProgram(module, options))

    def solver(self, toolchain: Toolchain, module: Module) -> SolverLimit:
        """Return how the affinity solver is limited and measured on this version."""
        return SolverLimit(
            option=f"--{_LIMIT}=" if _LIMIT in toolchain.capabilities.flags else None,
            phase="stream",
            # Other solvers of this phase have fixed limits.
            failure_classes=frozenset(
                {"affinity-non-convergence", "clone-to-consumers-non-convergence"}
            ),
            guess=max(1, rules.longest_chain(LintProgram(module))[0]),
        )
