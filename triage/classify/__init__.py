"""Turn compiler output into failures: rules as data, one pass over the stream,
signatures that survive rewording.
"""

from __future__ import annotations

from triage.classify.diagnose import (
    ClassifiedLog,
    ClassifiedLogs,
    Diagnosis,
    LogStatus,
    classify_log,
    diagnose,
)
from triage.classify.failure_site import PassScanner, phase_of
from triage.classify.rules import Rule, RuleSet, load_rules, packaged_rules
from triage.classify.second_look import SuspiciousLine

__all__ = [
    "ClassifiedLog",
    "ClassifiedLogs",
    "Diagnosis",
    "LogStatus",
    "PassScanner",
    "Rule",
    "RuleSet",
    "SuspiciousLine",
    "classify_log",
    "diagnose",
    "load_rules",
    "packaged_rules",
    "phase_of",
]
