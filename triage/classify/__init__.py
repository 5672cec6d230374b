"""Turn compiler output into failures: rules as data, one pass over the stream,
signatures that survive rewording.
"""

from __future__ import annotations

from triage.classify.diagnose import Diagnosis, diagnose
from triage.classify.passes import NO_PASS, FailingPass, PassScanner
from triage.classify.rules import Rule, RuleSet
from triage.classify.rules_file import load_rules, packaged_rules
from triage.classify.scanner import ClassifiedLog, ClassifiedLogs, classify_log, scan

__all__ = [
    "NO_PASS",
    "ClassifiedLog",
    "ClassifiedLogs",
    "Diagnosis",
    "FailingPass",
    "PassScanner",
    "Rule",
    "RuleSet",
    "classify_log",
    "diagnose",
    "load_rules",
    "packaged_rules",
    "scan",
]
