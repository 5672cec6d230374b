"""The result of a nightly: one tree of frozen dataclasses, printed as JSON, stored, and read back by the same classes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError, computed_field

from triage.bisect.result import Bisection
from triage.execution.statistics import Pace
from triage.model.case import Target
from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.model.outcome import FAILING, PASSING, Cause, Failure, Status
from triage.model.revision import Revision
from triage.model.shapes import Shape
from triage.remedy.result import Remedy

NIGHT_FILE = "nightly.json"
SCHEMA = 3  # of the JSON
LARGEST_FILE = 1 << 20  # bytes of a file that a night names
_PATHS = {  # the names of the files and folders that a night may name, relative to its folder
    "log": re.compile(r"logs/[\w.-]+/[\w.-]+\.log", re.ASCII),
    "reproducer": re.compile(r"reproducers/[\w.+-]+", re.ASCII),
    "issue": re.compile(r"issues/[\w.+-]+\.md", re.ASCII),
}


class CaseChangeKind(StrEnum):
    """What happened to a case between baseline and toolchain. The values are part of the JSON of a night."""

    REGRESSED = "regressed"
    FIXED = "fixed"
    CHANGED = "changed"  # fails on both, with different failures
    KNOWN = "known"  # fails as its recipe expects
    FAILING = "failing"  # as on the baseline
    PASSING = "passing"
    UNEXPECTED_PASS = "unexpected-pass"  # noqa: S105 - it passes although its recipe expects a failure
    FLAKY = "flaky"  # its state changes without a change of the compiler
    UNTESTABLE = "untestable"


NEW_FAILURES = (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED)  # these fail a night


@dataclass(frozen=True, kw_only=True)
class ProbeResult(Shape):
    """A case on one toolchain."""

    status: Status
    stage: Stage | None = None
    """The stage that failed, or the last one; null when untestable."""
    failure: Failure | None = None
    reason: str | None = None
    """Why it is untestable."""
    cause: Cause | None = None
    flaky: bool = False
    cached: bool = False
    foreign: bool = False
    """Another machine made it, which is not trusted."""
    metrics: dict[str, float] = field(default_factory=dict)
    """`compile_seconds`, `cpu_seconds`, `peak_rss_mb`, `artifact_bytes`, `run_seconds`, `dispatches` and others, if known."""
    warnings: list[Failure] = field(default_factory=list)
    log: str | None = None
    """Path of the compiler's output, relative to the folder of the report."""


