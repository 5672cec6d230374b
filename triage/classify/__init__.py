"""Compiler output -> failures: rules as data, one pass over the stream, a signature that survives rewording."""

from __future__ import annotations

from triage.classify.diagnose import Diagnosis, diagnose
from triage.classify.log_files import classify_log, open_log
from triage.classify.passes import FailingPass, PassScanner, phase_of
from triage.classify.rule import Rule
from triage.classify.rules_file import load_rules, packaged_rules
from triage.classify.scanner import Scanner
from triage.classify.unexplained import unclear
from triage.model.outcome import Failure

__all__ = [
    "Diagnosis",
    "FailingPass",
    "PassScanner",
    "Rule",
    "Scanner",
    "class_names",
    "classify_log",
    "diagnose",
    "load_rules",
    "open_log",
    "packaged_rules",
    "phase_of",
    "rule_for",
    "tells_nothing",
]


def rule_for(class_name: str) -> Rule | None:
    """The packaged rule of that class; None for a class that a user's own rules define."""
    return next((rule for rule in packaged_rules() if rule.name == class_name), None)


def tells_nothing(failure: Failure) -> bool:
    """Whether the output does not say what went wrong, so that only the pass that failed tells the failure from others."""
    return unclear(failure, packaged_rules()) or failure.failure_class == "silent-failure"


def class_names() -> tuple[str, ...]:
    """Every packaged class, in alphabetical order."""
    return tuple(sorted(rule.name for rule in packaged_rules()))
