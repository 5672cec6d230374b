"""Outcomes of probes: failures, what a probe says, and what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.revision import Revision

Detail = str | int


@dataclass(frozen=True, slots=True)
class Advice:
    """A text that says what usually helps. compiler: the family it is for; None for all."""

    text: str
    compiler: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """One diagnosed failure.

    failure_class: the rule's name, such as `shared-memory-overflow`; `unknown` when no rule matches.
    family: classes that one root cause can appear as in different releases; the class itself when there is none.
    signature: stable identity, `class` or `class:text`; the same across changes of wording, SSA names, numbers, paths.
    headline: the compiler's most informative line, without prefixes.
    phase: of the compiler; failing_pass: the pass's class name; location: `file:line:col`.
    details: the rule's captures; integers are int (bytes unless the name says otherwise).
    stage: the step that failed;
    line: 1-based line of the log; count: how often this signature occurs in it.
    explanation: what the class means; remedies: what usually helps. Both come from the rule that matched.
    """

    failure_class: str
    family: str
    signature: str
    headline: str
    phase: str | None = None
    failing_pass: str | None = None
    location: str | None = None
    details: Mapping[str, Detail] = field(default_factory=dict)
    line: int | None = None
    count: int = 1
    explanation: str = ""
    remedies: tuple[Advice, ...] = ()
    stage: Stage = Stage.COMPILE

    JSON_KEYS: ClassVar[Mapping[str, str | None]] = {
        "failure_class": "class",
        "failing_pass": "pass",
        "explanation": None,  # follows from the class
        "remedies": None,
    }
    __pydantic_config__: ClassVar[dict[str, object]] = {"alias_generator": lambda name: Failure.JSON_KEYS.get(name) or name}

    def advice(self, compiler: str | None) -> tuple[str, ...]:
        """Return what usually helps with a compiler family; for every family when the family is not known (None)."""
        return tuple(remedy.text for remedy in self.remedies if compiler is None or remedy.compiler in (None, compiler))


class Cause(StrEnum):
    """Why a probe is untestable."""

    FLAG = "flag"  # the version does not have a flag
    INPUT = "input"  # the version cannot parse the input
    TARGET = "target"  # the version lacks the backend
    TOOLCHAIN = "toolchain"  # it cannot be obtained, or it does not run
    ENVIRONMENT = "environment"  # the disk, or the memory that other programs use: never cached
    RECIPE = "recipe"  # the generator or importer failed
    NOISE = "noise"  # its times vary too much, or lie too close to the threshold: never cached
    INTERNAL = "internal"  # triage itself failed on this case: never cached


@dataclass(frozen=True, slots=True)
class Compiled:
    """The case compiled and, where it is run, computed what it must.

    warnings: failures that it printed although it exited with 0.
    """

    warnings: tuple[Failure, ...] = ()
    failure: ClassVar[None] = None
    reason: ClassVar[None] = None
    flaky: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The case failed. others: further failures in the same output; flaky: another run ended differently."""

    failure: Failure
    others: tuple[Failure, ...] = ()
    flaky: bool = False
    reason: ClassVar[None] = None
    warnings: ClassVar[tuple[Failure, ...]] = ()


@dataclass(frozen=True, slots=True)
class Untestable:
    """The probe says nothing about the bug. failure: what the compiler printed, if it ran."""

    cause: Cause
    reason: str
    failure: Failure | None = None
    flaky: ClassVar[bool] = False
    warnings: ClassVar[tuple[Failure, ...]] = ()


Outcome = Compiled | Failed | Untestable


class Verdict(StrEnum):
    """What an outcome says about the failure that is being bisected."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


class Status(StrEnum):
    """An outcome compared with what the recipe expects, in the words of test runners."""

    PASSED = "passed"
    FAILED = "failed"
    UNTESTABLE = "untestable"
    XFAIL = "xfail"
    XPASS = "xpass"


PASSING = (Status.PASSED, Status.XPASS)
FAILING = (Status.FAILED, Status.XFAIL)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a probe used and produced. seconds: wall time; metrics: name to value (bytes, seconds, counts)."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss_mb: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Probe:
    """The outcome of a case at a revision. version: PEP 440, None when unknown; cached: it was not run again; foreign: another
    machine ran it, which is not trusted.
    """

    case: Case
    revision: Revision
    version: str | None
    outcome: Outcome
    measured: Measured
    cached: bool
    foreign: bool = False
