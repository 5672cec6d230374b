"""The result of a nightly: one tree of frozen dataclasses, printed as JSON, stored, and
read back by the same classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from typing import Annotated, ClassVar, Final, Literal

from pydantic import StringConstraints, TypeAdapter, ValidationError

from triage.bisect.result import Bisection
from triage.execution.timing import Pace
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.model.outcome import FAILING, PASSING, Failure, Status
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision
from triage.reduce.result import IssueDraft
from triage.remedy.result import Remedy

SCHEMA: Final = 5  # of the JSON
# A night may come from another machine: its paths name what a nightly writes, and
# nothing else.
_NAME = "[A-Za-z0-9_][A-Za-z0-9_.+-]*"
LogPath = Annotated[str, StringConstraints(pattern=f"^logs/{_NAME}/{_NAME}\\.log$")]
ReproducerPath = Annotated[str, StringConstraints(pattern=f"^reproducers/{_NAME}$")]
IssuePath = Annotated[str, StringConstraints(pattern=f"^issues/{_NAME}\\.md$")]


class CaseChangeKind(StrEnum):
    """What happened to a case between baseline and toolchain. The values are part of
    the JSON of a night.
    """

    REGRESSED = "regressed"
    FIXED = "fixed"
    CHANGED = "changed"  # fails on both, with different failures
    KNOWN = "known"  # fails as its recipe expects
    FAILING = "failing"  # as on the baseline
    PASSING = "passing"
    UNEXPECTED_PASS = "unexpected-pass"  # noqa: S105 - it passes although its recipe expects a failure
    FLAKY = "flaky"  # its state changes without a change of the compiler
    UNTESTABLE = "untestable"


@dataclass(frozen=True, order=True, slots=True)
class ClusterKey:
    """What decides which failures are one. A failure of one backend is not known
    because another backend has its signature.
    """

    compiler: str
    backend: str
    """Of the target."""
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
    """A case of a night: its result on the new toolchain, and `baseline`, the one on
    the baseline.
    """

    JSON_PROPERTIES: ClassVar = ("baseline_status", "cluster")

    suite: str
    """The folder of the recipe, or the recipe or config that many cases come from."""
    compiler: str
    change: CaseChangeKind
    baseline: ProbeResult
    log: LogPath | None = None
    """Path of the compiler's output, relative to the folder of the report."""
    summary: str = ""
    source: str = ""
    """The recipe's file, relative to the folder in which triage ran where it is inside.
    """
    target: Target | None = None
    stages: list[Stage] = field(default_factory=list)
    """The stages that the case has."""
    pace: Pace | None = None
    """Slower or faster than on the baseline, where that was measured."""
    issue: str | None = None
    """The issue that the recipe names for the expected failure."""
    bisections: list[Bisection] = field(default_factory=list)
    """What introduced the failure and, in newer releases, fixed it."""

    @property
    def baseline_status(self) -> Status:
        """The status on the baseline."""
        return self.baseline.status

    @property
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
    def either_failure(self) -> Failure | None:
        """The failure on the new toolchain, or else the one on the baseline."""
        return self.failure or self.baseline.failure

    @property
    def counts(self) -> bool:
        """Whether it is a new failure that fails the night."""
        return self.change in (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED)

    @property
    def changed_failure(self) -> Failure | None:
        """The new failure of a case that failed in another way on the baseline; None
        for other cases.
        """
        if self.change is CaseChangeKind.CHANGED:
            return self.failure
        return None

    @property
    def passes_on_both(self) -> bool:
        return self.status in PASSING and self.baseline.status in PASSING


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
    """Why it has no result."""


