"""Diagnose one finished run: which failures its output and its ending show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from triage.classify.classified_log import ranked
from triage.classify.finding import Finding
from triage.classify.findings import of_input_or_pass, silent_failure, with_pass
from triage.classify.log_line import HEADLINE, LogLine, diagnostic
from triage.classify.reader import LogReader, read_log
from triage.classify.rules import RuleSet
from triage.classify.stack_dump import signal_name
from triage.model.execution import Ending, Execution, PassName
from triage.model.outcome import Failure

_LETTERS = re.compile(r"[^\W\d_]{2}")
_PRINTED_IR = re.compile(r"[%\"{}()^#!@]|//|(?:module|[a-z_]+\.[a-z_.]+)(?: |\Z)")

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


@dataclass(frozen=True, slots=True)
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
    ended = _ending(execution)
    reader = _read_output(execution.stderr.text + ended, rules)
    findings = reader.findings
    if execution.ok:
        return Diagnosis(warnings=(*findings.failures, *findings.remarks))
    plain = [*reader.plain]
    if all(map(rules.needs_pass, findings.failures)):
        # a Python front end and many other commands report errors on stdout; some print
        # only a banner on stderr
        reader = _read_output(execution.stdout.text, rules)
        plain += reader.plain
        others = reader.findings.failures
        known = {failure.failure_class for failure in findings.failures}
        is_silent = known <= {"silent-failure"}
        if others and (is_silent or not all(map(rules.is_unexplained, others))):
            findings = reader.findings
    failures = findings.failures
    explained = tuple(
        failure for failure in failures if not rules.is_unexplained(failure)
    )
    stopped = _limit_failure(execution, rules)
    if stopped:
        return Diagnosis((stopped, *explained))
    if ended and explained:
        return Diagnosis(explained)
    if explained:
        of_input = of_input_or_pass(failures[0], rules, passes_ran=False)
        of_pass = of_input_or_pass(failures[0], rules, passes_ran=True)
        if of_input == of_pass or findings.passes_ran:
            return Diagnosis(failures)
        if failing_pass is None:
            return Diagnosis(failures, needs_pass=True)
        if failing_pass:
            first = replace(of_pass, failing_pass=failing_pass.name)
        else:
            first = of_input
        return Diagnosis((first, *failures[1:]))
    failures = failures or findings.remarks[:1] or _plain_failure(plain, rules)
    known_pass = failing_pass or findings.first_pass
    if known_pass is None:
        silent = silent_failure(rules, None)
        # unless a second run named no pass either
        return Diagnosis(failures or (silent,), needs_pass=failing_pass is None)
    return Diagnosis(with_pass(failures, known_pass, rules))


def _read_output(text: str, rules: RuleSet) -> LogReader:
    return read_log([text.encode("utf-8", "replace")], rules)


def _limit_failure(execution: Execution, rules: RuleSet) -> Failure | None:
    """Return the failure of a run that exceeded a limit or wrote no output, or None."""
    if execution.ending not in _LIMITS:
        return None
    name, text = _LIMITS[execution.ending]
    headline = text.format(execution.seconds, execution.peak_rss_mb)
    return Finding(rules.by_name[name], headline).failure()


def _ending(execution: Execution) -> str:
    """Return a line that says which signal ended a run, or its exit code; empty for
    another ending.
    """
    number = execution.signal
    if number is None and execution.exit_code is not None and execution.exit_code > 128:
        number = execution.exit_code
    name = signal_name(str(number)) if number else None
    if name is None and execution.ending is Ending.SIGNALLED:
        name = "SIGNAL"
    return f"\nended by {name}\n" if name else ""


def _plain_failure(lines: Sequence[LogLine], rules: RuleSet) -> tuple[Failure, ...]:
    """Return the failure of the line that most likely tells it. Nothing if no line may
    be a message.
    """
    # a remark or a warning must not be taken for the failure
    if any(map(diagnostic, lines)):
        return ()
    messages = [
        line
        for line in lines
        if not line.indent
        and _LETTERS.search(line.text)
        and not _PRINTED_IR.match(line.text)
    ]
    for _, line in ranked(messages)[:1]:
        text = line.text[:HEADLINE]
        return (Finding(rules.by_name["unknown"], text, line.number).failure(),)
    return ()
