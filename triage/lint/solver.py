"""Find the smallest number of iterations that a program needs in the affinity solver, by compiling it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from triage.compilers.parts import LintFinding, ProgramFindings, SolverLimit
from triage.execution.engine import Engine
from triage.execution.task import Naming
from triage.mlir import SourcePosition
from triage.model.case import Case, Flag
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Compiled, Untestable
from triage.model.revision import Toolchain

MAX_ITERATIONS = 4096  # a program that needs more does not converge for another reason
_RESOURCE_CLASSES = frozenset({"timeout", "out-of-memory"})  # they show nothing about the solver


def measure_solver(
    engine: Engine, solver: SolverLimit, case: Case, toolchain: Toolchain, path: Path, shown: str
) -> ProgramFindings:
    """Measure the smallest sufficient limit if the solver exhausts the default one.

    A suggested limit was compiled with, and the next smaller one fails. `shown` is what the user calls the program in `path`.
    """
    staged = _staged(case, toolchain, solver.phase)
    if staged is None:
        return ProgramFindings(notes=(f"solver iterations are not measured: the case ends before phase {solver.phase}",))
    outcome = engine.probe_on(staged, toolchain).outcome
    if isinstance(outcome, Untestable):
        return ProgramFindings(notes=(f"solver iterations are not measured: {outcome.reason}",))
    if isinstance(outcome, Compiled):
        return ProgramFindings()
    version, headline, rule = toolchain.revision.name, outcome.failure.headline, solver.rule
    if outcome.failure.failure_class not in solver.failure_classes:
        position = _position((outcome.failure.location or "").replace(str(path), shown))
        rule, text = solver.other_rule, f"does not compile on {version}: {headline}"
        return ProgramFindings((LintFinding(rule.name, rule.severity, text, position=position),))
    flags = []
    if solver.option is None:
        text = f"the affinity solver does not converge, and {version} has no option for more iterations"
    elif (smallest := _smallest(engine, solver, staged, toolchain)) is None:
        text = f"{headline} on {version}; {MAX_ITERATIONS} iterations do not suffice, so the limit is not the cause"
    else:
        flags = [f"{solver.option}{smallest}"]
        complete = engine.probe_on(_limited(case, solver.option, smallest), toolchain).outcome
        text = f"{headline} on {version}; it needs {smallest} iterations: pass `{flags[0]}`"
        if not isinstance(complete, Compiled):
            text += f". It then fails differently: {complete.failure.headline if complete.failure else 'it cannot be tested'}"
    return ProgramFindings((LintFinding(rule.name, rule.severity, text),), flags=tuple(flags))


def _staged(case: Case, toolchain: Toolchain, phase: str) -> Case | None:
    """Return the case, ended as soon as the solver is done, unless it ends before."""
    phases = toolchain.capabilities.phases
    if case.phase in phases and phases.index(case.phase) < phases.index(phase):
        return None
    return replace(case, phase=phase)


def _position(location: str) -> SourcePosition | None:
    """Read `file:line:column`; compilers write an unknown position as 0:0."""
    place = re.fullmatch(r"(.+):([1-9]\d{0,8}):(\d{1,9})", location)
    return SourcePosition(place[1], int(place[2]), int(place[3])) if place else None


def _smallest(engine: Engine, solver: SolverLimit, staged: Case, toolchain: Toolchain) -> int | None:
    task = engine.progress.task(f"affinity solver iterations  {staged.name}")

    def converges(iterations: int) -> bool:
        """Compile up to the solver's phase. A failure of another kind means that the solver converged."""
        task.describe(f"{iterations} iterations  {staged.name}")
        outcome = engine.trial(_limited(staged, solver.option or "", iterations), toolchain, Naming.AT_ONCE).outcome
        if isinstance(outcome, Untestable):
            raise EnvironmentFailure(f"{staged.name} with {iterations} iterations: {outcome.reason}")
        if isinstance(outcome, Compiled):
            return True
        return outcome.failure.failure_class not in _RESOURCE_CLASSES | solver.failure_classes

    try:
        return smallest_sufficient(converges, solver.guess, MAX_ITERATIONS)
    finally:
        task.finish()


def _limited(case: Case, option: str, iterations: int) -> Case:
    flags = [flag for flag in case.flags if not flag.text.startswith(option)]
    return replace(case, flags=(*flags, Flag(f"{option}{iterations}")))


def smallest_sufficient(sufficient: Callable[[int], bool], guess: int, most: int) -> int | None:
    """Find the smallest sufficient number from 1 to `most`, starting at a guess, if `most` suffices.

    Numbers above a sufficient one must suffice. Each number is tested at most once.
    """
    low, high, step = 0, most + 1, 4  # `low` does not suffice, `high` does or is beyond `most`
    number = min(guess, most)
    while high - low > 1:
        if sufficient(number):
            high = number
        else:
            low = number
        # Steps away from the guess double until the answer lies between two numbers.
        if low == 0 and high > step:
            number = high - step
        elif high > most and low + step <= most:
            number = low + step
        else:
            number = (low + high) // 2
        step *= 4
    return high if high <= most else None
