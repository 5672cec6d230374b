"""Diagnose a log, or a finished run: which failures it shows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from triage.classify.failure_site import signal_name
from triage.classify.findings import (
    Finding,
    class_of,
    failures_of,
    identify_by_pass,
    silent_failure,
)
from triage.classify.log import text_pieces
from triage.classify.reader import LogReader, read_log
from triage.classify.rules import RuleSet
from triage.classify.second_look import SuspiciousLine, likeliest_message, look_again
from triage.model.errors import BadInput
from triage.model.execution import Ending, Execution, PassName
from triage.model.fields import in_json
from triage.model.outcome import Exit, Failure

# the class and the headline of a run that ended so
_LIMITS = {
    Ending.TIMED_OUT: ("timeout", "stopped after {0:.0f} s"),
    Ending.OVER_MEMORY: ("out-of-memory", "stopped at {1:.0f} MiB of memory"),
    Ending.OVER_OUTPUT: ("runaway-output", "stopped: it wrote more than its limit"),
    Ending.NO_OUTPUT: (
        "no-output",
        "exit status 0, but no output file, or an empty one",
    ),
}


class LogStatus(StrEnum):
    """What a log says of the run that printed it."""

    FAILED = "failed"
    UNRECOGNISED = "unrecognised"
    """Something seems to have failed, but no rule knows it."""
    NO_FAILURES = "no failures"


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class ClassifiedLogs:
    """The result of `triage classify`."""

    logs: Sequence[ClassifiedLog]

    @property
    def exit(self) -> Exit:
        statuses = {log.status for log in self.logs}
        if LogStatus.FAILED in statuses:
            return Exit.FAILURE
        if LogStatus.UNRECOGNISED in statuses:
            return Exit.INCONCLUSIVE
        return Exit.OK


def classify_log(log: Path | BinaryIO, rules: RuleSet) -> ClassifiedLog:
    """Return the failures in a log.

    Raises:
        BadInput: the log cannot be opened or has no text.
    """
    with ExitStack() as stack:
        if isinstance(log, Path):
            name = title = str(log)
            try:
                stream: BinaryIO = stack.enter_context(log.open("rb"))
            except OSError as error:
                raise BadInput(f"{log}: {error.strerror}") from error
        else:
            name = "-"
            title = "standard input"
            stream = log
        reader = read_log(text_pieces(stream, title), rules)
    likeliest: tuple[SuspiciousLine, ...] = ()
    causes = reader.findings.causes()
    if not causes:
        finding, likeliest = look_again(reader.plain, rules)
        if finding:
            reader.findings.add(finding)
            causes = reader.findings.causes()
    return ClassifiedLog(name, failures_of(causes), likeliest)


@dataclass(frozen=True)
class Diagnosis:
    """What a run failed with."""

    failures: tuple[Failure, ...] = ()
    """Root cause first; empty exactly when the execution is ok."""
    warnings: tuple[Failure, ...] = ()
    """Failures whose messages a successful run printed."""
    needs_pass: bool = False
    """The output does not say what failed. Compile again with the failing pass printed,
    and call `diagnose` with that pass.
    """


def diagnose(
    execution: Execution, rules: RuleSet, failing_pass: PassName | None = None
) -> Diagnosis:
    """Find the failures of a run.

    failing_pass: None before a second run that prints the failing pass; after it, that
    pass, or `NO_PASS` if it named none.
    """
    ending_line = _ending_line(execution)
    reader = _read_output(execution.stderr.text + ending_line, rules)
    findings = reader.findings
    plain = [*reader.plain]
    causes = findings.causes()
    if execution.ok:
        warnings = [*causes, *findings.of_kind(remarks=True)]
        return Diagnosis(warnings=failures_of(warnings))
    if all(cause.rule.needs_pass for cause in causes):
        # a Python front end and many other commands report errors on stdout; some print
        # only a banner on stderr
        reader = _read_output(execution.stdout.text, rules)
        plain += reader.plain
        others = reader.findings.causes()
        is_silent = all(cause.rule.name == "silent-failure" for cause in causes)
        if others and (
            is_silent or not all(other.rule.is_unexplained for other in others)
        ):
            findings = reader.findings
            causes = others
    explained = [cause for cause in causes if not cause.rule.is_unexplained]
    if execution.ending in _LIMITS:
        name, text = _LIMITS[execution.ending]
        headline = text.format(execution.seconds, execution.peak_rss_mb)
        return Diagnosis(
            failures_of([Finding(rules.by_name[name], headline), *explained])
        )
    if ending_line and explained:
        return Diagnosis(failures_of(explained))
    if explained:
        first = causes[0]
        names = [class_of(first, passes_ran=ran) for ran in (False, True)]
        if findings.passes_ran or names[0] == names[1]:
            return Diagnosis(failures_of(causes))
        if failing_pass is not None:
            first.become(rules.by_name[names[bool(failing_pass)]])
            first.failing_pass = failing_pass or first.failing_pass
        return Diagnosis(failures_of(causes), needs_pass=failing_pass is None)
    causes = causes or findings.of_kind(remarks=True)[:1]
    causes = causes or likeliest_message(plain, rules)
    known_pass = failing_pass or findings.first_pass
    if known_pass:
        return Diagnosis(failures_of(identify_by_pass(causes, known_pass, rules)))
    # unless a second run named no pass either
    causes = causes or [silent_failure(rules)]
    return Diagnosis(failures_of(causes), needs_pass=failing_pass is None)


def _read_output(text: str, rules: RuleSet) -> LogReader:
    return read_log([text.encode("utf-8", "replace")], rules)


def _ending_line(execution: Execution) -> str:
    """Return a line that says which signal ended a run, or its exit code; empty for
    another ending.
    """
    number = execution.signal
    if number is None and execution.exit_code is not None and execution.exit_code > 128:
        number = execution.exit_code
    name = signal_name(str(number)) if number else None
    if name is None and execution.ending is Ending.SIGNALLED:
        name = "SIGNAL"
    if name:
        return f"\nended by {name}\n"
    return ""
