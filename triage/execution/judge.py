"""Judge executions: facts become an outcome, a number that is too large a failure, an
outcome a verdict on one failure.
"""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from triage.compilers.invocation import reported_facts
from triage.model.case import Case
from triage.model.execution import Ending, Execution, Stage
from triage.model.outcome import (
    OF_MACHINE,
    Cause,
    Detail,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
    Status,
    Verdict,
)
from triage.model.pass_name import PassName
from triage.model.probe_result import ProbeResult
from triage.recipes.expectations import expectation_for

if TYPE_CHECKING:
    from triage.classify import Diagnosis, RuleSet
    from triage.compilers.parts import Runner
    from triage.toolchains.registry import ToolchainRef

Match = Callable[[Failure], bool]
_SUGGESTION = re.compile(r"[Dd]id you mean '?(-{1,2}[^\s'?]+)")

_NO_SPACE = "No space left on device"
_FULL = 1 << 20  # bytes; with less free space, any write may have failed
# bytes; a file that did not fit may have been that large, and be removed again
_NEARLY_FULL = 1 << 30
# share of the time that a run may wait for a core until its time limit shows nothing
_WAITED = 0.1
# exit codes of the loader and of shells for a program that they cannot run
_NOT_RUN = (126, 127)
_SKIPS = 125  # of a test script
_NOT_LOADED = re.compile(
    r"(?P<program>[^:]+): (?:error while loading shared libraries: [^:]+: "
    r"|[^:]+: version `(?P<symbol>[^']+)' not found \(required by |.*(?:not "
    r"found|cannot execute|Exec format error))"
)
# what follows, if anything, describes where it was searched
_PYTHON_NOT_LOADED = re.compile(
    r"^(?:OSError|ImportError): (?:[^\s:]+\.so[.\d]*: cannot open shared object file|"
    r"[^\s:]+: version `[^']+' not found|Could not (?:find/)?load shared "
    r"(?:object|library))[^\n]*",
    re.MULTILINE,
)


def rules_of(case: Case) -> RuleSet:
    """Return the rules to judge a case by: its recipe's own rules before the packaged
    ones.

    Raises:
        BadFiles: the recipe's rule file has mistakes.
    """
    from triage.classify import packaged_rules  # slow to import

    if case.rules is None:
        rules = packaged_rules()
    else:
        rules = _rules_in(case.rules, case.rules.stat().st_mtime_ns)
    if case.spec is not None and case.spec.parse_errors_fail:
        return _with_parse_errors(rules)
    return rules


@cache
def _rules_in(path: Path, _modified: int) -> RuleSet:
    from triage.classify import load_rules  # slow to import

    return load_rules([path])


@cache
def _with_parse_errors(rules: RuleSet) -> RuleSet:
    changed = tuple(
        replace(rule, says_nothing=None) if rule.says_nothing is Cause.INPUT else rule
        for rule in rules
    )
    return replace(rules, rules=changed)


def is_silent_pass(execution: Execution) -> bool:
    """Return whether `judge` calls a run passed, without warnings, by whatever
    rules.
    """
    return execution.ok and not execution.stderr.text


def judge(
    execution: Execution,
    rules: RuleSet,
    failing_pass: PassName | None = None,
    *,
    flaky: bool = False,
) -> Outcome:
    """Turn an execution into an outcome. A failure that no rule matches has the class
    `unknown`.

    A second run named `failing_pass`. It is `flaky` if another run of the same case
    ended differently.
    """
    unusable = machine_problem(execution)
    if unusable is not None:
        return unusable
    diagnosis = _diagnosis(execution, rules, failing_pass)
    if execution.ok:
        return Passed(warnings=diagnosis.warnings)
    # The phase that the compiler itself reported is more reliable than that of the pass
    # or class.
    phase = execution.phase
    first, *others = (
        replace(failure, phase=phase) if phase is not None else failure
        for failure in diagnosis.failures
    )
    # the message is the same when a program runs
    if first.failure_class == "run-failure" and "status" in first.details:
        signature = first.signature.replace(first.failure_class, "compiler-status", 1)
        first = rules.by_name["compiler-status"].renamed(first, signature)
    rule = rules.by_name[first.failure_class]
    if rule.says_nothing is not None:
        if rule.says_nothing is Cause.FLAG:
            flag = first.details.get("flag")
        else:
            flag = None
        if flag:
            suggestion = _SUGGESTION.search(execution.stderr.text)
        else:
            suggestion = None
        if suggestion:
            instead = f"; the compiler asks: did you mean {suggestion[1]}?"
        else:
            instead = ""
        if flag:
            reason = f"does not know the flag {flag}{instead}"
        else:
            reason = first.headline
        return NoAnswer(rule.says_nothing, reason, first)
    return Failed(first, tuple(others), flaky)


