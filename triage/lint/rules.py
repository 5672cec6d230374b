"""All rules, in the order in which they are documented."""

from __future__ import annotations

from triage.lint import affinities, chains, devices, shapes, types
from triage.lint.finding import LintFinding, LintRule, Severity
from triage.lint.program import Program
from triage.lint.solver import SOLVER

RULES: tuple[LintRule, ...] = (*devices.RULES, *affinities.RULES, SOLVER, *chains.RULES, *shapes.RULES, *types.RULES)

_GRAVITY = list(Severity)


def check(program: Program) -> list[LintFinding]:
    """What all rules find, the worst first, then in the order of the text."""
    return in_order([finding for rule in RULES if rule.check for finding in rule.check(program)])


def in_order(findings: list[LintFinding]) -> list[LintFinding]:
    """The worst first, then by place."""
    return sorted(findings, key=_weight)


def _weight(finding: LintFinding) -> tuple[int, int, int]:
    place = finding.place
    return (_GRAVITY.index(finding.severity), place.line if place else 0, place.column if place else 0)
