"""From facts to meaning, from meaning to verdict: pure functions."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from triage.classify import FailingPass, Rule, diagnose, load_rules, rule_for
from triage.execution.cache import Record
from triage.model.case import Case, CommandLine
from triage.model.execution import Ending, Execution
from triage.model.outcome import Cause, Compiled, Failed, Failure, Outcome, Probe, Status, Untestable, Verdict
from triage.recipes import expectation_for

Match = Callable[[Failure], bool]
Rules = Sequence[Rule]


def rules_of(case: Case) -> Rules | None:
    """The rules to judge a case by: its recipe's own before the packaged ones; None for the packaged ones alone.

    BadFiles for a file of rules that has mistakes.
    """
    path = case.how.rules if isinstance(case.how, CommandLine) else None
    return None if path is None else _rules_in(path, path.stat().st_mtime_ns)


@cache
def _rules_in(path: Path, _: int) -> Rules:
    return load_rules([path])


def judge(
    execution: Execution, failing_pass: FailingPass | None = None, *, flaky: bool = False, rules: Rules | None = None
) -> Outcome:
    """What an execution means. Never an empty failure: what no rule knows has the class `unknown`. rules: those to go by
    instead of the packaged ones.
    """
    if (trouble := _environment(execution)) is not None:
        return trouble
    diagnosis = diagnose(execution, failing_pass, rules)
    if execution.ok:
        return Compiled(warnings=diagnosis.warnings)
    first, *others = (_in_phase(failure, execution.phase) for failure in diagnosis.failures)
    own = (rule for rule in rules or () if rule.name == first.failure_class)
    rule = next(own, None) or rule_for(first.failure_class)
    if rule is not None and rule.says_nothing is not None:
        flag = first.details.get("flag") if rule.says_nothing is Cause.FLAG else None
        reason = f"does not know the flag {flag}" if flag else first.headline
        return Untestable(rule.says_nothing, reason, first)
    return Failed(first, tuple(others), flaky)


def _in_phase(failure: Failure, phase: str | None) -> Failure:
    """With the phase that the compiler itself named, which knows better than its pass's or its class's name."""
    return failure if phase is None else replace(failure, phase=phase)


def _environment(execution: Execution) -> Untestable | None:
    """The machine's own troubles, which say nothing about the compiler."""
    said = execution.stderr.head
    if execution.ending is Ending.NOT_STARTED:
        return Untestable(Cause.TOOLCHAIN, said.strip() or "the compiler could not be started")
    if execution.ok:
        return None
    if "error while loading shared libraries" in said:
        return Untestable(Cause.TOOLCHAIN, said.strip().splitlines()[0])
    if "No space left on device" in execution.stderr.text:
        return Untestable(Cause.ENVIRONMENT, "no space left on the disk")
    if execution.ending is Ending.OVER_OUTPUT:
        return Untestable(Cause.ENVIRONMENT, "more output was written than is allowed")
    if execution.ending is Ending.SIGNALLED and execution.signal in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        name = signal.Signals(execution.signal).name
        return Untestable(
            Cause.ENVIRONMENT,
            f"ended from outside by {name} at {execution.peak_rss_mb:.0f} MiB"
            + (", perhaps by the system for want of memory" if execution.signal == signal.SIGKILL else ""),
        )
    return None


def needs_pass(execution: Execution) -> bool:
    """Whether only a second run that names the failing pass can tell what went wrong."""
    return _environment(execution) is None and diagnose(execution).needs_pass


def known_failure(records: Iterable[Record]) -> Failure | None:
    """The first failure in what is known; untestable runs are passed over."""
    for record in records:
        outcome = judge(record.execution, record.failing_pass, flaky=record.disagreements > 0)
        if isinstance(outcome, Failed):
            return outcome.failure
    return None


def status_of(probe: Probe) -> Status:
    """An outcome against what the recipe expects at this version: a known failure is xfail, its absence xpass."""
    case, version = probe.case, probe.version
    match probe.outcome:
        case Compiled():
            return Status.XPASS if expectation_for(case, version) else Status.PASSED
        case Failed(failure=failure):
            return Status.XFAIL if expectation_for(case, version, failure) else Status.FAILED
        case Untestable(failure=said):
            return Status.XFAIL if said and expectation_for(case, version, said) else Status.UNTESTABLE


def same_signature(reference: Failure) -> Match:
    """The same failure and no other."""
    return lambda failure: failure.signature == reference.signature


def same_family(reference: Failure) -> Match:
    """Any class of the same family: for a root cause whose class changes between releases."""
    return lambda failure: failure.family == reference.family


def same_class(reference: Failure) -> Match:
    """Any signature of the same class."""
    return lambda failure: failure.failure_class == reference.failure_class


def any_failure(_: Failure) -> bool:
    """Whatever fails."""
    return True


def verdict_of(outcome: Outcome, match: Match) -> Verdict:
    """What an outcome says of the failure that `match` recognises. Another failure and a flaky one say nothing."""
    match outcome:
        case Compiled():
            return Verdict.GOOD
        case Failed(failure, others, flaky):
            found = any(map(match, (failure, *others)))
            return Verdict.BAD if found and not flaky else Verdict.SKIP
        case Untestable():
            return Verdict.SKIP
