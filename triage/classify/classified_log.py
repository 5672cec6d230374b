"""Classify a whole log: its failures, or the lines that sound like one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from triage.classify.log import text_pieces
from triage.classify.reader import read_log
from triage.classify.rules import RuleSet
from triage.classify.second_look import SuspiciousLine, look_again
from triage.model.errors import BadInput
from triage.model.json_form import in_json
from triage.model.outcome import Exit, Failure


class LogStatus(StrEnum):
    """What a log says of the run that printed it."""

    FAILED = "failed"
    UNRECOGNISED = "unrecognised"
    """Something failed, and no rule knows what."""
    NO_FAILURES = "no failures"


@dataclass(frozen=True, slots=True)
class ClassifiedLog:
    """A log with its failures, the root cause first."""

    log: str
    failures: tuple[Failure, ...]
    likeliest: tuple[SuspiciousLine, ...] = ()
    """Without failures, the lines that sound like one."""

    @in_json
    def status(self) -> LogStatus:
        if self.failures:
            return LogStatus.FAILED
        if self.likeliest:
            return LogStatus.UNRECOGNISED
        return LogStatus.NO_FAILURES


@dataclass(frozen=True, slots=True)
class ClassifiedLogs:
    """The result of `triage classify`."""

    logs: Sequence[ClassifiedLog]

    @property
    def exit(self) -> Exit:
        statuses = {log.status for log in self.logs}
        if LogStatus.FAILED in statuses:
            return Exit.FOUND
        if LogStatus.UNRECOGNISED in statuses:
            return Exit.INCONCLUSIVE
        return Exit.OK


def classify_log(log: Path | BinaryIO, rules: RuleSet) -> ClassifiedLog:
    """Return the failures in a log.

    Raises:
        BadInput: the log cannot be opened or has no text.
    """
    with ExitStack() as stack:
        stream: BinaryIO
        if isinstance(log, Path):
            name, shown = str(log), str(log)
            try:
                stream = stack.enter_context(log.open("rb"))
            except OSError as error:
                raise BadInput(f"{log}: {error.strerror}") from error
        else:
            name, shown, stream = "-", "standard input", log
        reader = read_log(text_pieces(stream, shown), rules)
    findings = reader.findings
    likeliest: tuple[SuspiciousLine, ...] = ()
    if findings.is_empty and not findings.first_pass:
        finding, likeliest = look_again(reader.plain, rules)
        if finding:
            findings.add(finding)
    return ClassifiedLog(name, findings.failures, likeliest)
