"""Turn compiler output into failures: rules as data, one pass over the stream,
signatures that survive rewording.
"""

from __future__ import annotations

from triage.classify.classified_log import (
    ClassifiedLog,
    ClassifiedLogs,
    LogStatus,
    SuspiciousLine,
    classify_log,
)
from triage.classify.diagnose import Diagnosis, diagnose
from triage.classify.passes import PassScanner, phase_of
from triage.classify.rules import Rule, RuleSet, load_rules, packaged_rules

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
