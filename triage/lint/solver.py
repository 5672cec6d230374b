"""Find the smallest number of iterations that a program needs in the affinity solver, by compiling it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from triage.compilers.analysis import LintFinding, SolverLimit
from triage.compilers.invocation import Invocation
from triage.execution.engine import Engine
from triage.execution.process import run
from triage.execution.task import Naming
from triage.mlir import SourcePosition
from triage.model.case import Case, Flag
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Compiled, Untestable
from triage.model.revision import Toolchain
from triage.remedy.search import narrow

MAX_ITERATIONS = 4096  # a program that needs more does not converge for another reason
_GUESS = 256
_RESOURCE_CLASSES = frozenset({"timeout", "out-of-memory"})  # they show nothing about the solver


@dataclass(frozen=True, slots=True)
class SolverMeasurement:
    """Findings, flags that fix them, and notes."""

    findings: tuple[LintFinding, ...] = ()
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def measure_solver(runner: Engine, solver: SolverLimit, case: Case, toolchain: Toolchain) -> SolverMeasurement:
    """Measure the smallest sufficient limit if the solver exhausts the default one.

    A suggested limit was compiled with, and the next smaller one fails.
    """
    staged = _staged(case, toolchain, solver)
    if staged is None:
        return SolverMeasurement(notes=(f"solver iterations are not measured: the case ends before phase {solver.phase}",))
    outcome = runner.probe_on(staged, toolchain).outcome
    if isinstance(outcome, Untestable):
        return SolverMeasurement(notes=(f"solver iterations are not measured: {outcome.reason}",))
    if isinstance(outcome, Compiled):
        return SolverMeasurement()
    name = toolchain.revision.name
    if outcome.failure.failure_class not in solver.failure_classes:
        rule, text = solver.other_rule, f"does not compile on {name}: {outcome.failure.headline}"
        return SolverMeasurement((LintFinding(rule.name, rule.severity, text, _position(outcome.failure.location)),))
    if solver.option is None:
        return _finding(solver, f"the affinity solver does not converge, and {name} has no option for more iterations")
    measurement = _Measurement(runner, case, staged, toolchain, solver, solver.option)
    headline = f"{outcome.failure.headline} on {name}"
    smallest = measurement.smallest()
    if smallest is None:
        return _finding(solver, f"{headline}; {MAX_ITERATIONS} iterations do not suffice, so the limit is not the cause")
    flag = f"{solver.option}{smallest}"
    complete = runner.probe_on(measurement.limited(case, smallest), toolchain).outcome
    text = f"{headline}; it needs {smallest} iterations: pass `{flag}`"
    if not isinstance(complete, Compiled):
        text += f". It then fails differently: {complete.failure.headline if complete.failure else 'it cannot be tested'}"
    return _finding(solver, text, flag)


def _position(location: str | None) -> SourcePosition | None:
    """Read `file:line:column`; None for an unknown position, which compilers write as 0:0."""
    place = re.fullmatch(r"(.+):([1-9]\d{0,8}):(\d{1,9})", location or "")
    return SourcePosition(place[1], int(place[2]), int(place[3])) if place else None


def _finding(solver: SolverLimit, text: str, *flags: str) -> SolverMeasurement:
    return SolverMeasurement((LintFinding(solver.rule.name, solver.rule.severity, text),), flags)


def _staged(case: Case, toolchain: Toolchain, solver: SolverLimit) -> Case | None:
    """Return the case, ended as soon as the solver is done; None if it ends before."""
    phases = toolchain.capabilities.phases
    if solver.phase not in phases:
        return case if case.phase is None else None
    if case.phase in phases and phases.index(case.phase) < phases.index(solver.phase):
        return None
    return replace(case, phase=solver.phase)


class _Measurement:
    """The search for the smallest limit of one case."""

    def __init__(
        self, runner: Engine, case: Case, staged: Case, toolchain: Toolchain, solver: SolverLimit, option: str
    ) -> None:
        self._runner, self._case, self._staged = runner, case, staged
        self._toolchain, self._solver, self._option = toolchain, solver, option
        self._task = runner.progress.task(f"affinity solver iterations  {case.name}")

    def smallest(self) -> int | None:
        try:
            return smallest_sufficient(self._converges, self._estimate() or _GUESS, MAX_ITERATIONS)
        finally:
            self._task.finish()

    def limited(self, case: Case, iterations: int) -> Case:
        flags = [flag for flag in case.flags if not flag.text.startswith(self._option)]
        return replace(case, flags=(*flags, Flag(f"{self._option}{iterations}")))

    def _converges(self, iterations: int) -> bool:
        """Compile up to the solver's phase. A failure of another kind means that the solver converged."""
        self._task.describe(f"{iterations} iterations  {self._case.name}")
        limited = self.limited(self._staged, iterations)
        outcome = self._runner.trial(limited, self._toolchain, Naming.AT_ONCE).outcome
        if isinstance(outcome, Untestable):
            raise EnvironmentFailure(f"{self._case.name} with {iterations} iterations: {outcome.reason}")
        if isinstance(outcome, Compiled):
            return True
        return outcome.failure.failure_class not in _RESOURCE_CLASSES | self._solver.failure_classes

    def _estimate(self) -> int | None:
        """Search with the optimizer alone, which takes a fraction of a compile; None if it cannot run."""
        tools = self._runner.compilers[self._case.compiler].mlir_tools(self._toolchain)
        if tools is None:
            return None
        found: list[int | None] = []

        def analyse(program: Path) -> None:
            def converges(iterations: int) -> bool:
                self._task.describe(f"{iterations} iterations, the solver alone  {self._case.name}")
                argv = [str(tools.optimizer), *self._solver.analysis, f"{self._option}{iterations}", str(program)]
                argv += ["-o", "/dev/null"]
                env = {"LLVM_DISABLE_SYMBOLIZATION": "1"}
                return run(argv, self._case.limits, program.parent, env=env, stop=self._runner.stop).ok

            found.append(smallest_sufficient(converges, _GUESS, MAX_ITERATIONS))

        def with_prepared(invocation: Invocation) -> Invocation:
            return replace(invocation, options=(*invocation.options, *self._solver.prepared))

        prepared = replace(self._case, phase=self._solver.prepared_phase)
        self._runner.observe(prepared, self._toolchain, with_prepared, on_output=analyse)
        return found[0] if found else None


def smallest_sufficient(sufficient: Callable[[int], bool], guess: int, most: int) -> int | None:
    """Find the smallest sufficient number from 1 to `most`, starting at a guess; None if `most` does not suffice.

    Numbers above a sufficient one must suffice. Each number is tested at most once.
    """
    low, high, step = 0, min(guess, most), 1
    if sufficient(high):
        while low < (below := high - step) and sufficient(below):
            high, step = below, 2 * step
        low = max(low, high - step)
    else:
        while True:
            low = high
            if low >= most:
                return None
            high, step = min(high + step, most), 2 * step
            if sufficient(high):
                break
    _, high = narrow(range(most + 1), low, high, 1, lambda values: [sufficient(value) for value in values])
    return high
