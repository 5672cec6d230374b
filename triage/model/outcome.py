"""Outcomes of probes: failures, what a probe says, and what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.json_form import UNPRINTED, UNSTORED, in_json
from triage.model.revision import Revision

Detail = str | int


@dataclass(frozen=True, slots=True)
class Advice:
    """A text that says what usually helps."""

    text: str
    compiler: str | None = None  # the family that it is for (default: all)


@dataclass(frozen=True, slots=True)
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
    failing_pass: str | None = field(
        default=None, metadata={"alias": "pass"}
    )  # the pass's class name
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


OF_MACHINE = (Cause.ENVIRONMENT, Cause.TOOLCHAIN)


class _Answer:
    """What an outcome says unless it has a field of its own."""

    __slots__ = ()
    failure: Failure | None = None
    reason: str | None = None
    cause: Cause | None = None
    flaky: bool = False
    warnings: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class Passed(_Answer):
    """The case compiled and, if it is run, computed what it must."""

    # failures that it printed although it exited with 0
    warnings: tuple[Failure, ...] = ()
    plain_status: ClassVar[str] = "passed"  # whatever the recipe expects


@dataclass(frozen=True, slots=True)
class Failed(_Answer):
    """The case failed."""

    failure: Failure
    others: tuple[Failure, ...] = ()  # further failures in the same output
    flaky: bool = False  # another run ended differently
    plain_status: ClassVar[str] = "failed"


@dataclass(frozen=True, slots=True)
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

    __slots__ = ()
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


@dataclass(frozen=True, slots=True)
class Probe:
    """The outcome of a case at a revision."""

    case: Case
    revision: Revision
    version: str | None  # PEP 440, if it is known
    outcome: Outcome
    measured: Measured = field(default_factory=Measured)
    cached: bool = False  # from the result cache
