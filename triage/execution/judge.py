"""Judge executions: facts become an outcome, a number that is too large a failure, an
outcome a verdict on one failure.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.invocation import readable_output
from triage.execution.compare import NOT_NUMBERS, kind_of_wrong_result
from triage.execution.reads import undeclared_read
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, Unobtainable
from triage.model.execution import Captured, Ending, Execution, Stage
from triage.model.fields import UNPRINTED
from triage.model.outcome import (
    MACHINE_CAUSES,
    Cause,
    Detail,
    Exit,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
    ProbeResult,
    Status,
    exit_for_results,
)
from triage.recipes.expectations import expectation_for
from triage.recipes.values import rounded_text

if TYPE_CHECKING:
    from triage.classify import Diagnosis, RuleSet
    from triage.compilers.invocation import Runner
    from triage.execution.engine import Engine
    from triage.execution.task import ProbeJob


RUN_MS = "run_ms"  # the metric of a run that is measured
DISPATCHES = "dispatches"


_NO_SPACE = "No space left on device"
_FULL = 1 << 20  # bytes; with less free space, any write may have failed
# bytes; a file that did not fit may have been that large, and be removed again
_NEARLY_FULL = 1 << 30
# share of the time that a run may wait for a core until its time limit shows nothing
_MAX_WAITED_SHARE = 0.1
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
# exit codes of the loader and of shells for a program that they cannot run
_NOT_RUN = (126, 127)
_SCRIPT_SKIPS = 125  # of a test script
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
    failing = case.spec.failing_causes(case) if case.spec else frozenset[str]()
    return compiler_rules(case.rules, failing)


@cache
def compiler_rules(
    path: Path | None = None, failing: frozenset[str] = frozenset()
) -> RuleSet:
    """Return the rules for what a compiler prints, first those in a file. Findings with
    a cause in `failing` are failures.

    The packaged rules for problems of the machine are left out: `machine_problem`
    decides them by facts, which only a log does not have. In a run, any other message
    about a full disk or a missing library is the compiler's own.
    """
    from triage.classify import load_rules, packaged_rules  # slow to import

    packaged = packaged_rules()
    loaded = load_rules([path]) if path else packaged
    rules = []
    for rule in loaded:
        if rule.says_nothing in failing:
            rule = replace(rule, says_nothing=None)
        is_packaged = packaged.by_name.get(rule.name) is rule
        if rule.says_nothing not in MACHINE_CAUSES or not is_packaged:
            rules.append(rule)
    return replace(loaded, rules=tuple(rules))


def judge(execution: Execution, rules: RuleSet) -> Outcome:
    """Turn an execution into an outcome. A failure that no rule matches has the class
    `unknown`.
    """
    unusable = machine_problem(execution)
    if unusable is not None:
        return unusable
    diagnosis = _diagnosis(execution, rules)
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
        first = rules.by_name["compiler-status"].reclassify(first, signature)
    rule = rules.by_name[first.failure_class]
    if rule.says_nothing is not None:
        reason = first.headline
        flag = first.details.get("flag")
        if flag and rule.says_nothing is Cause.FLAG:
            reason = f"does not know the flag {flag}"
        return NoAnswer(rule.says_nothing, reason, first)
    return Failed(first, tuple(others), execution.flaky)


def _diagnosis(execution: Execution, rules: RuleSet) -> Diagnosis:
    from triage.classify import diagnose  # slow to import

    printed = Captured(readable_output(execution.stdout.text))
    if printed.text != execution.stdout.text:
        execution = replace(execution, stdout=printed)
    return diagnose(execution, rules, execution.failing_pass)


def judge_import(execution: Execution, rules: RuleSet) -> Failed:
    """Turn a failed import of a model into an outcome. An error that no rule names has
    the class `import-error`.
    """
    first, *_ = _diagnosis(execution, rules).failures
    if execution.ending is Ending.EXITED and first.failure_class != "import-error":
        signature = f"import-error:{first.signature}"
        first = rules.by_name["import-error"].reclassify(first, signature)
    return Failed(replace(first, phase=None, failing_pass=None, stage=Stage.IMPORT))


def metric_failure(
    name: str, headline: str, details: Mapping[str, str], stage: Stage
) -> Failed:
    """Return the failure of a number that is too large."""
    signature = f"metric:{name}"
    return Failed(
        Failure("metric", "metric", signature, headline, details=details, stage=stage)
    )


def judge_thresholds(
    case: Case, metrics: Mapping[str, float], stage: Stage
) -> Failed | NoAnswer | None:
    """Return the failure of the first number of a stage that is above its threshold, or
    why it is not known; None if all are within theirs.
    """
    for name, largest in case.thresholds:
        if (name == RUN_MS) != (stage is Stage.BENCHMARK):
            continue
        if name not in metrics:
            return NoAnswer(Cause.FLAG, f"this version does not report {name}")
        if metrics[name] > largest:
            texts = rounded_text(metrics[name]), rounded_text(largest)
            headline = f"{name} is {texts[0]}, above {texts[1]}"
            details = {"value": texts[0], "threshold": texts[1]}
            return metric_failure(name, headline, details, stage)
    return None


_RUN_CLASSES = {"timeout": "run-timeout", "out-of-memory": "run-out-of-memory"}


def judge_run(
    execution: Execution,
    rules: RuleSet,
    runner: Runner,
    operator_of: Callable[[int], str] = lambda _: "",
) -> Outcome:
    """Turn the run of a compiled program into an outcome. `operator_of` names the
    operation that computes a result; an empty text if it is not known.
    """
    unusable = machine_problem(execution)
    if unusable is None and execution.ok:
        return Passed()
    unusable = unusable or runner.startup_failure(execution.stderr.text)
    if unusable is not None:
        return unusable
    first, *_ = _diagnosis(execution, rules).failures
    if first.failure_class == "wrong-result":
        wrong = _wrong_result(first, execution.metrics, operator_of)
        return Failed(wrong, flaky=execution.flaky)
    if first.family != "run":
        crashed = execution.ending is Ending.SIGNALLED or first.family == "crash"
        name = "run-crash" if crashed else "run-failure"
        signature = f"{name}:{first.signature}"
        if first.failure_class in _RUN_CLASSES:
            name = signature = _RUN_CLASSES[first.failure_class]
        first = rules.by_name[name].reclassify(first, signature)
        first = replace(first, phase=None, failing_pass=None)
    return Failed(replace(first, stage=Stage.RUN), flaky=execution.flaky)


_WRONG_COUNTS = ("output", "element", "mismatches", "elements", "nan", "inf")


def _wrong_result(
    failure: Failure,
    metrics: Mapping[str, float],
    operator_of: Callable[[int], str],
) -> Failure:
    """Return a wrong result that says how much of it differs, whether it is a number,
    and the operation that computes it, which is the same on each release that has the
    defect.
    """
    details: dict[str, Detail] = dict(failure.details)
    details |= {name: int(metrics[name]) for name in _WRONG_COUNTS if name in metrics}
    errors = ("max_abs_error", "max_rel_error")
    details |= {name: rounded_text(metrics[name]) for name in errors if name in metrics}
    headline = failure.headline
    signature = failure.signature
    if "actual" in details and "expected" in details:
        headline = f"result {details['output']}"
        if "element" in details:
            headline += f", element {details['element']}"
        headline += f" is {details['actual']}, expected {details['expected']}"
        if details.get("mismatches"):
            share = f"{details['mismatches']} of {details['elements']}"
            headline += f"; {share} elements differ"
    kind, _ = kind_of_wrong_result(replace(failure, details=details))
    if kind in NOT_NUMBERS:
        signature += f" {kind}"
    output = int(details.get("output", 0))
    operator = operator_of(output)
    if operator:
        shown = f"result {output}"
        headline = headline.replace(shown, f"{shown} ({operator})", 1)
        details["op"] = operator
        signature += f" {operator}"
    return replace(
        failure,
        stage=Stage.COMPARE,
        headline=headline,
        signature=signature,
        details=details,
        line=None,  # triage wrote the line
    )


def comparable_ending(case: Case, execution: Execution) -> str:
    """Return what two runs must have in common to agree.

    For a crash, only the signal: with several threads the stack differs from run to
    run.
    """
    if execution.ending is Ending.SIGNALLED:
        return f"signal {execution.signal}"
    outcome = judge(execution, rules_of(case))
    if outcome.failure and outcome.cause is None:
        return outcome.failure.signature
    return outcome.cause or ""


def needs_pass(case: Case, execution: Execution) -> bool:
    """Return whether only a second run that prints the failing pass can identify the
    failure.
    """
    if execution.ok or machine_problem(execution):
        return False
    return _diagnosis(execution, rules_of(case)).needs_pass


def machine_problem(execution: Execution) -> NoAnswer | None:
    """Return the problem of the machine that made a run fail, which says nothing about
    the compiler; None if it is not the machine's.
    """
    if execution.refused is not None:
        return undeclared_read(execution.refused)
    if execution.ending is Ending.NOT_STARTED:
        return NoAnswer(Cause.TOOLCHAIN, execution.stderr.text.strip())
    if execution.ok or execution.ending is Ending.OVER_OUTPUT:
        return None
    not_loaded = _loader_message(execution)
    if not_loaded:
        return NoAnswer(Cause.TOOLCHAIN, not_loaded)
    full = _FULL
    free = execution.disk_free
    if _NO_SPACE in execution.stderr.text + execution.stdout.text:
        full = _NEARLY_FULL
    reason = ""
    if free is not None and free < full:
        reason = f"no space left on the disk: {free >> 10} KiB were free"
    elif execution.waited > _MAX_WAITED_SHARE * execution.seconds:
        waited = f"{execution.waited:.0f} of {execution.seconds:.0f} s without a core"
        reason = f"stopped after {waited} of the busy machine; use fewer --jobs"
    elif execution.ending is Ending.SIGNALLED and execution.signal in _FROM_OUTSIDE:
        size = f"{execution.peak_rss_mb:.0f} MiB"
        reason = f"killed from outside at {size}; the system may be out of memory"
    if reason:
        return NoAnswer(Cause.ENVIRONMENT, reason)
    return None


def _loader_message(execution: Execution) -> str | None:
    """Return the line with which the loader or a shell refused to start the program, or
    Python to load a library of a package; None if they did not.

    The first line of a loader or a shell begins with the name of the program.
    """
    match = _NOT_LOADED.match(execution.stderr.first_line)
    if match is None:
        exception = _PYTHON_NOT_LOADED.search(execution.stderr.text)
        if exception:
            return exception[0].strip()
        return None
    program = Path(match["program"])
    is_program = program.name == Path(execution.argv[0]).name
    if program.is_absolute():
        is_program = is_program or os.access(program, os.X_OK)
    if is_program and (match["symbol"] or execution.exit_code in _NOT_RUN):
        return execution.stderr.first_line
    return None


def reason_script_skips(execution: Execution) -> NoAnswer | None:
    """Return why a user's test says nothing about the compiler: it skips, as for `git
    bisect run`, or something that it needs cannot be run. None if it decides.
    """
    if execution.ending is not Ending.EXITED or execution.refused is not None:
        return None
    code = execution.exit_code
    if code == _SCRIPT_SKIPS:
        return NoAnswer(Cause.INPUT, f"the script skips it (exit code {code})")
    if code in _NOT_RUN:
        last = execution.stderr.last_line or "it printed nothing"
        why = f"the script could not run a program (exit code {code}): {last}"
        return NoAnswer(Cause.TOOLCHAIN, why)
    return None


class NoTask(Exception):
    """A case cannot be compiled or run."""

    def __init__(self, outcome: NoAnswer | Failed) -> None:
        super().__init__(outcome)
        self.outcome = outcome

    @property
    def why(self) -> NoAnswer:
        """Why another task cannot use it."""
        return why_unusable(self.outcome)


def recipe_mistake(reason: str) -> NoTask:
    """Return what to raise for a mistake of the recipe."""
    return NoTask(NoAnswer(Cause.RECIPE, reason))


@contextmanager
def recipe_mistakes() -> Iterator[None]:
    """Raise NoTask for files that are missing and values that cannot be read."""
    try:
        yield
    except OSError as error:
        raise recipe_mistake(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise recipe_mistake(str(error)) from error


def why_unusable(outcome: Outcome | None) -> NoAnswer:
    """Return why a case has no result that another task can use."""
    if isinstance(outcome, NoAnswer):
        return outcome
    if not isinstance(outcome, Failed):
        return NoAnswer(Cause.RECIPE, "there is nothing to run")
    failure = outcome.failure
    problem = f"it fails in the stage {failure.stage}: {failure.headline}"
    return NoAnswer(Cause.RECIPE, problem, failure)


def missing_toolchain(error: EnvironmentFailure) -> NoAnswer:
    """Return the answer where a toolchain cannot be obtained, now or at all."""
    cause = Cause.ENVIRONMENT
    if isinstance(error, Unobtainable):
        cause = Cause.TOOLCHAIN
    return NoAnswer(cause, str(error))


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
    case = probe.case
    outcome = probe.outcome
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
        warnings=outcome.warnings,
        **vars(probe.measured),
    )


# Results


@dataclass(frozen=True)
class RunResults:
    """The results of `triage run`, in the order of cases and toolchains."""

    results: Sequence[ProbeResult]
    cases: Mapping[str, Case] = field(metadata=UNPRINTED)
    """By name."""
    strict: bool = field(default=False, metadata=UNPRINTED)
    """Whether an unexpected pass counts as a failure."""

    @property
    def exit(self) -> Exit:
        return exit_for_results(self.results, strict=self.strict)

    @classmethod
    def of(cls, probes: Sequence[Probe], *, strict: bool = False) -> RunResults:
        cases = {probe.case.name: probe.case for probe in probes}
        return cls(list(map(result_of, probes)), cases, strict)


@dataclass(frozen=True)
class PlannedProbe:
    """A probe that a dry run does not make."""

    case: str
    toolchain: str
    cached_status: str | None = field(metadata={"alias": "known"})
    """The status, if the result is cached."""
    installed: bool


@dataclass(frozen=True)
class Forecast:
    """The probes of a dry run."""

    probes: Sequence[PlannedProbe]


def forecast(engine: Engine, jobs: Sequence[ProbeJob]) -> Forecast:
    """Look up what is known of each job; compile nothing."""
    planned = []
    for job in jobs:
        probe = engine.cached_probe(job)
        status = status_of(probe).value if probe else None
        installed = engine.registry.is_installed(job.ref)
        name = job.ref.revision.name
        planned.append(PlannedProbe(job.case.name, name, status, installed))
    return Forecast(planned)
