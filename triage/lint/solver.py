"""How many iterations the analysis of devices really needs: estimated with the optimizer alone, settled by compiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from triage.compilers.invocation import Invocation
from triage.compilers.placement import Solver
from triage.execution.prober import Naming
from triage.execution.process import run
from triage.execution.runner import ProbeRunner
from triage.lint.finding import LintFinding, LintRule, Severity
from triage.model.case import Case, Flag
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Compiled, Failed, Outcome, Untestable
from triage.model.revision import Toolchain

MOST = 4096  # iterations; what needs more does not end for other reasons
_GUESS = 256
_SAYS_NOTHING = frozenset({"timeout", "out-of-memory"})
_NAME = "solver-iterations"

SOLVER = LintRule(
    _NAME,
    Severity.ERROR,
    "The analysis of devices needs more iterations than it is allowed. With --toolchain: the smallest limit is measured.",
)


@dataclass(frozen=True, slots=True)
class SolverMeasurement:
    """What was found, the flags that would help, and what there is to say beside it."""

    findings: tuple[LintFinding, ...] = ()
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def measure(bench: ProbeRunner, case: Case, toolchain: Toolchain) -> SolverMeasurement:
    """Nothing where a case compiles as it is up to the phase in question, or fails otherwise.

    The limit that is suggested was compiled with, and so was the one below it, which does not do.
    """
    placement = bench.prober.placement_of(case.compiler)
    assert placement is not None
    solver = placement.solver(toolchain)
    staged = _staged(case, toolchain, solver)
    if staged is None:
        return SolverMeasurement(
            notes=(f"the case ends before phase {solver.phase}: iterations of the analysis are not measured",)
        )
    outcome = bench.prober.probe(staged, toolchain).outcome
    if isinstance(outcome, Untestable):
        return SolverMeasurement(notes=(f"iterations of the analysis are not measured: {outcome.reason}",))
    if not _exhausted(outcome, solver):
        return SolverMeasurement()
    if solver.limit is None:
        return _failing(f"the analysis of devices does not converge, and {_name(toolchain)} has no option for more iterations")
    return _Search(bench, case, staged, toolchain, solver).answer(outcome)


class _Search:
    """The smallest limit of one case."""

    def __init__(self, bench: ProbeRunner, case: Case, staged: Case, toolchain: Toolchain, solver: Solver) -> None:
        self._bench, self._case, self._staged, self._toolchain, self._solver = bench, case, staged, toolchain, solver
        self._task = bench.progress.task(f"iterations of the analysis of devices  {case.name}")

    def answer(self, outcome: Outcome) -> SolverMeasurement:
        assert isinstance(outcome, Failed)
        try:
            least = smallest(self._converges, self._estimate() or _GUESS, MOST)
        finally:
            self._task.finish()
        said = f"{outcome.failure.headline} on {_name(self._toolchain)}"
        if least is None:
            return _failing(f"{said}; {MOST} iterations are not enough either, so that its limit is not what is wrong")
        flag = f"{self._solver.limit}{least}"
        whole = self._bench.prober.probe(_limited(self._case, flag, self._solver), self._toolchain).outcome
        text = f"{said}; {least} iterations are the fewest that will do: give `{flag}`"
        if isinstance(whole, Compiled):
            return _failing(f"{text}, with which it compiles", flag)
        then = whole.failure.headline if whole.failure else "it cannot be tested"
        return _failing(f"{text}. Behind it lies another failure: {then}", flag)

    def _converges(self, iterations: int) -> bool:
        """By compiling up to the phase in question. Another failure means that the analysis had enough, unless it is one of
        time or memory, which says nothing.
        """
        self._task.describe(f"{iterations} iterations  {self._case.name}")
        limited = _limited(self._staged, f"{self._solver.limit}{iterations}", self._solver)
        outcome = self._bench.prober.trial(limited, self._toolchain, Naming.AT_ONCE).outcome
        if isinstance(outcome, Untestable):
            raise EnvironmentFailure(f"{self._case.name} with {iterations} iterations: {outcome.reason}")
        spent = isinstance(outcome, Failed) and outcome.failure.failure_class in _SAYS_NOTHING
        return not spent and not _exhausted(outcome, self._solver)

    def _estimate(self) -> int | None:
        """By the optimizer alone, which takes a fraction of a compile; near the truth as a rule. None where it cannot tell."""
        tools = self._bench.prober.mlir_tools(self._case, self._toolchain)
        if tools is None:
            return None
        found: list[int | None] = []

        def analyse(program: Path) -> None:
            def converges(iterations: int) -> bool:
                argv = [str(tools.optimizer), *self._solver.analysis, f"{self._solver.limit}{iterations}", str(program)]
                given = {"LLVM_DISABLE_SYMBOLIZATION": "1"}
                argv += ["-o", "/dev/null"]
                return run(argv, self._case.limits, program.parent, env=given, stop=self._bench.stop).ok

            found.append(smallest(converges, _GUESS, MOST))

        prepared = replace(self._case, phase=self._solver.prepared_phase)
        self._bench.prober.observe(prepared, self._toolchain, self._as_prepared, on_output=analyse)
        return found[0] if found else None

    def _as_prepared(self, invocation: Invocation) -> Invocation:
        return replace(invocation, options=(*invocation.options, *self._solver.prepared))


def smallest(enough: Callable[[int], bool], guess: int, most: int) -> int | None:
    """The smallest number from 1 to `most` that is enough, looked for around a guess; None where `most` is not.

    Each number is asked for once. Where a number is enough, larger ones must be.
    """
    low, high, step = 0, min(guess, most), 1
    if enough(high):
        while low < (below := high - step) and enough(below):
            high, step = below, 2 * step
        low = max(low, high - step)
    else:
        while True:
            low = high
            if low >= most:
                return None
            high, step = min(high + step, most), 2 * step
            if enough(high):
                break
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _staged(case: Case, toolchain: Toolchain, solver: Solver) -> Case | None:
    """The case, ended as early as tells; None where it ends before."""
    phases = toolchain.capabilities.phases
    if solver.phase not in phases:
        return case if case.phase is None else None
    if case.phase in phases and phases.index(case.phase) < phases.index(solver.phase):
        return None
    return replace(case, phase=solver.phase)


def _limited(case: Case, flag: str, solver: Solver) -> Case:
    assert solver.limit is not None
    others = [one for one in case.flags if not one.text.startswith(solver.limit)]
    return replace(case, flags=(*others, Flag(flag)))


def _exhausted(outcome: Outcome, solver: Solver) -> bool:
    return isinstance(outcome, Failed) and outcome.failure.family == solver.family


def _failing(text: str, *flags: str) -> SolverMeasurement:
    return SolverMeasurement((LintFinding(_NAME, Severity.ERROR, text),), flags)


def _name(toolchain: Toolchain) -> str:
    return toolchain.revision.name
