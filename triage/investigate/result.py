"""Cases compared on two toolchains, which an investigation starts from, and what it
finds out about each cluster of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated

from triage.attribute.result import Attribution
from triage.bisect.result import Answer, Bisection
from triage.model.case import Target
from triage.model.execution import Stage
from triage.model.fields import UNPRINTED, fits, in_json
from triage.model.outcome import (
    Exit,
    Failure,
    MayLackAnswer,
    NoAnswer,
    ProbeResult,
    Status,
    exit_without_answer,
)
from triage.model.revision import Revision
from triage.reduce.result import IssueDraft
from triage.remedy.result import Remedy

if TYPE_CHECKING:  # slow to import
    from triage.bisect.history import KnownReleases
    from triage.classify import ClassifiedLog

# A night may come from another machine: its paths name what a nightly writes, and
# nothing else.
_NAME = "[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_ADVICE = "no nightly writes {text}."
LogPath = Annotated[str, fits(rf"logs/{_NAME}/{_NAME}\.log", _ADVICE)]
ReproducerPath = Annotated[str, fits(f"reproducers/{_NAME}", _ADVICE)]
IssuePath = Annotated[str, fits(rf"issues/{_NAME}\.md", _ADVICE)]


class CaseChangeKind(StrEnum):
    """The change of a case between baseline and toolchain. The values are part of
    the JSON of a night.
    """

    REGRESSED = "regressed"
    FIXED = "fixed"
    CHANGED = "changed"  # fails on both, with different failures
    # fails as its recipe expects, or as in an earlier night where the baseline cannot
    # be tested
    KNOWN = "known"
    FAILING = "failing"  # as on the baseline
    PASSING = "passing"
    UNEXPECTED_PASS = "unexpected-pass"  # noqa: S105 - it passes although its recipe expects a failure
    FLAKY = "flaky"  # its state changes without a change of the compiler
    UNTESTABLE = "untestable"
    NEW_UNTESTED = "new-untested"  # fails, and the baseline could not be tested


NEW_FAILURES = (
    CaseChangeKind.REGRESSED,
    CaseChangeKind.CHANGED,
    CaseChangeKind.NEW_UNTESTED,
)


@dataclass(frozen=True, order=True)
class ClusterKey:
    """Identifies a failure in all nights. A failure of one backend is not known because
    another backend has its signature.
    """

    compiler: str
    backend: str
    """The backend of the target."""
    signature: str

    @property
    def id(self) -> str:
        """The same in every night."""
        return text_id("\0".join((self.compiler, self.backend, self.signature)))

    def cluster(
        self, cases: list[str], failure: Failure | None = None
    ) -> FailureCluster:
        """Return a cluster of which nothing else is known."""
        return FailureCluster(**asdict(self), id=self.id, cases=cases, failure=failure)


@dataclass(frozen=True, kw_only=True)
class CaseResult(ProbeResult):
    """A case on two toolchains: its result on the new one, and `baseline`, the one on
    the baseline.
    """

    suite: str
    """The folder of the recipe, or the recipe or config that many cases come from."""
    compiler: str
    change: CaseChangeKind
    baseline: ProbeResult
    log: LogPath | None = None
    """Path of the compiler's output, relative to the folder of the report."""
    source: str = ""
    """The recipe's file, relative to the folder in which triage ran where it is inside.
    """
    input: str = ""
    """Hash of the program, its target, flags and values; empty if it is not known."""
    target: Target | None = None
    stages: list[Stage] = field(default_factory=list)
    """The stages that the case has."""
    issue: str | None = None
    """The issue that the recipe names for the expected failure."""

    @in_json
    def baseline_status(self) -> Status:
        """The status on the baseline."""
        return self.baseline.status

    @in_json
    def cluster(self) -> str | None:
        """The id of the failure, the same in every night."""
        if self.failure:
            return self.key_of(self.failure).id
        return None

    @property
    def backend(self) -> str:
        if self.target:
            return self.target.backend
        return ""

    def key_of(self, failure: Failure) -> ClusterKey:
        """Return the key of a failure that the case has on one of the toolchains."""
        return ClusterKey(self.compiler, self.backend, failure.signature)

    @property
    def is_new_failure(self) -> bool:
        """Whether it is a new failure that fails the night."""
        return self.change in NEW_FAILURES


@dataclass(frozen=True)
class StepResult:
    """A step of an investigation: bisect, narrow, confirm, attribute, remedy or
    reduce.
    """

    step: str
    status: str
    """`done`, `failed`, `left` (such as for lack of time) or `skipped`."""
    seconds: float = 0.0
    reason: str | None = None
    """Why the step has no result."""