@dataclass(frozen=True, kw_only=True)
class CaseResult(ProbeResult):
    """A case of a night: its result on the new toolchain, and `baseline`, the one on the baseline."""

    case: str
    recipe: str
    suite: str
    """The folder of the recipe, or the recipe or config that many cases come from."""
    compiler: str
    change: CaseChangeKind
    baseline: ProbeResult
    summary: str = ""
    source: str = ""
    """The recipe's file, relative to the folder in which triage ran where it is inside."""
    target: Target | None = None
    stages: list[Stage] = field(default_factory=list)
    """The stages that the case has."""
    pace: Pace | None = None
    """Slower or faster than on the baseline, where that was measured."""
    issue: str | None = None
    """The issue that the recipe names for the expected failure."""
    bisections: list[Bisection] = field(default_factory=list)
    """What introduced the failure and, in newer releases, fixed it."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def baseline_status(self) -> Status:
        """The status on the baseline."""
        return self.baseline.status

    @computed_field  # type: ignore[prop-decorator]
    @property
    def cluster(self) -> str | None:
        """The id of the failure, the same in every night."""
        return cluster_id(self.failure.signature) if self.failure else None

    @property
    def either_failure(self) -> Failure | None:
        """The failure on the new toolchain, or else the one on the baseline."""
        return self.failure or self.baseline.failure

    @property
    def counts(self) -> bool:
        """Whether it is a new failure that fails the night."""
        return self.change in NEW_FAILURES

    @property
    def changed_failure(self) -> Failure | None:
        """The new failure of a case that failed in another way on the baseline; None for other cases."""
        return self.failure if self.change is CaseChangeKind.CHANGED else None

    @property
    def passes_on_both(self) -> bool:
        """Whether the case succeeds on both toolchains."""
        return self.status in PASSING and self.baseline.status in PASSING


@dataclass(frozen=True)
class StepResult(Shape):
    """A step of an investigation: bisect, narrow, confirm, attribute, remedy, reduce or replay."""

    step: str
    status: str
    """`done`, `failed`, `left` (the budget was spent) or `skipped`."""
    seconds: float = 0.0
    reason: str | None = None
    command: str | None = None
    """The command line that does it."""


@dataclass(frozen=True)
class Divergence(Shape):
    """The pass after which the IR of both toolchains diverges, as `triage attribute` found it."""

    status: str
    pass_: str | None = None
    phase: str | None = None
    function: str | None = None
    files: list[str] = field(default_factory=list)
    page: str | None = None
    """The page with both IRs, relative to the folder of the report. It is never read."""


@dataclass(frozen=True)
class IssueDraft(Shape):
    """What the draft of an issue shows of the reduced program. Reports render it, and read no file to do so."""

    file: str
    program: str | None
    """The text of the program; None where it is too long to paste."""
    command: str
    output: str


@dataclass(frozen=True, kw_only=True)
class FailureCluster(Shape):
    """The cases that share a new failure, and what is known of it."""

    signature: str
    cases: list[str]
    id: str = ""
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
    attribution: Divergence | None = None
    reproducer: str | None = None
    """Folder of the reproducer, relative to the folder of the report."""
    operations: int | None = None
    size: str | None = None
    """Size of the reduced program with its unit."""
    remedies: list[Remedy] = field(default_factory=list)
    replays: dict[str, str] = field(default_factory=dict)
    """State of the reproducer by toolchain."""
    draft: IssueDraft | None = None
    issue: str | None = None
    """Path of the draft of an issue, relative to the folder of the report. It is rendered from this cluster, never read."""
    steps: list[StepResult] = field(default_factory=list)


@dataclass(frozen=True)
class OpenStep(Shape):
    """A step that the budget did not allow, and the line that does it."""

    cluster: str
    case: str
    step: str
    reason: str
    command: str


@dataclass(frozen=True, kw_only=True)
class InvestigationSummary(Shape):
    """What an investigation took, and what is left."""

    budget_seconds: float | None = None
    seconds: float = 0.0
    left: list[OpenStep] = field(default_factory=list)


@dataclass(frozen=True)
class CompileTimes(Shape):
    """The CPU times of compiles of a case on both toolchains in turn. `low`, `high`: interval of `times`, if there is one."""

    case: str
    times: float
    low: float | None
    high: float | None
    baseline_cpu_seconds: float
    cpu_seconds: float
    compiles: int
    verdict: Pace
    bisection: Bisection | None = None
    """Where it became slower, with --bisect."""


@dataclass(frozen=True)
class ProgramTimes(Shape):
    """A compiled program and its runs: the median time in seconds, kernels that it starts, size and most memory used."""

    median: float | None
    dispatches: int | None
    bytes: int | None
    peak_mb: float | None


@dataclass(frozen=True)
class RunTimes(Shape):
    """The run time of one function, new to baseline: `ratio` with its interval, and a verdict."""

    case: str
    function: str | None
    baseline: ProgramTimes
    new: ProgramTimes
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Pace | None
    reason: str | None
    """Why there is no verdict."""
    bisection: Bisection | None = None
    """Where it became slower, with --bisect."""


@dataclass(frozen=True, kw_only=True)
class Night(Shape):
    """A night: a toolchain against a baseline. The JSON of `triage nightly`."""

    schema: int
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
    compile_times: list[CompileTimes] = field(default_factory=list)
    """Compiles that were measured again."""
    run_times: list[RunTimes] = field(default_factory=list)
    """With --bench."""
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

    @computed_field  # type: ignore[prop-decorator]
    @property
    def changes(self) -> dict[str, int]:
        """Number of cases by kind of change."""
        return {change.value: len(self.of(change)) for change in CaseChangeKind}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def regressed(self) -> list[CaseResult]:
        """Cases that pass on the baseline only."""
        return self.of(CaseChangeKind.REGRESSED)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def fixed(self) -> list[CaseResult]:
        """Cases that pass on the new toolchain only."""
        return self.of(CaseChangeKind.FIXED)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def changed(self) -> list[CaseResult]:
        """Cases that fail on both toolchains in different ways."""
        return self.of(CaseChangeKind.CHANGED)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def known(self) -> list[CaseResult]:
        """Cases that fail as their recipes expect."""
        return self.of(CaseChangeKind.KNOWN)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def unchanged(self) -> int:
        """Number of cases that fail as before or pass."""
        return len(self.of(CaseChangeKind.FAILING, CaseChangeKind.PASSING, CaseChangeKind.UNEXPECTED_PASS))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def untestable(self) -> int:
        """Number of cases that a toolchain could not test."""
        return len(self.of(CaseChangeKind.UNTESTABLE))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def unexpected_passes(self) -> list[str]:
        """Cases that pass on the new toolchain although a failure is expected there."""
        return [case.case for case in self.cases if case.status is Status.XPASS]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def partial(self) -> bool:
        """Whether the nightly was stopped before it was complete."""
        return self.stopped is not None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def slower(self) -> list[CompileTimes]:
        """Compiles that are slower, the slowest first."""
        return self._measured(Pace.SLOWER)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def maybe_slower(self) -> list[CompileTimes]:
        """Compiles whose times vary too much, or that take too long, for a verdict."""
        return self._measured(Pace.NOISY)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def stages(self) -> dict[str, dict[str, int]]:
        """How many cases passed and failed each stage on the new toolchain."""
        counts: dict[Stage, dict[str, int]] = {}
        for case in self.cases:
            for stage in case.stages if case.status in (*PASSING, *FAILING) else ():
                failed = case.status in FAILING and stage == case.stage
                row = counts.setdefault(stage, {"passed": 0, "failed": 0})
                row["failed" if failed else "passed"] += 1
                if failed:
                    break
        return {stage.value: counts[stage] for stage in Stage if stage in counts}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def suites(self) -> dict[str, dict[str, int]]:
        """How many cases passed, failed and could not be tested on the new toolchain, by suite."""
        counts: dict[str, dict[str, int]] = {}
        for case in self.cases:
            row = counts.setdefault(case.suite, {"passed": 0, "failed": 0, "untestable": 0})
            row["passed" if case.status in PASSING else "failed" if case.status in FAILING else "untestable"] += 1
        return counts

    @property
    def new_failures(self) -> list[CaseResult]:
        """The cases that fail the night: those that regressed, then those with another failure than before."""
        return [*self.regressed, *self.changed]

    def clusters_by_case(self) -> dict[str, FailureCluster]:
        """Return the cluster of each case with a new failure, by the case's name."""
        return {name: cluster for cluster in self.clusters for name in cluster.cases}

    def _measured(self, verdict: Pace) -> list[CompileTimes]:
        return sorted((row for row in self.compile_times if row.verdict is verdict), key=lambda row: -row.times)