def _diagnosis(
    execution: Execution, rules: RuleSet, failing_pass: PassName | None = None
) -> Diagnosis:
    from triage.classify import diagnose  # slow to import

    return diagnose(execution, _without_machine(rules), failing_pass)


def judge_import(execution: Execution, rules: RuleSet) -> Failed:
    """Turn a failed import of a model into an outcome. An error that no rule names has
    the class `import-error`.
    """
    first, *_ = _diagnosis(execution, rules).failures
    if execution.ending is Ending.EXITED and first.failure_class != "import-error":
        signature = f"import-error:{first.signature}"
        first = rules.by_name["import-error"].renamed(first, signature)
    return Failed(replace(first, phase=None, failing_pass=None, stage=Stage.IMPORT))


_RUN_CLASSES = {"timeout": "run-timeout", "out-of-memory": "run-out-of-memory"}


def judge_run(
    execution: Execution,
    rules: RuleSet,
    runner: Runner,
    metrics: Mapping[str, float],
    *,
    flaky: bool = False,
) -> Outcome:
    """Turn the run of a compiled program into an outcome. metrics: numbers on a wrong
    result, if there is one.
    """
    unusable = machine_problem(execution)
    if unusable is not None:
        return unusable
    if execution.ok:
        return Passed()
    unusable = runner.unusable(execution.stderr.text)
    if unusable is not None:
        return unusable
    mismatch = reported_facts(execution).mismatch
    if mismatch:
        first = _wrong_result(mismatch, rules)
    else:
        first, *_ = _diagnosis(execution, rules).failures
    if first.failure_class == "wrong-result":
        return Failed(_with_numbers(first, metrics), flaky=flaky)
    if first.family == "run":
        return Failed(replace(first, stage=Stage.RUN), flaky=flaky)
    crashed = execution.ending is Ending.SIGNALLED or first.family == "crash"
    name = _RUN_CLASSES.get(
        first.failure_class, "run-crash" if crashed else "run-failure"
    )
    if name in ("run-crash", "run-failure"):
        signature = f"{name}:{first.signature}"
    else:
        signature = name
    failure = rules.by_name[name].renamed(first, signature)
    return Failed(
        replace(failure, phase=None, failing_pass=None, stage=Stage.RUN), flaky=flaky
    )


def _with_numbers(failure: Failure, metrics: Mapping[str, float]) -> Failure:
    """Return a wrong result that says how much of it differs."""
    details: dict[str, Detail] = dict(failure.details)
    details |= {name: int(metrics[name]) for name in _WRONG_COUNTS if name in metrics}
    for name in ("max_abs_error", "max_rel_error"):
        if name in metrics:
            details[name] = f"{metrics[name]:.3g}"
    headline = failure.headline
    if "actual" in details and "expected" in details:
        headline = f"result {details['output']}"
        if "element" in details:
            headline += f", element {details['element']}"
        headline += f" is {details['actual']}, expected {details['expected']}"
        if details.get("mismatches"):
            share = f"{details['mismatches']} of {details['elements']}"
            headline += f"; {share} elements differ"
    return replace(failure, stage=Stage.COMPARE, headline=headline, details=details)


def _wrong_result(mismatch: Mapping[str, Detail], rules: RuleSet) -> Failure:
    """Return the failure of a result that differs as a run reports it."""
    from triage.classify.rules import detail  # slow to import

    rule = rules.by_name["wrong-result"]
    details = {name: detail(value) for name, value in mismatch.items()}
    known = [str(details[name]) for name in rule.identity if name in details]
    signature = f"{rule.name}:{' '.join(known)}"
    headline = " ".join(f"{name} {value}" for name, value in details.items())
    failure = Failure(rule.name, rule.family, signature, headline, details=details)
    return rule.renamed(failure, signature)


def with_operator(outcome: Outcome, operator: Callable[[int], str]) -> Outcome:
    """Add to the signature of a wrong result whether it is a number, and the operation
    that computes this result.

    Both are the same on each release that has the defect; elements and values need not
    be.
    """
    if (
        not isinstance(outcome, Failed)
        or outcome.failure.failure_class != "wrong-result"
    ):
        return outcome
    wrong, output = outcome.failure, int(outcome.failure.details.get("output", 0))
    sort, name = _sort_of_result(wrong)[0], operator(output)
    signature = " ".join(
        filter(None, (wrong.signature, sort if sort in _NOT_NUMBERS else "", name))
    )
    if name:
        headline = wrong.headline.replace(
            f"result {output}", f"result {output} ({name})", 1
        )
        wrong = replace(wrong, headline=headline, details={**wrong.details, "op": name})
    return replace(outcome, failure=replace(wrong, signature=signature))


