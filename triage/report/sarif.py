"""Findings as SARIF 2.1.0, which GitHub and editors show beside the line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from triage.lint.finding import Linted, LintFinding, LintRule, Severity
from triage.lint.rules import RULES

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def lint_sarif(answers: Sequence[Linted]) -> dict[str, Any]:
    """One run with all rules. Paths below the current folder are relative, as GitHub wants them."""
    results = [_result(one, finding) for one in answers for finding in one.findings]
    driver = {"name": "triage lint", "semanticVersion": version("iree-triage"), "rules": [_rule(rule) for rule in RULES]}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(rule: LintRule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.summary},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(answer: Linted, finding: LintFinding) -> dict[str, Any]:
    return {
        "ruleId": finding.rule,
        "ruleIndex": [rule.name for rule in RULES].index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": _text(answer, finding)},
        "locations": [{"physicalLocation": _physical(answer, finding)}],
    }


def _text(answer: Linted, finding: LintFinding) -> str:
    """Of a generated program the line is named in words: nobody has the file beside their sources."""
    if answer.generated and finding.place:
        return f"{answer.case.name}, line {finding.place.line} of the generated program: {finding.message}"
    return f"{answer.case.name}: {finding.message}"


def _physical(answer: Linted, finding: LintFinding) -> dict[str, Any]:
    place = finding.place
    if place is None or answer.generated:
        return {"artifactLocation": {"uri": _uri(answer.case.source)}, "region": {"startLine": 1}}
    region = {"startLine": max(1, place.line), "startColumn": max(1, place.column)}
    return {"artifactLocation": {"uri": _uri(Path(place.file))}, "region": region}


def _uri(path: Path) -> str:
    whole = path.absolute()
    here = Path.cwd()
    return quote(whole.relative_to(here).as_posix()) if whole.is_relative_to(here) else whole.as_uri()