@dataclass(frozen=True)
class ClusterAttribution:
    """The pass after which the IR of both toolchains diverges, as `triage attribute`
    found it.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = {
        "alias_generator": lambda name: name.removesuffix("_")
    }

    status: str
    pass_: str | None = None
    phase: str | None = None
    function: str | None = None
    files: list[str] = field(default_factory=list)
    page: str | None = None
    """The page with both IRs, relative to the folder of the report. It is never read.
    """


@dataclass(frozen=True, kw_only=True)
class FailureCluster:
    """The cases that share a new failure, and what is known of it."""

    signature: str
    cases: list[str]
    id: str = ""
    compiler: str = ""
    backend: str = ""
    """Of the target of its cases."""
    failure: Failure | None = None
    representative: str | None = None
    """The case that was investigated."""
    culprit: Bisection | None = None
    release_culprit: Bisection | None = None
    """The bisect over releases, where `culprit` is one between two of them."""
    fix: Bisection | None = None
    """The bisect of a later fix."""
    confirmed: list[str] = field(default_factory=list)
    """Further cases that pass before the culprit and fail at it."""
    different: list[str] = field(default_factory=list)
    """Further cases that do not."""
    same_culprit: list[str] = field(default_factory=list)
    """Ids of other clusters whose culprit is the same commit."""
    attribution: ClusterAttribution | None = None
    reproducer: ReproducerPath | None = None
    """Folder of the reproducer, relative to the folder of the report."""
    size: str | None = None
    """Size of the reduced program with its unit."""
    remedies: list[Remedy] = field(default_factory=list)
    replays: dict[str, str] = field(default_factory=dict)
    """State of the reduced program by toolchain."""
    draft: IssueDraft | None = None
    issue: IssuePath | None = None
    """Path of the draft of an issue, relative to the folder of the report. It is
    rendered from this cluster, never read.
    """
    steps: list[StepResult] = field(default_factory=list)

    @property
    def key(self) -> ClusterKey:
        return ClusterKey(self.compiler, self.backend, self.signature)

    @property
    def is_investigated(self) -> bool:
        """Whether more than its origin was searched for."""
        return any(step.step == "reduce" for step in self.steps)


@dataclass(frozen=True)
class InvestigationSummary:
    """What an investigation took. The steps that are left are in the clusters."""

    seconds: float
    budget_seconds: float | None = None
    command: str | None = None
    """The command line that continues."""


@dataclass(frozen=True, kw_only=True)
class TimeChange:
    """A time of a case on both toolchains, measured in turn."""

    case: str
    measured: Literal["compile", "run"] = "run"
    """CPU time of compiles, or wall time of runs."""
    function: str | None = None
    """The function that was run; null for compiles, and for a program that is run as a
    whole.
    """
    baseline_seconds: float | None = None
    """The median."""
    seconds: float | None = None
    ratio: float | None = None
    """New to baseline, with an interval from `low` to `high` where there are enough
    samples.
    """
    low: float | None = None
    high: float | None = None
    verdict: Pace | None = None
    reason: str | None = None
    """Why there is no verdict."""
    bisection: Bisection | None = None
    """Where it became slower, with --bisect."""


@dataclass(frozen=True, kw_only=True)
class Night:
    """A night: a toolchain against a baseline. The JSON of `triage nightly`."""

    JSON_PROPERTIES: ClassVar = (
        *(
            "changes",
            "regressed",
            "fixed",
            "changed",
            "known",
            "unchanged",
            "untestable",
            "unexpected_passes",
        ),
        *("partial", "slower", "stages", "suites"),
    )

    schema: Literal[5]
    toolchain: Revision
    baseline: Revision
    compiler: str | None = None
    started: str
    """ISO 8601 in UTC."""
    seconds: float = 0.0
    compiles: int = 0
    cached: int = 0
    shard: str | None = None
    """`1/4` for the first of four shards."""
    total: int = 0
    """Number of cases of all shards."""
    scope: str | None = None
    """What bisects can search between both toolchains."""
    cases: list[CaseResult] = field(default_factory=list)
    clusters: list[FailureCluster] = field(default_factory=list)
    investigation: InvestigationSummary | None = None
    times: list[TimeChange] = field(default_factory=list)
    """Of compiles that took much longer, and with --bench of runs."""
    stopped: str | None = None
    """Why it ended early; null when it is complete."""
    not_compared: list[str] = field(default_factory=list)
    """Cases without a result on both toolchains."""
    strict: bool = False
    """Unexpected passes and slower cases fail the night."""
    reports: dict[str, str] = field(default_factory=dict)
    """Files by format."""

    def of(self, *changes: CaseChangeKind) -> list[CaseResult]:
        """Return the cases with these kinds of change, in the order of the recipes."""
        return [case for case in self.cases if case.change in changes]

    @property
    def changes(self) -> dict[str, int]:
        """Number of cases by kind of change."""
        return {change.value: len(self.of(change)) for change in CaseChangeKind}

    @property
    def regressed(self) -> list[CaseResult]:
        """Cases that pass on the baseline only."""
        return self.of(CaseChangeKind.REGRESSED)

    @property
    def fixed(self) -> list[CaseResult]:
        """Cases that pass on the new toolchain only."""
        return self.of(CaseChangeKind.FIXED)

    @property
    def changed(self) -> list[CaseResult]:
        """Cases that fail on both toolchains in different ways."""
        return self.of(CaseChangeKind.CHANGED)

    @property
    def known(self) -> list[CaseResult]:
        """Cases that fail as their recipes expect."""
        return self.of(CaseChangeKind.KNOWN)

    @property
    def unchanged(self) -> int:
        """Number of cases that fail as before or pass."""
        return len(
            self.of(
                CaseChangeKind.FAILING,
                CaseChangeKind.PASSING,
                CaseChangeKind.UNEXPECTED_PASS,
            )
        )

    @property
    def untestable(self) -> int:
        """Number of cases that a toolchain could not test."""
        return len(self.of(CaseChangeKind.UNTESTABLE))

    @property
    def unexpected_passes(self) -> list[str]:
        """Cases that pass on the new toolchain although a failure is expected there."""
        return [case.case for case in self.cases if case.status is Status.XPASS]

    @property
    def partial(self) -> bool:
        """Whether the nightly was stopped before it was complete."""
        return self.stopped is not None

    @property
    def slower(self) -> list[TimeChange]:
        """Compiles and runs that are slower, the slowest first."""
        return sorted(
            (row for row in self.times if row.verdict is Pace.SLOWER),
            key=lambda row: -(row.ratio or 0),
        )

    @property
    def stages(self) -> dict[str, dict[str, int]]:
        """How many cases passed and failed each stage on the new toolchain."""
        counts = {stage.value: {"passed": 0, "failed": 0} for stage in Stage}
        for case in self.cases:
            for stage in case.stages if case.status is not Status.UNTESTABLE else ():
                if case.status in FAILING and stage == case.stage:
                    counts[stage]["failed"] += 1
                    break
                counts[stage]["passed"] += 1
        return {stage: row for stage, row in counts.items() if any(row.values())}

    @property
    def suites(self) -> dict[str, dict[str, int]]:
        """How many cases passed, failed and could not be tested on the new toolchain,
        by suite.
        """
        counts: dict[str, dict[str, int]] = {}
        for case in self.cases:
            row = counts.setdefault(
                case.suite, {"passed": 0, "failed": 0, "untestable": 0}
            )
            row[
                "passed"
                if case.status in PASSING
                else "failed"
                if case.status in FAILING
                else "untestable"
            ] += 1
        return counts

    @property
    def left_steps(self) -> list[tuple[FailureCluster, StepResult]]:
        """The steps that an investigation left over, with their clusters."""
        return [
            (cluster, step)
            for cluster in self.clusters
            for step in cluster.steps
            if step.status == "left"
        ]


def text_id(text: str) -> str:
    """Return an id of a text. Older versions of triage used that of the signature for a
    cluster.
    """
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


@cache
def _adapter() -> TypeAdapter[Night]:
    return TypeAdapter(Night)


def night_bytes(night: Night) -> bytes:
    """Return a night as JSON without derived keys and without fields that have their
    defaults.
    """
    return _adapter().dump_json(night, by_alias=True, exclude_defaults=True)


def parse_night(document: str | bytes, name: str) -> Night:
    """Read the JSON of a night. Keys that this version does not know are ignored. name:
    of the document, for errors.

    Raises:
        BadInput: It is not a night, or a version of triage wrote it that is too old or
            newer than this one.
    """
    from triage.nightly.older_schema import from_schema_4  # imports the classes of here

    try:
        try:
            return _adapter().validate_json(document)
        except ValidationError as error:
            if _schema_in(error) != 4:
                raise
        return _adapter().validate_python(from_schema_4(json.loads(document)))
    except RecursionError as error:
        raise BadInput(
            f"{name} is not the JSON of a nightly: it is nested too deeply"
        ) from error
    except ValidationError as error:
        schema = _schema_in(error)
        if schema is not None:
            raise BadInput(
                f"{name} has schema {str(schema)[:20]} and this version reads 4 and "
                f"{SCHEMA}: run the nightly again"
            ) from error
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in first["loc"])
        raise BadInput(
            f"{name} is not the JSON of a nightly: {where}{first['msg']}"
        ) from error


def _schema_in(error: ValidationError) -> object:
    """Return the schema of the document if it is the mistake, else None."""
    for mistake in error.errors():
        if mistake["type"] == "literal_error" and mistake["loc"] == ("schema",):
            return mistake["input"]
    return None