def cluster_id(signature: str) -> str:
    """Return the id of a failure, the same in every night."""
    return blake2b(signature.encode("utf-8", "replace"), digest_size=6).hexdigest()


def clusters_of(cases: Iterable[CaseResult]) -> list[FailureCluster]:
    """Return a cluster for each new failure signature, the most frequent first."""
    groups: dict[str, list[CaseResult]] = {}
    for case in sorted(cases, key=lambda case: case.change is CaseChangeKind.CHANGED):
        if case.counts and case.failure:
            groups.setdefault(case.failure.signature, []).append(case)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [
        FailureCluster(
            signature=signature, cases=[case.case for case in members], id=cluster_id(signature), failure=members[0].failure
        )
        for signature, members in ordered
    ]


@cache
def _adapter() -> TypeAdapter[Night]:
    return TypeAdapter(Night)


def night_bytes(night: Night) -> bytes:
    """Return a night as JSON without derived keys and without fields that have their defaults."""
    return _adapter().dump_json(night, by_alias=True, round_trip=True, exclude_defaults=True)


def parse_night(document: str | bytes, name: str) -> Night:
    """Read the JSON of a night. Keys that this version does not know are ignored. name: of the document, for errors.

    Raises:
        BadInput: It is not a night, or another version of triage wrote it.
    """
    try:
        night = _adapter().validate_json(document)
    except (ValidationError, RecursionError) as error:
        schema = _schema_in(document)
        if schema is not None and schema != SCHEMA:
            raise BadInput(f"{name} has schema {schema} and this version reads {SCHEMA}: run the nightly again") from error
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": "it is nested too deeply"}
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{name} is not the JSON of a nightly: {where}{': ' if where else ''}{first['msg']}") from error
    if night.schema != SCHEMA:
        raise BadInput(f"{name} has schema {night.schema} and this version reads {SCHEMA}: run the nightly again")
    return night


def read_night(path: Path) -> Night:
    """Read `nightly.json`, or the one in a folder, and check the paths in it.

    Raises:
        BadInput: It cannot be read, or names a file that a nightly does not write.
    """
    file = path / NIGHT_FILE if path.is_dir() else path
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}; pass the folder that `triage nightly --out` wrote") from error
    night = parse_night(content, str(file))
    named = [("log", result.log) for case in night.cases for result in (case, case.baseline)]
    named += [(kind, getattr(cluster, kind)) for cluster in night.clusters for kind in ("reproducer", "issue")]
    for kind, text in named:
        if text is not None:
            _check_path(file.parent, kind, text, str(file))
    return night


def _check_path(folder: Path, kind: str, text: str, name: str) -> None:
    """Raise BadInput unless a path has the form of its kind and leads to what that kind is, inside the folder.

    A night may come from a machine that holds no secrets to one that does; no path in it may lead to anything else.
    """
    path = folder / text
    reason = None
    if not _PATHS[kind].fullmatch(text) or ".." in Path(text).parts:
        reason = "is not the path of one"
    elif path.is_symlink() or path.exists():
        if not path.resolve().is_relative_to(folder.resolve()):
            reason = "leads out of the folder"
        elif not (path.is_dir() if kind == "reproducer" else path.is_file() and path.stat().st_size <= LARGEST_FILE):
            reason = f"is not a regular {'folder' if kind == 'reproducer' else 'file of at most 1 MiB'}"
    if reason:
        raise BadInput(f"{name}: the {kind} {text!r} {reason}")


def _schema_in(document: str | bytes) -> Any:
    try:
        values = json.loads(document)
    except (ValueError, RecursionError):
        return None
    return values.get("schema", 1) if isinstance(values, dict) and "toolchain" in values else None
