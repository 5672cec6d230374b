"""The JSON of a night: every case on both toolchains, new failures by signature, what was found out about them.

`NightReport` writes it, and `night_of` reads it, also as earlier versions wrote it. Stored nights, merged shards and the site
use the same classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from typing import Any

from pydantic import TypeAdapter, ValidationError

from triage.model.errors import BadInput
from triage.model.execution import Stage
from triage.model.outcome import FAILING, PASSING, Failure, Status
from triage.model.revision import Revision
from triage.nightly.compare import CaseChangeKind
from triage.remedy.result import Remedy
from triage.report.bisection import BisectShape
from triage.report.shapes import FailureShape, Json, Shape

SCHEMA = 2  # of the JSON; documents of schema 1 have no number


@dataclass(frozen=True)
class TargetRecord(Shape):
    """What a case is compiled for."""

    backend: str
    chip: str | None = None
    devices: int | None = None


@dataclass(frozen=True, kw_only=True)
class ResultRecord(Shape):
    """A case on one toolchain.

    status: passed, failed, untestable, xfail (fails as expected) or xpass (passes although a failure is expected).
    stage: The stage that failed, or the last one; null when untestable. reason: Why it is untestable;
    cause: flag, input, target, toolchain, environment, recipe, noise or internal.
    metrics: `compile_seconds`, `cpu_seconds`, `peak_rss_mb`, `artifact_bytes`, `run_seconds`, `dispatches` and others, as far
    as they are known. log: Path of the compiler's output, relative to the report.
    """

    status: str
    stage: str | None = None
    failure: FailureShape | None = None
    reason: str | None = None
    cause: str | None = None
    flaky: bool = False
    cached: bool = False
    metrics: dict[str, float] = field(default_factory=dict)
    warnings: list[FailureShape] = field(default_factory=list)
    log: str | None = None


@dataclass(frozen=True, kw_only=True)
class CaseRecord(ResultRecord):
    """A case of a night: its result on the new toolchain, and `baseline`, the one on the baseline.

    suite: A folder of recipes, or the recipe or config that many cases come from. stages: Those that it has.
    change: regressed, fixed, changed (another failure than before), known (an expected failure), failing (as before),
    passing, unexpected-pass, flaky or untestable. pace: slower or faster than on the baseline, where that was measured.
    cluster: Id of its failure, see `cluster_id`.
    source: The recipe's file, relative to the folder in which triage ran where it is inside.
    """

    case: str
    recipe: str
    suite: str
    compiler: str
    change: str
    baseline_status: str
    baseline: ResultRecord
    summary: str = ""
    source: str = ""
    target: TargetRecord | None = None
    stages: list[str] = field(default_factory=list)
    pace: str | None = None
    issue: str | None = None
    cluster: str | None = None
    bisections: list[BisectShape] = field(default_factory=list)

    @property
    def either_failure(self) -> FailureShape | None:
        """The failure on the new toolchain, or else the one on the baseline."""
        return self.failure or self.baseline.failure

    @property
    def counts(self) -> bool:
        """Whether it is a new failure that fails the night."""
        return self.change in (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED)


@dataclass(frozen=True)
class StepRecord(Shape):
    """A step of an investigation: bisect, narrow, confirm, attribute, reduce, remedy, replay or issue.

    status: done, failed, left (the budget was spent) or skipped; reason: why it is not done; command: the line that does it.
    """

    step: str
    status: str
    seconds: float = 0.0
    reason: str | None = None
    command: str | None = None


@dataclass(frozen=True)
class AttributionRecord(Shape):
    """The pass after which the IR of both toolchains diverges. status: as in `triage attribute`; page: `attribution.html`."""

    status: str
    pass_: str | None = None
    phase: str | None = None
    function: str | None = None
    files: list[str] = field(default_factory=list)
    reason: str | None = None
    page: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClusterRecord(Shape):
    """The cases that share a new failure, and what is known of it.

    culprit: The bisect of the representative; release_culprit: that over releases, where `culprit` is one between two of
    them; fix: that of a later fix. confirmed: Further cases that pass before the culprit
    and fail at it; different: those that do not. same_culprit: Ids of other clusters with this culprit. reproducer, issue:
    Paths of the reproducer's folder and of the issue's draft. operations, size: Of the reduced program, size with its unit.
    replays: Status of the reproducer by toolchain.
    """

    signature: str
    cases: list[str]
    id: str = ""
    failure: FailureShape | None = None
    explanation: str = ""
    advice: list[str] = field(default_factory=list)
    representative: str | None = None
    culprit: BisectShape | None = None
    release_culprit: BisectShape | None = None
    fix: BisectShape | None = None
    confirmed: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    same_culprit: list[str] = field(default_factory=list)
    attribution: AttributionRecord | None = None
    reproducer: str | None = None
    operations: int | None = None
    size: str | None = None
    remedies: list[Remedy] = field(default_factory=list)
    replays: dict[str, str] = field(default_factory=dict)
    issue: str | None = None
    steps: list[StepRecord] = field(default_factory=list)


@dataclass(frozen=True)
class LeftoverRecord(Shape):
    """A step that the budget did not allow, and the line that does it."""

    cluster: str
    case: str
    step: str
    reason: str
    command: str


@dataclass(frozen=True, kw_only=True)
class InvestigationRecord(Shape):
    """What an investigation took, and what is left."""

    budget_seconds: float | None = None
    seconds: float = 0.0
    left: list[LeftoverRecord] = field(default_factory=list)


@dataclass(frozen=True)
class SlowerShape(Shape):
    """A case whose compile takes `times` as much CPU time as on the baseline, at least `low` and at most `high` times as much.
    Both are null when there were too few compiles for an interval. `compiles`: of each toolchain, measured in turn.
    bisection: Where it became slower, with --bisect.
    """

    case: str
    times: float
    low: float | None
    high: float | None
    baseline_cpu_seconds: float
    cpu_seconds: float
    compiles: int
    bisection: BisectShape | None = None


@dataclass(frozen=True)
class ProgramShape(Shape):
    """A compiled program and its runs: the median time in seconds, kernels that it starts, size and most memory used."""

    median: float | None
    dispatches: int | None
    bytes: int | None
    peak_mb: float | None


@dataclass(frozen=True)
class RunTimeShape(Shape):
    """The run time of one function, new to baseline: `ratio` with its interval, and a verdict. reason: Why there is none;
    bisection: where it became slower, with --bisect.
    """

    case: str
    function: str | None
    baseline: ProgramShape
    new: ProgramShape
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str | None
    reason: str | None
    bisection: BisectShape | None = None


@dataclass(frozen=True, kw_only=True)
class NightRecord(Shape):
    """A night: a toolchain against a baseline.

    started: ISO 8601 in UTC, null in documents of schema 1. unlisted: Cases that are only counted, in documents of schema 1.
    stopped: Why it ended early, null when it is complete; not_compared: cases without a result on both toolchains.
    slower: Compiles; maybe_slower: those whose times vary too much, or that take too long, for a verdict. run_times: With
    --bench. shard: `1/4` for the first of four; positions: Of its cases among the `total` of all shards. scope: What bisects
    can search between both toolchains. strict: Unexpected passes fail the night; fail_on_slower: so does slower code.
    reports: Files by format.
    """

    schema: int = SCHEMA
    toolchain: Revision
    baseline: Revision
    compiler: str | None = None
    started: str | None = None
    seconds: float = 0.0
    compiles: int = 0
    cached: int = 0
    shard: str | None = None
    positions: dict[str, int] = field(default_factory=dict)
    total: int = 0
    scope: str | None = None
    cases: list[CaseRecord] = field(default_factory=list)
    clusters: list[ClusterRecord] = field(default_factory=list)
    investigation: InvestigationRecord | None = None
    slower: list[SlowerShape] = field(default_factory=list)
    maybe_slower: list[SlowerShape] = field(default_factory=list)
    run_times: list[RunTimeShape] = field(default_factory=list)
    unlisted: int = 0
    stopped: str | None = None
    not_compared: list[str] = field(default_factory=list)
    strict: bool = False
    fail_on_slower: bool = False
    reports: dict[str, str] = field(default_factory=dict)

    def of(self, *changes: str) -> list[CaseRecord]:
        """Return the cases with these kinds of change, in the order of the recipes."""
        return [case for case in self.cases if case.change in changes]

    def unexpected(self) -> list[str]:
        """Cases that pass on the new toolchain although a failure is expected there."""
        return [case.case for case in self.cases if case.status == Status.XPASS]

    def clusters_by_case(self) -> dict[str, ClusterRecord]:
        """Return the cluster of each case with a new failure, by the case's name."""
        return {name: cluster for cluster in self.clusters for name in cluster.cases}

    def stage_counts(self) -> dict[str, dict[str, int]]:
        """Return how many cases passed and failed each stage on the new toolchain, by stage."""
        counts: dict[str, dict[str, int]] = {}
        for case in self.cases:
            for stage in case.stages if case.status in (*PASSING, *FAILING) else ():
                failed = case.status in FAILING and stage == case.stage
                row = counts.setdefault(stage, {"passed": 0, "failed": 0})
                row["failed" if failed else "passed"] += 1
                if failed:
                    break
        return {stage: counts[stage] for stage in Stage if stage in counts}

    def suite_counts(self) -> dict[str, dict[str, int]]:
        """Return how many cases passed, failed and could not be tested on the new toolchain, by suite."""
        counts: dict[str, dict[str, int]] = {}
        for case in self.cases:
            row = counts.setdefault(case.suite, {"passed": 0, "failed": 0, "untestable": 0})
            row["passed" if case.status in PASSING else "failed" if case.status in FAILING else "untestable"] += 1
        return counts


