"""Diagnose one finished run: which failures its output and its ending show."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from triage.classify.diagnostic import HEADLINE, diagnostic
from triage.classify.findings import (
    Finding,
    Findings,
    as_input_failure,
    as_pass_failure,
    silent_failure,
    with_pass,
)
from triage.classify.line_matcher import EXCEPTION, match_exception
from triage.classify.log_line import LogLine, clean
from triage.classify.rules import RuleSet
from triage.classify.scanner import scan
from triage.classify.stack_dump import signal_name
from triage.model.execution import Captured, Ending, Execution
from triage.model.outcome import Failure
from triage.model.pass_name import PassName

_FALLBACK_LINES = 2000  # searched for the line that sounds most like an error
_LETTERS = re.compile(r"[^\W\d_]{2}")
_ERROR_WORDS = re.compile(
    r"\b(?:error|fail\w*|invalid|illegal|unexpected|expect\w*|cannot|can't|could "
    r"not|unable|unknown|undefined|unsupported|"
    r"missing|must|may not|not|no such)\b",
    re.IGNORECASE,
)
_PRINTED_IR = re.compile(r"[%\"{}()^#!@/]|(?:module|[a-z_]+\.[a-z_.]+)(?: |\Z)")
_LOCATION = re.compile(r"(?=[^\s./]*+[./])(?P<location>(?:[^\s:]|:(?! ))++): +(?=\S)")


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
    found = _scan(execution.stderr, rules)
    if execution.ok:
        return Diagnosis(warnings=(*found.failures, *found.remarks))
    remarks, printed = found.remarks, found.first_pass
    if all(map(rules.needs_pass, found.failures)):
        # A Python front end and many other commands report errors on stdout; some print
        # only a banner on stderr.
        on_stdout = _scan(execution.stdout, rules)
        if _says_more(on_stdout.failures, found.failures, rules):
            found, printed = on_stdout, printed or on_stdout.first_pass
    failures = found.failures
    explained = tuple(
        failure for failure in failures if not rules.is_unexplained(failure)
    )
    known_pass = failing_pass or printed
    stopped = _limit_failure(execution, rules)
    if stopped:
        return Diagnosis((stopped, *explained))
    crashed = _signal_failure(execution, rules)
    if crashed:
        return Diagnosis(_crash_failures(explained, crashed))
    if not explained:
        failures = failures or remarks[:1]
        for captured in (execution.stderr, execution.stdout):
            if failures:
                break
            failures = _failures_from_plain_lines(captured.text, rules)
        if known_pass is None:
            silent = silent_failure(rules, None)
            # a second run named no pass either
            is_asked = failing_pass is None
            return Diagnosis(failures or (silent,), needs_pass=is_asked)
        return Diagnosis(with_pass(failures, known_pass, rules))
    if found.passes_ran:
        return Diagnosis(failures)
    # Some messages are printed by the reader of the input and by passes. Their class
    # depends on whether a pass failed.
    of_input = as_input_failure(explained[0], rules)
    of_pass = as_pass_failure(explained[0], rules)
    if failing_pass is None:
        return Diagnosis(failures, needs_pass=bool(of_input or of_pass))
    if of_input and not failing_pass:
        return Diagnosis((of_input,))
    if of_pass and not of_input and failing_pass:
        return Diagnosis((replace(of_pass, failing_pass=failing_pass.name),))
    return Diagnosis(failures)


def _says_more(
    others: Sequence[Failure], failures: Sequence[Failure], rules: RuleSet
) -> bool:
    """Return whether the other failures say more than these."""
    is_silent = all(failure.failure_class == "silent-failure" for failure in failures)
    return bool(others) and (is_silent or not all(map(rules.is_unexplained, others)))


def _crash_failures(
    reported: Sequence[Failure], crashed: Failure
) -> tuple[Failure, ...]:
    """Identify a crash by what the compiler says itself, such as an assertion, else by
    its stack, else by the signal.

    A pass that was reported before the crash does not identify it: the crash may lie
    behind it, or outside of all passes.
    """
    stacks = [
        failure
        for failure in reported
        if failure.failure_class in ("segfault", crashed.failure_class)
    ]
    others = [failure for failure in reported if failure not in stacks]
    if any(failure.family in ("crash", crashed.family) for failure in others):
        return tuple(others)
    named = next(
        (failure for failure in stacks if failure.signature != failure.failure_class),
        None,
    )
    if named is None:
        return (*others, crashed)
    signature = named.signature.replace(named.failure_class, crashed.failure_class, 1)
    identified = replace(
        crashed,
        line=named.line,
        signature=signature,
        headline=named.headline,
        phase=named.phase,
        failing_pass=named.failing_pass,
        details={**crashed.details, **named.details},
    )
    return (*others, identified)


def _scan(captured: Captured, rules: RuleSet) -> Findings:
    return scan([captured.text.encode("utf-8", "replace")], rules)


def _limit_failure(execution: Execution, rules: RuleSet) -> Failure | None:
    """Return the failure of a run that exceeded a limit or wrote no output, by the rule
    whose `endings` name that; None for another ending.
    """
    memory = f"{execution.peak_rss_mb:.0f} MiB of memory"
    for rule in rules:
        if execution.ending in rule.endings:
            headline = {
                Ending.TIMED_OUT: f"stopped after {execution.seconds:.0f} s",
                Ending.OVER_MEMORY: f"stopped at {memory}",
                Ending.OVER_OUTPUT: "stopped, it wrote more than its limit of output",
                Ending.NO_OUTPUT: f"exit status 0, but {_missing(execution)}",
            }.get(execution.ending, f"ended: {execution.ending}")
            return Finding(rule, headline).failure()
    return None


def _missing(execution: Execution) -> str:
    """Return what is missing of the output of a compiler that succeeded."""
    if execution.output_bytes == 0:
        return "the output file is empty"
    return "there is no regular output file"


def _signal_failure(execution: Execution, rules: RuleSet) -> Failure | None:
    """Return the failure of a run that a signal ended, or whose exit code says so; None
    for another ending.
    """
    number = execution.signal
    if number is None and execution.exit_code is not None and execution.exit_code > 128:
        number = execution.exit_code
    name = signal_name(str(number)) if number else None
    if name is None and execution.ending is Ending.SIGNALLED:
        name = "SIGNAL"
    if name is None:
        return None
    rule = rules.by_name["segfault"]
    if name in signal.Signals.__members__:
        value = signal.Signals[name].value
        rule = next((rule for rule in rules if value in rule.signals), rule)
    return Finding(rule, f"ended by {name}", captures={"signal": name}).failure()


def _failures_from_plain_lines(text: str, rules: RuleSet) -> tuple[Failure, ...]:
    """Take the line of an exception that a rule knows; else, unless a line has a
    severity, the first one that sounds like an error, or the last one. Nothing if no
    line may be a message.
    """
    raw = text.encode("utf-8", "replace").splitlines()[:_FALLBACK_LINES]
    lines = [(number, clean(line)) for number, line in enumerate(raw, 1)]
    plain = [(number, line.text) for number, line in lines if _may_be_message(line)]
    for number, line in plain:
        if not EXCEPTION.match(line):
            continue
        finding = match_exception(rules, line, ())
        if finding is not None:
            return (replace(finding, line=number).failure(),)
    # a remark or a warning must not be taken for the failure
    if not plain or any(diagnostic(line) for _, line in lines):
        return ()
    for number, line in plain:
        if _ERROR_WORDS.search(line):
            return (_unknown_failure(number, line, rules),)
    return (_unknown_failure(*plain[-1], rules),)


def _unknown_failure(number: int, line: str, rules: RuleSet) -> Failure:
    """Return the failure of a line that no rule knows, without its location."""
    message, place = line, None
    location = _LOCATION.match(line)
    if location:
        message, place = line[location.end() :], location["location"]
    unknown = rules.by_name["unknown"]
    return Finding(unknown, message[:HEADLINE], number, place).failure()


def _may_be_message(line: LogLine) -> bool:
    if line.indent or not _LETTERS.search(line.text):
        return False
    return bool(_LOCATION.match(line.text)) or not _PRINTED_IR.match(line.text)