@dataclass(frozen=True, kw_only=True)
class FailureCluster:
    """The cases that share a new failure, and what is known of it."""

    signature: str
    cases: list[str]
    id: str = ""
    compiler: str = ""
    backend: str = ""
    """The backend of the target of its cases."""
    failure: Failure | None = None
    representative: str | None = None
    """The case that was investigated."""
    culprit: Bisection | None = None
    """The bisect of the failure; of its fix if it was always there."""
    release_culprit: Bisection | None = None
    """The bisect over releases, where `culprit` is one between two of them."""
    confirmed: list[str] = field(default_factory=list)
    """Further cases that pass before the culprit and fail at it."""
    different: list[str] = field(default_factory=list)
    """Further cases that have the failure since another change."""
    attribution: Attribution | None = None
    reproducer: ReproducerPath | None = None
    """Folder of the reproducer, relative to the folder of the report."""
    size: str | None = None
    """Size of the reduced program with its unit."""
    remedies: list[Remedy] = field(default_factory=list)
    replays: Mapping[str, str] = field(default_factory=dict)
    """State of the reduced program by toolchain."""
    draft: IssueDraft | None = None
    issue: IssuePath | None = None
    """Path of the draft of an issue, relative to the folder of the report. It is
    rendered from this cluster, never read.
    """
    owner: str | None = None
    """Who looks after it, as `owners` of the project file says."""
    steps: list[StepResult] = field(default_factory=list)

    @property
    def key(self) -> ClusterKey:
        return ClusterKey(self.compiler, self.backend, self.signature)

    @property
    def fixed_in(self) -> Revision | None:
        """A newer release that has the fix, if one is known."""
        if self.culprit:
            return self.culprit.fixed_in
        return None

    @property
    def bisected_cases(self) -> list[str]:
        """The case that was investigated, and those that were confirmed to have its
        culprit; empty without an investigation.
        """
        return list(filter(None, (self.representative, *self.confirmed)))

    @property
    def has_culprit(self) -> bool:
        if self.culprit and self.culprit.brought_failure:
            return self.culprit.status is Answer.CULPRIT
        return False

    @property
    def is_investigated(self) -> bool:
        """Whether it was reduced, or that was tried: more than its origin is known."""
        return any(step.step == "reduce" for step in self.steps)


@dataclass
class Explanation(MayLackAnswer):
    """Everything known of a case and its failure."""

    case: str
    compiler: str | None = field(default=None, metadata=UNPRINTED)
    """The compiler family."""
    toolchain: Revision | None = None
    """The one that was asked for, or the newest installed release."""
    passes: bool = False
    """Whether the case passes on that toolchain."""
    target: str | None = None
    """The backend and the chip."""
    assumed: Sequence[str] = ()
    """The part of the target and the values that nobody named."""
    releases: tuple[KnownReleases, ...] = ()
    """How the case ends on all releases, unless one toolchain was asked for."""
    unseen: str | None = None
    """The class of the failure that a text reports or a recipe expects, or `failure`,
    if no toolchain that was tried has it.
    """
    failure: Failure | None = None
    flaky: bool = False
    fails_on: Revision | None = None
    """The toolchain of the failure: the one above, or the newest release that fails."""
    bisection: Bisection | None = None
    attribution: Attribution | None = None
    remedies: Sequence[Remedy] = ()
    left: Sequence[StepResult] = ()
    """Steps without a result, each with the reason."""
    next: Sequence[str] = ()
    """Command lines that go on from here."""
    unanswered: NoAnswer | None = field(default=None, metadata=UNPRINTED)
    """Why the toolchain cannot test the case, or why there is nothing to explain."""
    is_reported_error: bool = field(default=False, metadata=UNPRINTED)
    """Whether a text reports this reason: then the toolchain ends as the text says."""
    is_unreadable: bool = field(default=False, metadata=UNPRINTED)
    """Whether no release that was tried can read it, so that the program is wrong."""
    log: ClassifiedLog | None = None
    """The failures in a text without a program."""

    @property
    def exit(self) -> Exit:
        if self.is_unreadable:
            return Exit.USAGE  # the program is the user's mistake
        if self.status == "inconclusive":
            return exit_without_answer(self.cause)
        if self.log:
            return Exit.INCONCLUSIVE
        if self.failure:
            return Exit.FAILURE
        return Exit.OK

    @property
    def fixed(self) -> Revision | None:
        """The first release with the fix."""
        if self.bisection:
            return self.bisection.fixed_in
        return None

    @in_json
    def status(self) -> str:
        """Return `fails`, `fixed` (by a newer release), `passes`, `inconclusive`, or
        `log`.
        """
        if self.log:
            return "log"
        if self.flaky:
            return "inconclusive"
        if self.failure:
            return "fixed" if self.fixed else "fails"
        return "passes" if self.passes and not self.unseen else "inconclusive"


def text_id(text: str) -> str:
    """Return a short hash of a text."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