def is_recorded_as(signature: str, recorded: str) -> bool:
    """Return whether a signature is a recorded one. That of a wrong result was shorter
    in older versions.
    """
    return signature == recorded or (
        signature.startswith("wrong-result:") and signature.startswith(f"{recorded} ")
    )


_WRONG_COUNTS = ("output", "element", "mismatches", "elements", "nan", "inf")


@cache
def _without_machine(rules: RuleSet) -> RuleSet:
    """Return the rules without the packaged ones for problems of the machine, which
    `machine_problem` decides by facts.

    Only a log has no facts. In a run, any other message about a full disk or a missing
    library is the compiler's own.
    """
    from triage.classify import packaged_rules  # slow to import

    packaged = packaged_rules().by_name
    others = tuple(
        rule
        for rule in rules
        if rule.says_nothing not in OF_MACHINE or rule is not packaged.get(rule.name)
    )
    return replace(rules, rules=others)


def machine_problem(execution: Execution) -> NoAnswer | None:
    """Return the problem of the machine that made a run fail, which says nothing about
    the compiler, if there is one.
    """
    head = execution.stderr.head
    if execution.ending is Ending.NOT_STARTED:
        return NoAnswer(
            Cause.TOOLCHAIN, head.strip() or "the compiler could not be started"
        )
    if execution.ok or execution.ending is Ending.OVER_OUTPUT:
        return None
    if _is_not_loaded(execution):
        exception = _PYTHON_NOT_LOADED.search(execution.stderr.text)
        return NoAnswer(
            Cause.TOOLCHAIN,
            exception[0].strip() if exception else execution.stderr.first_line,
        )
    if _NO_SPACE in execution.stderr.text or _NO_SPACE in execution.stdout.text:
        full = _NEARLY_FULL
    else:
        full = _FULL
    if execution.disk_free is not None and execution.disk_free < full:
        return NoAnswer(
            Cause.ENVIRONMENT,
            f"no space left on the disk: {execution.disk_free >> 10} KiB were free",
        )
    if (
        execution.ending is Ending.TIMED_OUT
        and execution.waited > _WAITED * execution.seconds
    ):
        times = (
            f"{execution.seconds:.0f} s, {execution.waited:.0f} s of them without a "
            "core of the busy machine"
        )
        return NoAnswer(
            Cause.ENVIRONMENT,
            (
                f"stopped after {times}; use fewer --jobs, or a limit without "
                "waiting: `120s cpu`"
            ),
        )
    if execution.ending is Ending.SIGNALLED and execution.signal in (
        signal.SIGKILL,
        signal.SIGTERM,
        signal.SIGINT,
    ):
        name = signal.Signals(execution.signal).name
        return NoAnswer(
            Cause.ENVIRONMENT,
            f"killed from outside by {name} at {execution.peak_rss_mb:.0f} MiB"
            + (
                "; the system may have run out of memory"
                if execution.signal == signal.SIGKILL
                else ""
            ),
        )
    return None


def _is_not_loaded(execution: Execution) -> bool:
    """Return whether the system's loader or a shell, not the compiler, wrote the first
    line: it begins with the program.

    The same where Python cannot load a library of a package.
    """
    match = _NOT_LOADED.match(execution.stderr.first_line)
    if match is None:
        return _PYTHON_NOT_LOADED.search(execution.stderr.text) is not None
    program = Path(match["program"])
    is_program = program.name == Path(execution.argv[0]).name or (
        program.is_absolute() and os.access(program, os.X_OK)
    )
    return is_program and (
        match["symbol"] is not None or execution.exit_code in _NOT_RUN
    )


def skipped_by_script(execution: Execution) -> NoAnswer | None:
    """Return why a user's test says nothing about the compiler, if so: it skips, as for
    `git bisect run`, or something that it needs cannot be run.
    """
    if execution.ending is not Ending.EXITED:
        return None
    code = execution.exit_code
    if code == _SKIPS:
        return NoAnswer(Cause.INPUT, f"the script skips it (exit code {code})")
    if code in _NOT_RUN:
        last = execution.stderr.last_line or "it printed nothing"
        why = f"the script could not run a program (exit code {code}): {last}"
        return NoAnswer(Cause.TOOLCHAIN, why)
    return None