def cluster_id(signature: str) -> str:
    """Return the id of a failure, the same in every night."""
    return blake2b(signature.encode("utf-8", "replace"), digest_size=6).hexdigest()


def failure_of(shape: FailureShape) -> Failure:
    """Convert a failure of a record back."""
    return Failure(
        shape.class_,
        shape.family,
        shape.signature,
        shape.headline,
        phase=shape.phase,
        failing_pass=shape.pass_,
        location=shape.location,
        details=dict(shape.details),
        stage=Stage(shape.stage),
    )


@cache
def _reader() -> TypeAdapter[NightRecord]:
    return TypeAdapter(NightRecord)


def night_of(document: Mapping[str, Any], name: str = "nightly.json") -> NightRecord:
    """Read the JSON of a night, of this schema or of schema 1, which lists only cases that are neither passing nor failing as
    before. Keys that this version does not know are ignored. name: of the document, for errors.

    Raises:
        BadInput: It is no night, or of a newer schema.
    """
    schema = document.get("schema", 1)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise BadInput(f"{name} has schema {schema}, this version reads up to {SCHEMA}: update triage")
    try:
        return _reader().validate_python(_from_first(document) if schema == 1 else document)
    except (ValidationError, KeyError, TypeError, AttributeError) as error:
        detail = error.errors()[0] if isinstance(error, ValidationError) else None
        where = (
            f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" if detail else f"a key is missing, or its value: {error}"
        )
        raise BadInput(f"{name} is not the JSON of a nightly: {where}") from error


