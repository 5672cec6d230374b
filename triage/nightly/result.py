"""The result of a nightly: one tree of frozen dataclasses, printed as JSON, stored, and
read back by the same classes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, Literal

from pydantic_core import ValidationError

from triage.bisect.result import Bisection
from triage.execution.in_turn import Pace, Ratio
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    FailureCluster,
)
from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.model.fields import in_json
from triage.model.outcome import FAILING, Exit, Status, exit_without_answer
from triage.model.revision import Revision, ToolchainKind
from triage.nightly.store import BackendVerdict
from triage.recipes.document import schema_of

SCHEMA: Final = 7  # of the JSON of a night


class Action(StrEnum):
    """An action for a person. The values are part of the JSON of a night."""

    FILE = "file"
    """File an issue: the failure was investigated, and its draft is written."""
    UPGRADE = "upgrade"
    """Use a newer release, which has the fix."""
    WAIT = "wait"
    """Wait for the issue that is open."""
    INVESTIGATE = "investigate"


@dataclass(frozen=True)
class ToDo:
    """The one thing to do about a failure."""

    action: Action
    cluster: str
    """The id of the failure."""
    issue: str | None = None
    """The issue to wait for."""
    since: str | None = None
    """The version that has the fix."""


def to_do_for_failure(cluster: FailureCluster, issue: str | None = None) -> ToDo:
    """Return what to do about a failure. issue: one that is open for it."""
    if issue:
        return ToDo(Action.WAIT, cluster.id, issue=issue)
    if cluster.fixed_in:
        return ToDo(Action.UPGRADE, cluster.id, since=cluster.fixed_in.name)
    if cluster.is_investigated:
        return ToDo(Action.FILE, cluster.id)
    return ToDo(Action.INVESTIGATE, cluster.id)


@dataclass(frozen=True, kw_only=True)
class TimeChange:
    """The run time of a case on both toolchains, measured in turn."""

    case: str
    function: str | None = None
    """The function that was run; null for a program that is run as a whole."""
    baseline_seconds: float | None = None
    """The median."""
    seconds: float | None = None
    ratio: Ratio | None = None
    """New to baseline, if there are enough samples."""
    verdict: Pace | None = None
    reason: str | None = None
    """Why there is no verdict."""
    bisection: Bisection | None = None
    """The bisect of the slowdown, with --bisect."""


@dataclass(frozen=True, kw_only=True)
class Night:
    """A night: a toolchain against a baseline. The JSON of `triage nightly`."""

    # in all parts of a night
    __pydantic_config__: ClassVar = {"allow_inf_nan": False}

    schema: Literal[7]
    toolchain: Revision
    baseline: Revision
    kind: ToolchainKind
    """Of the toolchain."""
    compiler: str | None = None
    title: str = ""
    """The name of the compiler, as people write it."""
    started: str
    """ISO 8601 in UTC."""
    seconds: float = 0.0
    compiles: int = 0
    cached: int = 0
    shard: str | None = None
    """`1/4` for the first of four shards."""
    cases: list[CaseResult] = field(default_factory=list)
    clusters: list[FailureCluster] = field(default_factory=list)
    times: list[TimeChange] = field(default_factory=list)
    """Run times, with --bench."""
    stopped: str | None = None
    """Why the night ended early; null when it is complete."""
    planned: list[str] = field(default_factory=list)
    """All cases in the order of the recipes, as far as their names are known."""
    strict: bool = False
    """Unexpected passes and slower cases fail the night."""
    sealed: bool = True
    """What was compiled and run could read and write only what it needs."""
    reports: dict[str, str] = field(default_factory=dict)
    """Files by format."""

    @property
    def exit(self) -> Exit:
        """FAILURE for a new failure, else why cases could not be tested, INCONCLUSIVE
        if some were not compared.
        """
        is_healed = any(case.status is Status.XPASS for case in self.cases)
        fails_strictly = self.strict and (self.slower or is_healed)
        if fails_strictly or any(case.is_new_failure for case in self.cases):
            return Exit.FAILURE
        untested = self.cases_with(CaseChangeKind.UNTESTABLE)
        causes = [case.cause for case in untested]
        code = exit_without_answer(*causes, *(case.baseline.cause for case in untested))
        is_any_tested = len(untested) < len(self.cases) or not self.cases
        if code is Exit.INCONCLUSIVE and is_any_tested and not self.partial:
            return Exit.OK
        return code

    def cases_with(self, *changes: CaseChangeKind) -> list[CaseResult]:
        """Return the cases with these kinds of change, in the order of the recipes."""
        return [case for case in self.cases if case.change in changes]

    def case_of(self, cluster: FailureCluster) -> CaseResult | None:
        """Return the case that stands for a failure; None if the cluster names no case,
        as that of a known failure.
        """
        names = cluster.cases
        if cluster.representative:
            names = [cluster.representative]
        return next((case for case in self.cases if case.case in names), None)

    @in_json
    def changes(self) -> dict[str, int]:
        """Number of cases by kind of change."""
        return {change.value: len(self.cases_with(change)) for change in CaseChangeKind}

    @in_json
    def regressed(self) -> list[CaseResult]:
        """Cases that pass on the baseline only."""
        return self.cases_with(CaseChangeKind.REGRESSED)

    @in_json
    def fixed(self) -> list[CaseResult]:
        """Cases that pass on the new toolchain only."""
        return self.cases_with(CaseChangeKind.FIXED)

    @in_json
    def changed(self) -> list[CaseResult]:
        """Cases that fail on both toolchains in different ways."""
        return self.cases_with(CaseChangeKind.CHANGED)

    @in_json
    def unchanged(self) -> int:
        """Number of cases that fail as before or pass."""
        failing = CaseChangeKind.FAILING
        passing = CaseChangeKind.PASSING
        return len(self.cases_with(failing, passing, CaseChangeKind.UNEXPECTED_PASS))

    @in_json
    def untestable(self) -> int:
        """Number of cases that a toolchain could not test."""
        return len(self.cases_with(CaseChangeKind.UNTESTABLE))

    @in_json
    def partial(self) -> bool:
        """Whether the nightly was stopped before it was complete."""
        return self.stopped is not None

    @in_json
    def not_compared(self) -> list[str]:
        """The planned cases without a result on both toolchains."""
        compared = {case.case for case in self.cases}
        return [name for name in self.planned if name not in compared]

    @in_json
    def slower(self) -> list[TimeChange]:
        """Runs that are slower, the slowest first."""
        slower = [row for row in self.times if row.verdict is Pace.SLOWER]
        return sorted(slower, key=lambda row: -(row.ratio.value if row.ratio else 0))

    @in_json
    def stages(self) -> dict[str, dict[str, int]]:
        """How many cases passed and failed each stage on the new toolchain."""
        counts: dict[str, dict[str, int]] = {}
        for case in self.cases:
            if case.status is Status.UNTESTABLE:
                continue
            for stage in case.stages:
                row = counts.setdefault(stage, {"passed": 0, "failed": 0})
                if case.status in FAILING and stage == case.stage:
                    row["failed"] += 1
                    break
                row["passed"] += 1
        return {stage: counts[stage] for stage in Stage if stage in counts}

    @in_json
    def verdict(self) -> list[BackendVerdict]:
        """The verdict on each backend, the most broken first."""
        slower = {row.case for row in self.slower}
        by_backend = defaultdict[str, list[CaseResult]](list)
        for case in self.cases:
            by_backend[case.backend].append(case)
        verdicts = []
        for backend, cases in by_backend.items():
            changes = [case.change for case in cases]
            failures = [
                cluster for cluster in self.clusters if cluster.backend == backend
            ]
            verdict = BackendVerdict(
                backend,
                cases=len(cases),
                broken=sum(case.is_new_failure for case in cases),
                fixed=changes.count(CaseChangeKind.FIXED),
                untestable=changes.count(CaseChangeKind.UNTESTABLE),
                failures=len(failures),
                with_culprit=sum(failure.has_culprit for failure in failures),
                slower=sum(case.case in slower for case in cases),
            )
            verdicts.append(verdict)
        return sorted(verdicts, key=lambda verdict: (-verdict.broken, verdict.backend))

    @in_json
    def to_do(self) -> list[ToDo]:
        """One thing to do for each new failure."""
        return list(map(to_do_for_failure, self.clusters))


def stored_bytes(part: object) -> bytes:
    """Return a night, or a part of one, as JSON without derived keys and without fields
    that have their defaults.
    """
    from pydantic import TypeAdapter  # slow to import

    adapter = TypeAdapter(type(part))
    return adapter.dump_json(part, by_alias=True, exclude_defaults=True)


def parse_night(document: str | bytes, name: str) -> Night:
    """Read the JSON of a night. Keys that this version does not know are ignored. name:
    of the document, for errors.

    Raises:
        BadInput: It is not a night, or another version of triage wrote it.
    """
    try:
        night: Night = schema_of(Night).validate_json(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in first["loc"])
        raise BadInput(
            f"{name} is not the JSON of a nightly: {where}{first['msg']}"
        ) from error
    return night