def needs_pass(execution: Execution, rules: RuleSet) -> bool:
    """Whether only a second run that prints the failing pass can identify the
    failure.
    """
    return (
        machine_problem(execution) is None and _diagnosis(execution, rules).needs_pass
    )


def status_of(probe: Probe) -> Status:
    """Compare an outcome with what the recipe expects at this version: a known failure
    is xfail, its absence xpass.
    """
    failure = probe.outcome.failure
    if isinstance(probe.outcome, Passed):
        if expectation_for(probe.case, probe.version):
            return Status.XPASS
        return Status.PASSED
    if failure and expectation_for(probe.case, probe.version, failure):
        return Status.XFAIL
    return Status(probe.outcome.plain_status)


def result_of(probe: Probe) -> ProbeResult:
    """Return a probe in the shape that results print and nights store."""
    case, outcome, measured = probe.case, probe.outcome, probe.measured
    stage = None
    if isinstance(outcome, Passed):
        stage = case.stages[-1]
    elif isinstance(outcome, Failed):
        stage = outcome.failure.stage
    return ProbeResult(
        case=case.name,
        recipe=case.recipe,
        toolchain=probe.revision,
        status=status_of(probe),
        stage=stage,
        failure=outcome.failure,
        reason=outcome.reason,
        cause=outcome.cause,
        flaky=outcome.flaky,
        cached=probe.cached,
        foreign=probe.foreign,
        seconds=measured.seconds,
        cpu_seconds=measured.cpu_seconds,
        peak_rss_mb=measured.peak_rss_mb,
        metrics=measured.metrics,
        warnings=outcome.warnings,
    )


def same_signature(reference: Failure) -> Match:
    """Match failures with the signature of `reference`."""
    return lambda failure: failure.signature == reference.signature


_NOT_NUMBERS = ("nan", "inf")
_CLEAR = 0.01  # a relative error that no rounding explains


def same_wrong_result(reference: Failure) -> Match:
    """Match wrong results of the same sort: another shape, NaN, infinity, or numbers
    that are off by about as much.

    Of numbers a tenth of the error is enough, at most a hundredth of the value. The
    index of the result may differ.
    """
    sort, error = _sort_of_result(reference)

    def matches(failure: Failure) -> bool:
        other, seen = _sort_of_result(failure)
        return (
            failure.failure_class == reference.failure_class
            and other == sort
            and seen >= min(_CLEAR, error / 10)
        )

    return matches


def _sort_of_result(failure: Failure) -> tuple[str, float]:
    """Return the sort of a wrong result, and how far off its numbers are."""
    details = failure.details
    if "kind" in details:
        return str(details["kind"]), 0.0
    sort = next((sort for sort in _NOT_NUMBERS if details.get(sort)), None)
    if sort:
        return sort, 0.0
    relative, absolute = (
        float(details.get(f"max_{name}_error", 0)) for name in ("rel", "abs")
    )
    return "numbers", relative or absolute


def same_family(reference: Failure) -> Match:
    """Match any class of the family: for a root cause whose class changes between
    releases.
    """
    return lambda failure: failure.family == reference.family


def same_class(reference: Failure) -> Match:
    """Match any signature of the class."""
    return lambda failure: failure.failure_class == reference.failure_class


def any_failure(_: Failure) -> bool:
    """Match every failure."""
    return True


def verdict_of(outcome: Outcome, match: Match) -> Verdict:
    """Return the verdict on the failure that `match` recognises; another failure and a
    flaky one are skipped.
    """
    if (
        isinstance(outcome, Failed)
        and not outcome.flaky
        and any(map(match, (outcome.failure, *outcome.others)))
    ):
        return Verdict.BAD
    if isinstance(outcome, Passed):
        return Verdict.GOOD
    return Verdict.SKIP


RUN_MS = "run_ms"  # the metric of a run that is measured
DISPATCHES = "dispatches"


def judge_thresholds(
    case: Case, metrics: Mapping[str, float], stage: Stage
) -> Failed | NoAnswer | None:
    """Return the first number of a stage that is above its threshold or not known."""
    for name, largest in case.thresholds:
        if (name == RUN_MS) != (stage is Stage.BENCHMARK):
            continue
        if name not in metrics:
            return NoAnswer(Cause.FLAG, f"this version does not report {name}")
        if metrics[name] > largest:
            return _above(name, metrics[name], largest, stage)
    return None


