"""One finished run -> what it means. Facts are not judged here: whether a failure says anything is the prober's."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from triage.classify.findings import Finding, one
from triage.classify.passes import FailingPass
from triage.classify.rule import Rule
from triage.classify.rules_file import packaged_rules
from triage.classify.scanner import Scanner
from triage.classify.stack_dump import signal_name
from triage.classify.unexplained import silent, unclear, unread, with_pass
from triage.model.execution import Captured, Ending, Execution
from triage.model.outcome import Failure


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """failures: root cause first, empty exactly when the execution is ok. warnings: failures' texts printed all the
    same by a run that succeeded. needs_pass: the output does not say what failed; a second run that prints the
    failing pass would, and `diagnose` is then called again with it.
    """

    failures: tuple[Failure, ...] = ()
    warnings: tuple[Failure, ...] = ()
    needs_pass: bool = False


def diagnose(
    execution: Execution, failing_pass: FailingPass | str | None = None, rules: Sequence[Rule] | None = None
) -> Diagnosis:
    """What `execution` failed of. `failing_pass`: what a second run named, see `PassScanner`."""
    rules = packaged_rules() if rules is None else rules
    failures, remarks, printed = _texts(execution.stderr, rules)
    if execution.ok:
        return Diagnosis(warnings=(*failures, *remarks))
    if not failures:  # a Python front end, or any other command, may tell it on stdout
        failures, _, printed_too = _texts(execution.stdout, rules)
        printed = printed or printed_too
    clear = tuple(failure for failure in failures if not unclear(failure, rules))
    named = FailingPass(failing_pass) if isinstance(failing_pass, str) else failing_pass or printed
    if ended := _ending(execution, rules):
        return Diagnosis(clear or (ended,) if execution.ending is Ending.OVER_OUTPUT else (ended, *clear))
    if died := _died(execution, rules):
        return _crash(clear, died, named)
    if clear:
        return Diagnosis(failures)
    failures = failures or remarks[:1] or _unread(execution, rules)
    if named is None:
        return Diagnosis(failures or (silent(rules, None),), needs_pass=True)
    return Diagnosis(with_pass(failures, named, rules))


def _crash(said: Sequence[Failure], died: Failure, named: FailingPass | None) -> Diagnosis:
    """What a crash is known by: an assertion's text, the pass it happened in, else the named frames of its stack."""
    said = tuple(failure for failure in said if failure.signature != "segfault")  # a stack without any symbol
    stacks = [failure for failure in said if failure.failure_class == died.failure_class]
    if any(failure.family in ("crash", died.family) for failure in said) and not stacks:
        return Diagnosis(said)
    others = tuple(failure for failure in said if failure not in stacks)
    crash = stacks[0] if stacks else died
    if named is None:
        return Diagnosis((*others, *(stacks or [died])), needs_pass=not others)
    # Which frames have names differs from release to release, and with several threads from run to run.
    return Diagnosis((*others, _in_pass(replace(crash, signature=died.signature), named)))


def _in_pass(died: Failure, named: FailingPass) -> Failure:
    """A crash whose stack has no names: the pass it happened in tells it from others."""
    return replace(died, signature=f"{died.signature} in {named.name}", failing_pass=named.name, phase=named.phase)


def _texts(captured: Captured, rules: Sequence[Rule]) -> tuple[tuple[Failure, ...], tuple[Failure, ...], FailingPass | None]:
    scanner = Scanner(rules)
    scanner.feed(captured.text.encode("utf-8", "replace"))
    return scanner.finish(), scanner.remarks, scanner.first_pass


def _unread(execution: Execution, rules: Sequence[Rule]) -> tuple[Failure, ...]:
    for captured in (execution.stderr, execution.stdout):
        if said := unread(captured.text, rules):
            return (said,)
    return ()


def _ending(execution: Execution, rules: Sequence[Rule]) -> Failure | None:
    """A run that we, or the machine, ended."""
    for rule in rules:
        if execution.ending in rule.endings:
            text = {
                Ending.TIMED_OUT: f"stopped after {execution.seconds:.0f} s",
                Ending.OVER_MEMORY: f"stopped at {execution.peak_rss_mb:.0f} MiB of memory",
                Ending.OVER_OUTPUT: "stopped, it wrote too much",
            }.get(execution.ending, f"ended: {execution.ending}")
            return replace(one(Finding(rule, text, 0)), line=None)
    return None


def _died(execution: Execution, rules: Sequence[Rule]) -> Failure | None:
    """A run that a signal ended, also when a shell or a wrapper turned it into an exit code."""
    number = execution.signal
    if number is None and execution.exit_code is not None and execution.exit_code > 128:
        number = execution.exit_code
    name = signal_name(str(number)) if number else None
    if name is None and execution.ending is Ending.SIGNALLED:
        name = "SIGNAL"
    if name is None:
        return None
    value = signal.Signals[name].value if name in signal.Signals.__members__ else None
    crashed = next(rule for rule in rules if rule.name == "segfault")
    rule = next((rule for rule in rules if value in rule.signals), crashed)
    return replace(one(Finding(rule, f"ended by {name}", 0, captures={"signal": name})), line=None)
