"""Outcomes of probes, results as they are printed and stored, and exit codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import ClassVar

from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.fields import UNPRINTED, UNSTORED, in_json
from triage.model.revision import Revision

Detail = str | int


@dataclass(frozen=True)
class Advice:
    """A text that says what usually helps."""

    text: str
    compiler: str | None = None  # the family that it is for (default: all)


@dataclass(frozen=True)
class Failure:
    """One diagnosed failure."""

    # the name of the rule that matches, such as `shared-memory-overflow`, or `unknown`
    failure_class: str = field(metadata={"alias": "class"})
    # the classes with one root cause have one family; others are their own family
    family: str
    # `class` or `class:text`; it does not depend on wording, SSA names, numbers, paths
    signature: str
    headline: str  # the compiler's most informative line, without prefixes
    phase: str | None = None  # of the compiler
    # the pass's class name
    failing_pass: str | None = field(default=None, metadata={"alias": "pass"})
    location: str | None = None  # `file:line:col`
    # the rule's captures; bytes unless the name says otherwise
    details: Mapping[str, Detail] = field(default_factory=dict)
    line: int | None = None  # of the log, from 1
    count: int = 1  # how often this signature occurs in the log
    explanation: str = field(
        default="", metadata=UNPRINTED
    )  # what the class means, from the rule
    remedies: tuple[Advice, ...] = field(
        default=(), metadata=UNPRINTED
    )  # what usually helps, from the rule
    stage: Stage = Stage.COMPILE  # the step that failed

    @property
    def is_of_metric(self) -> bool:
        """Whether no step failed, but a measured number is too bad."""
        return self.family == "metric"

    def advice(self, compiler: str | None) -> tuple[str, ...]:
        """Return what usually helps with a compiler family; with None, all advice."""
        return tuple(
            remedy.text
            for remedy in self.remedies
            if compiler is None or remedy.compiler in (None, compiler)
        )


class Cause(StrEnum):
    """Why there is no answer."""

    FLAG = "flag"  # the version does not have a flag
    INPUT = "input"  # the version cannot parse the input
    TARGET = "target"  # the version lacks the backend
    TOOLCHAIN = "toolchain"  # the toolchain cannot be obtained, or it does not run
    # the disk is full, or other programs use the memory; never cached
    ENVIRONMENT = "environment"
    RECIPE = "recipe"  # the generator or importer failed
    # it wants a file or a right that its seal does not give
    UNDECLARED = "undeclared-file"
    # outcomes or times vary too much, or are too close to the threshold; never cached
    NOISE = "noise"
    # a search found nothing: no change between the revisions, or no remedy
    NOT_FOUND = "not-found"
    TIME = "time"  # the time for a search was over; another run may find it
    NEEDLESS = "needless"  # the case needs no such search, or cannot have one
    INTERNAL = "internal"  # triage itself failed on this case; never cached


MACHINE_CAUSES = (Cause.ENVIRONMENT, Cause.TOOLCHAIN)


class _Answer:
    """What an outcome says unless it has a field of its own."""

    failure: Failure | None = None
    reason: str | None = None
    cause: Cause | None = None
    flaky: bool = False
    warnings: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class Passed(_Answer):
    """The case compiled and, if it is run, computed what it must."""

    # failures that it printed although it exited with 0
    warnings: tuple[Failure, ...] = ()
    plain_status: ClassVar[str] = "passed"  # whatever the recipe expects


@dataclass(frozen=True)
class Failed(_Answer):
    """The case failed."""

    failure: Failure
    others: tuple[Failure, ...] = ()  # further failures in the same output
    flaky: bool = False  # another run ended differently
    plain_status: ClassVar[str] = "failed"


@dataclass(frozen=True)
class NoAnswer(_Answer):
    """Why there is no answer: a probe says nothing about the failure, or a search or a
    plan cannot be made.
    """

    cause: Cause
    reason: str
    # what the compiler printed, if it ran
    failure: Failure | None = field(default=None, metadata=UNSTORED)
    plain_status: ClassVar[str] = "untestable"


Outcome = Passed | Failed | NoAnswer


class MayLackAnswer:
    """The result of a search. If it has no answer, `unanswered` says why."""

    unanswered: NoAnswer | None

    @in_json
    def reason(self) -> str | None:
        return getattr(self.unanswered, "reason", None)

    @in_json
    def cause(self) -> Cause | None:
        return getattr(self.unanswered, "cause", None)


class Verdict(StrEnum):
    """What an outcome says about the failure that is being bisected."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