def _above(
    name: str,
    value: float,
    largest: float,
    stage: Stage = Stage.COMPILE,
    *,
    lower_is_worse: bool = False,
) -> Failed:
    details = {"value": f"{value:.4g}", "threshold": f"{largest:.4g}"}
    if value == int(value) and largest == int(largest):
        details = {"value": f"{value:.0f}", "threshold": f"{largest:.0f}"}
    headline = (
        f"{name} is {details['value']}, {'below' if lower_is_worse else 'above'} "
        f"{details['threshold']}"
    )
    return Failed(
        Failure(
            "metric", "metric", f"metric:{name}", headline, details=details, stage=stage
        )
    )


def metric_failure(metric: Metric, value: float, before: float, good: str) -> Failure:
    """Return the failure of a number that grew, or that shrank where less is worse.
    The numbers are compared ones; good: the name of the good toolchain.
    """
    texts = [f"{metric.compared(number):.6g}" for number in (value, before)]
    return Failure(
        "metric",
        "metric",
        f"metric:{metric}",
        f"{metric} is {texts[0]}, and {texts[1]} on {good}",
        details={"value": texts[0], "good": texts[1]},
        stage=Stage.COMPILE,
    )


_NEAR = 1.3  # a value within this factor of the threshold is measured again
TIMES = 3  # measurements at most; the smallest counts, since a busy machine only adds


# times and memory
_OF_THE_MACHINE = re.compile(r"(?:^|_)(?:seconds|s|ms|us|ns|rss_mb)$")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of a compile that succeeds, or the run time of what it wrote: one of
    this program, or any that a recipe's compiler prints.

    lower_is_worse: it became worse when it shrank, such as a number of vectorized
    loops. Then its reciprocal is compared, which grows.
    """

    name: str
    lower_is_worse: bool = False

    CPU_SECONDS: ClassVar[Metric]
    PEAK_RSS_MB: ClassVar[Metric]
    ARTIFACT_BYTES: ClassVar[Metric]
    # measured in turn with the good and the bad compiler of a bisect
    RUN_SECONDS: ClassVar[Metric]

    def __str__(self) -> str:
        return self.name

    @property
    def exact(self) -> bool:
        """Whether it is the same each time, however busy the machine is."""
        return _OF_THE_MACHINE.search(self.name) is None

    def compared(self, value: float) -> float:
        """Return what is compared of a value; the other way round, the value of what is
        compared.
        """
        if not self.lower_is_worse:
            return value
        if value > 0:
            return 1 / value
        return math.inf


Metric.CPU_SECONDS, Metric.PEAK_RSS_MB = Metric("cpu_seconds"), Metric("peak_rss_mb")
Metric.ARTIFACT_BYTES = Metric("artifact_bytes")
Metric.RUN_SECONDS = Metric("run_seconds")


@dataclass(frozen=True, slots=True)
class MetricThreshold:
    """Reads a compile whose number is above the threshold as a failure of its own
    class.

    Every search that looks for failures can then look for numbers. Other failures stay
    what they are. threshold: of what is compared of the metric.
    """

    metric: Metric
    threshold: float

    is_alone: ClassVar[bool] = False

    def judge(
        self, probe: Probe, _ref: ToolchainRef, again: Callable[[], Probe]
    ) -> Probe:
        """Return the probe as the threshold judges it. `again` repeats the compile
        while the value is near the threshold.
        """
        value = value_of(probe, self.metric)
        for _ in range(TIMES - 1):
            if (
                value is None
                or self.metric.exact
                or not self.threshold / _NEAR < value < self.threshold * _NEAR
            ):
                break
            repeated = value_of(again(), self.metric)
            if repeated is not None:
                value = min(value, repeated)
        if value is None or value <= self.threshold:
            return probe
        value = self.metric.compared(value)
        threshold = self.metric.compared(self.threshold)
        return replace(
            probe,
            outcome=_above(
                self.metric.name,
                value,
                threshold,
                lower_is_worse=self.metric.lower_is_worse,
            ),
        )


def value_of(probe: Probe, metric: Metric) -> float | None:
    """Return what is compared of the number, if the case compiled and it was
    measured.
    """
    if not isinstance(probe.outcome, Passed):
        return None
    own = {
        Metric.CPU_SECONDS.name: probe.measured.cpu_seconds,
        Metric.PEAK_RSS_MB.name: probe.measured.peak_rss_mb,
    }
    value = own.get(metric.name, probe.measured.metrics.get(metric.name))
    if value is None:
        return None
    return metric.compared(value)