def _from_first(old: Mapping[str, Any]) -> Json:
    """Convert a document of schema 1."""
    lists = ("regressed", "fixed", "changed", "known")
    cases = [_old_case(entry, change) for change in lists for entry in old[change]]
    cases += [
        _bare_case(entry["case"], CaseChangeKind.UNTESTABLE, Status.UNTESTABLE, entry["reason"]) for entry in old["not_tested"]
    ]
    listed = {case["case"] for case in cases}
    passes = [name for name in old.get("unexpected_passes", ()) if name not in listed]
    cases += [_bare_case(name, CaseChangeKind.UNEXPECTED_PASS, Status.XPASS, None) for name in passes]
    clusters = [
        {**cluster, "id": cluster_id(cluster["signature"]), **_old_example(old, cluster)} for cluster in old["clusters"]
    ]
    kept = (
        "toolchain",
        "baseline",
        "seconds",
        "compiles",
        "cached",
        "slower",
        "maybe_slower",
        "run_times",
        "stopped",
        "not_compared",
        "reports",
    )
    known: Json = {name: old[name] for name in kept if name in old}
    for name in ("slower", "maybe_slower"):
        known[name] = [row for row in old.get(name, ()) if "compiles" in row]  # older rows are single compiles
    return {**known, "schema": SCHEMA, "cases": cases, "clusters": clusters, "unlisted": old["unchanged"] - len(passes)}


def _old_case(entry: Mapping[str, Any], change: str) -> Json:
    new, baseline = _old_result(entry), _old_result(entry["baseline"])
    failure = entry["failure"]
    if new["status"] not in FAILING:
        new["failure"] = None  # schema 1 repeats the failure on the baseline
    return {
        **_bare_case(entry["case"], change, new["status"], None),
        **new,
        "recipe": entry["recipe"],
        "suite": _suite(entry["case"], entry["recipe"]),
        "baseline_status": baseline["status"],
        "baseline": baseline,
        "cluster": cluster_id(failure["signature"]) if new["failure"] else None,
        "bisections": entry.get("bisections", []),
    }


def _old_result(entry: Mapping[str, Any]) -> Json:
    failure = entry["failure"] and {"stage": Stage.COMPILE, **entry["failure"]}
    times = {"compile_seconds": entry["seconds"], "cpu_seconds": entry["cpu_seconds"], "peak_rss_mb": entry["peak_rss_mb"]}
    stage = failure["stage"] if failure and entry["status"] in FAILING else None
    kept = {name: entry[name] for name in ("status", "reason", "flaky", "cached", "warnings") if name in entry}
    return {**kept, "failure": failure, "stage": stage, "metrics": {**times, **entry.get("metrics", {})}}


def _bare_case(name: str, change: str, status: str, reason: str | None) -> Json:
    recipe = name.partition("[")[0]
    unknown = {"status": Status.UNTESTABLE, "reason": "not recorded"}
    return {
        "case": name,
        "recipe": recipe,
        "suite": "",
        "compiler": "",
        "change": change,
        "status": status,
        "reason": reason,
        "baseline_status": Status.UNTESTABLE,
        "baseline": unknown,
    }


def _old_example(old: Mapping[str, Any], cluster: Mapping[str, Any]) -> Json:
    """The reduction of a cluster, which schema 1 has at each case."""
    cases: Iterable[Mapping[str, Any]] = (case for case in old["regressed"] if case["case"] in cluster["cases"])
    example = next((case["example"] for case in cases if case.get("example")), None)
    if example is None:
        return {}
    step = {"step": "reduce", "status": "failed" if example["reason"] else "done", "reason": example["reason"]}
    return {
        "representative": example["case"],
        "reproducer": example["reproducer"],
        "operations": example["operations"],
        "steps": [step],
    }


def _suite(case: str, recipe: str) -> str:
    return recipe if case.partition("[")[0] != recipe else ""