class Status(StrEnum):
    """An outcome compared with what the recipe expects, in the words of test
    runners.
    """

    PASSED = "passed"
    FAILED = "failed"
    UNTESTABLE = "untestable"
    XFAIL = "xfail"
    XPASS = "xpass"


PASSING = (Status.PASSED, Status.XPASS)
FAILING = (Status.FAILED, Status.XFAIL)


@dataclass(frozen=True)
class Measured:
    """What a probe used and produced."""

    seconds: float = 0.0  # wall time
    cpu_seconds: float = 0.0
    peak_rss_mb: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)  # bytes, seconds, counts


@dataclass(frozen=True)
class Probe:
    """The outcome of a case at a revision."""

    case: Case
    revision: Revision
    version: str | None  # PEP 440, if it is known
    outcome: Outcome
    measured: Measured = field(default_factory=Measured)
    cached: bool = False  # from the result cache


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The result of a case on a toolchain, compared with what its recipe expects.

    All searches, reports and stored nights use this class. `judge.result_of` makes it.
    """

    case: str
    recipe: str
    toolchain: Revision
    status: Status
    stage: Stage | None = None
    """The stage that failed, or the last one; None if the case is untestable."""
    failure: Failure | None = None
    """An untestable case has one, too, if the compiler ran."""
    reason: str | None = None
    """Why it is untestable."""
    cause: Cause | None = None
    """The kind of the reason."""
    flaky: bool = False
    cached: bool = False
    seconds: float = 0.0
    """Wall time of the compile."""
    cpu_seconds: float = 0.0
    peak_rss_mb: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Such as `artifact_bytes`, `run_seconds` and `dispatches`."""
    warnings: tuple[Failure, ...] = ()
    """Failures that the compiler printed although it passed."""

    @property
    def plain_status(self) -> Status:
        """Passed, failed or untestable, whatever the recipe expects."""
        if self.cause is not None or self.status is Status.UNTESTABLE:
            return Status.UNTESTABLE
        if self.status in PASSING:
            return Status.PASSED
        return Status.FAILED

    @property
    def passed(self) -> bool:
        return self.plain_status is Status.PASSED

    @property
    def failed(self) -> bool:
        return self.plain_status is Status.FAILED

    @property
    def untestable(self) -> bool:
        return self.plain_status is Status.UNTESTABLE

    @property
    def state(self) -> tuple[Status, str]:
        """What two results are compared by: the plain status, and the signature of a
        failure.
        """
        if self.failure and self.failed:
            return self.plain_status, self.failure.signature
        return self.plain_status, ""

    @property
    def numbers(self) -> Mapping[str, float]:
        """All measured numbers by name. Costs of a compile that are 0 are left out."""
        costs = {
            "compile_seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "peak_rss_mb": self.peak_rss_mb,
        }
        measured = {name: value for name, value in costs.items() if value}
        return {**measured, **self.metrics}


class Exit(IntEnum):
    """The exit codes that scripts rely on."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    INCONCLUSIVE = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "nothing regressed, or the command found what was asked",
    Exit.FAILURE: "a regression or failure was found",
    Exit.USAGE: "usage error or bad input",
    Exit.INCONCLUSIVE: "inconclusive",
    Exit.ENVIRONMENT: "the environment failed (no such toolchain, disk full, "
    "no network)",
    Exit.INTERRUPTED: "interrupted; finished work is cached",
}


def exit_without_answer(*causes: Cause | None) -> Exit:
    """Return the exit code of a command that has no answer, from the causes of its
    untestable probes.

    A recipe that cannot be used counts first, then an environment that failed;
    otherwise the command is inconclusive.
    """
    if Cause.RECIPE in causes:
        return Exit.USAGE
    if {Cause.ENVIRONMENT, Cause.TOOLCHAIN, Cause.INTERNAL}.intersection(causes):
        return Exit.ENVIRONMENT
    return Exit.INCONCLUSIVE


def exit_for_results(results: Iterable[ProbeResult], *, strict: bool = False) -> Exit:
    """Return FAILURE for an unexpected failure, else the reason why some could not be
    tested, else OK. `strict`: an unexpected pass counts as a failure.
    """
    results = list(results)
    statuses = {result.status for result in results}
    if Status.FAILED in statuses or (strict and Status.XPASS in statuses):
        return Exit.FAILURE
    code = exit_without_answer(*(result.cause for result in results))
    if code is Exit.INCONCLUSIVE and statuses != {Status.UNTESTABLE}:
        return Exit.OK
    return code
