"""Run a nightly: probe every case on both toolchains, compare the results, and measure
and bisect times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.invocation import readable_output
from triage.execution.benchmark import Benchmark, Configuration, Series
from triage.execution.engine import Engine
from triage.execution.in_turn import Pace
from triage.execution.judge import result_of
from triage.execution.number_judge import Metric, NumberJudge, compile_sampler
from triage.execution.task import ProbeJob
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    ClusterKey,
    FailureCluster,
    text_id,
)
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import (
    FAILING,
    OF_MACHINE,
    PASSING,
    Cause,
    NoAnswer,
    Probe,
    Status,
)
from triage.model.probe_result import ProbeResult
from triage.model.revision import ToolchainKind
from triage.nightly.history import NightsHistory, history_of
from triage.nightly.result import SCHEMA, Night, TimeChange
from triage.nightly.store import LARGEST_FILE
from triage.nightly.stored_night import track_of
from triage.processes.sealing import is_sealing
from triage.recipes.expectations import expectation_for
from triage.toolchains.home import below_here, save_file
from triage.toolchains.registry import ToolchainRef

if TYPE_CHECKING:  # most nights investigate nothing
    from triage.investigate.investigation import Investigation
    from triage.investigate.origin import OriginFinder

EarlierNights = Callable[[], NightsHistory]
LONG_COMPILE = 3.0  # seconds of CPU time; shorter compiles are not measured again
_GROWTH = 1.5  # the least ratio to the baseline's compile that is measured again
_TIMED_COMPILES = 3  # so many cases, those that grew most
_SLOWER = 1.25  # a compile is slower whose whole interval is above


@dataclass
class NightRun:
    """A nightly in progress. `night` is what is known so far, so that it can be
    reported whenever the run is stopped.
    """

    engine: Engine
    cases: Sequence[Case]
    toolchain: ToolchainRef
    baseline: ToolchainRef
    shard: str | None = None
    strict: bool = False
    earlier: EarlierNights = field(default=lambda: history_of([]))
    """Reads the stored nights."""
    phase: str = "comparison"
    """The current phase, which a partial report names."""
    _probes: dict[tuple[str, str], Probe] = field(default_factory=dict)
    """By case and revision."""
    _results: dict[str, CaseResult] = field(default_factory=dict)
    _times: list[TimeChange] = field(default_factory=list)
    _started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        """Raises BadInput when both toolchains are the same."""
        name = self.baseline.revision.name
        if self.toolchain.revision.name == name:
            raise BadInput(
                f"toolchain and baseline are both {name}; name two different revisions"
            )

    @property
    def refs(self) -> tuple[ToolchainRef, ToolchainRef]:
        """The baseline and the new toolchain."""
        return self.baseline, self.toolchain

    @cached_property
    def cases_by_name(self) -> dict[str, Case]:
        return {case.name: case for case in self.cases}

    def night(self, stopped: str | None = None) -> Night:
        """Return what is known. `stopped`: why the run ended early."""
        revisions = {name: probe.revision for (_, name), probe in self._probes.items()}
        old, new = (revisions.get(ref.revision.name, ref.revision) for ref in self.refs)
        names = list(self.cases_by_name)
        results = [self._results[name] for name in names if name in self._results]
        return Night(
            schema=SCHEMA,
            toolchain=new,
            baseline=old,
            kind=self.toolchain.kind,
            compiler=next((case.compiler for case in self.cases), None),
            started=self._started.isoformat(timespec="seconds"),
            seconds=round((datetime.now(UTC) - self._started).total_seconds(), 2),
            compiles=self.engine.compiles,
            cached=sum(probe.cached for probe in self._probes.values()),
            shard=self.shard,
            cases=results,
            clusters=clusters_of(results),
            times=list(self._times),
            stopped=f"{stopped} during the {self.phase}" if stopped else None,
            not_compared=[name for name in names if name not in self._results],
            planned=names if self.shard else [],
            strict=self.strict,
            sealed=is_sealing(),
        )

    def compare(self) -> None:
        """Probe every case on both toolchains and compare the probes."""
        jobs = [ProbeJob(case, ref) for ref in self.refs for case in self.cases]
        for probe in self.engine.probe_all(jobs, "nightly"):
            name = probe.case.name
            self._probes[name, probe.revision.name] = probe
            old, new = (
                self._probes.get((name, ref.revision.name)) for ref in self.refs
            )
            if old and new:
                result = replace(case_result(old, new), input=self._input_of(new))
                self._results[name] = result
        kind = self.toolchain.kind
        for name, result in self._results.items():
            self._results[name] = with_earlier_nights(result, kind, self.earlier)

    def _input_of(self, probe: Probe) -> str:
        if probe.outcome.cause in OF_MACHINE:
            return ""
        toolchain = self.engine.registry.obtain(self.toolchain)
        return self.engine.planner.input_hash(probe.case, toolchain)

    def write_logs(self, out: Path) -> None:
        """Write the output of each failure on the new toolchain that has no file
        yet.
        """
        folder = f"logs/{_file_name(self.toolchain.revision.name)}"
        for name, result in self._results.items():
            if result.log or result.status not in FAILING:
                continue
            toolchain = self.engine.registry.obtain(self.toolchain)
            recorded = self.engine.last_execution(self.cases_by_name[name], toolchain)
            if recorded is None:
                continue
            _, execution = recorded
            text = readable_output(execution.stdout.text + execution.stderr.text)
            if text.strip():
                path = f"{folder}/{_file_name(name)}.log"
                content = text.encode("utf-8", "replace")[-LARGEST_FILE:]
                save_file(out / path, content, "write a log")
                self._results[name] = replace(result, log=path)

    def time_compiles(self) -> None:
        """Compile the cases in turn whose compiles took much longer than on the
        baseline, and keep those that are slower.
        """
        self.phase = "compile times"
        growth = {
            name: result.cpu_seconds / result.baseline.cpu_seconds
            for name, result in self._results.items()
            if result.passes_on_both
            and result.cpu_seconds >= LONG_COMPILE
            and result.cpu_seconds >= _GROWTH * result.baseline.cpu_seconds > 0
        }
        names = sorted(growth, key=lambda name: -growth[name])
        for name in names[:_TIMED_COMPILES]:
            case, metric = self.cases_by_name[name], Metric("cpu_seconds")
            measure = partial(compile_sampler, self.engine, metric)
            judge = NumberJudge(metric, self.baseline, _SLOWER, measure, case, 0)
            measured = judge.compare(case, self.toolchain)
            if not isinstance(measured, NoAnswer) and measured[0].low > _SLOWER:
                ratio, old, new = measured
                times = TimeChange(
                    case=name,
                    measured="compile",
                    baseline_seconds=old,
                    seconds=new,
                    ratio=ratio,
                    verdict=Pace.SLOWER,
                )
                self._times.append(times)

    def bench(self, budget: float) -> None:
        """Measure the run times of the cases that are run or name functions to measure.

        budget: seconds for each case.
        """
        self.phase = "run times"
        for name, result in self._results.items():
            case = self.cases_by_name[name]
            if result.passes_on_both and (case.benchmarks or case.run):
                old, new = (Configuration(case, ref) for ref in self.refs)
                benchmark = Benchmark((old, new), old)
                benchmark.measure(self.engine, budget)
                self._times += _times_of(benchmark)
                metrics = {**result.metrics, **_metrics_of(benchmark.rows(new))}
                self._results[name] = replace(result, metrics=metrics)

    def bisect_slower(self, finder: OriginFinder, budget: float) -> None:
        """Find what made programs slower. budget: seconds to measure each candidate."""
        self.phase = "bisects"
        for place, row in enumerate(self._times):
            if row.verdict is Pace.SLOWER:
                case = self.cases_by_name[row.case]
                function = None if row.measured == "compile" else row.function or ""
                bisection = finder.find_slower(case, function, budget)
                self._times[place] = replace(row, bisection=bisection)


def _times_of(benchmark: Benchmark) -> Iterator[TimeChange]:
    """Yield the times of each function on both toolchains."""
    old, new = map(benchmark.rows, benchmark.configurations)
    for function, series in (old | new).items():
        before = old.get(function, series)
        times = TimeChange(
            case=series.case,
            function=function or None,
            baseline_seconds=before.median,
            seconds=series.median,
            ratio=series.change,
            verdict=series.verdict,
        )
        for row in (before, series):
            if row.problem:
                name = row.configuration.ref.revision.name
                times = replace(times, verdict=None, reason=f"{name}: {row.reason}")
        yield times


def _metrics_of(rows: Mapping[str, Series]) -> Mapping[str, float]:
    """Return the metrics of a program, if it has one function only."""
    if len(rows) != 1:
        return {}
    [series] = rows.values()
    dispatches = series.program.dispatches if series.program else None
    values = {"run_seconds": series.median, "dispatches": dispatches}
    return {name: value for name, value in values.items() if value is not None}


def _file_name(text: str) -> str:
    """Return a text as the name of a file, which no other text has."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[-100:]
    if name == text:
        return name
    return f"{name}-{text_id(text)}"


def change_between(baseline: ProbeResult, new: ProbeResult) -> CaseChangeKind:
    """Return how a case changed. A failure that the recipe expects at this version is
    known, not a regression.
    """
    if new.status is Status.UNTESTABLE:
        return CaseChangeKind.UNTESTABLE
    if new.status is Status.XFAIL:
        return CaseChangeKind.KNOWN
    if new.status in PASSING:
        if baseline.status in FAILING:
            return CaseChangeKind.FIXED
        if new.status is Status.XPASS:
            return CaseChangeKind.UNEXPECTED_PASS
        if baseline.status is Status.UNTESTABLE:
            return CaseChangeKind.UNTESTABLE
        return CaseChangeKind.PASSING
    if baseline.status is Status.UNTESTABLE:
        # a baseline that is not there says nothing about any case
        if baseline.cause in (*OF_MACHINE, Cause.INTERNAL):
            return CaseChangeKind.UNTESTABLE
        return CaseChangeKind.NEW_UNTESTED
    if baseline.status in PASSING:
        return CaseChangeKind.REGRESSED
    old_signature, new_signature = (
        result.failure and result.failure.signature for result in (baseline, new)
    )
    if old_signature == new_signature:
        return CaseChangeKind.FAILING
    return CaseChangeKind.CHANGED


def with_earlier_nights(
    result: CaseResult, kind: ToolchainKind, earlier: EarlierNights
) -> CaseResult:
    """Return a result as the nights before it see it: a case that changes without its
    compiler is flaky, and a failure that an earlier night had is known where the
    baseline could not be tested.
    """
    if not (result.is_new_failure or result.change is CaseChangeKind.FIXED):
        return result
    if result.flaky or result.baseline.flaky or earlier().is_flaky(result.case):
        return replace(result, change=CaseChangeKind.FLAKY)
    if result.change is CaseChangeKind.NEW_UNTESTED and result.failure:
        track, name = track_of(result, kind), result.case
        if earlier().is_known(track, name, result.failure, result.toolchain):
            return replace(result, change=CaseChangeKind.KNOWN)
    return result


def case_result(baseline: Probe, new: Probe) -> CaseResult:
    """Return the result of one case of a night."""
    case, old, result = new.case, result_of(baseline), result_of(new)
    expectation = None
    if case.expect:
        expectation = expectation_for(case, new.version, result.failure)
    return CaseResult(
        **vars(result),
        suite=suite_of(case),
        compiler=case.compiler,
        summary=case.summary,
        source=str(below_here(case.source)),
        target=case.target,
        stages=list(case.stages),
        change=change_between(old, result),
        baseline=old,
        issue=expectation.issue if expectation else None,
    )


def with_investigation(night: Night, investigation: Investigation) -> Night:
    """Return a night with what an investigation of its clusters knows so far."""
    clusters = investigation.records()
    cases = {case.case: case for case in night.cases}
    for cluster in clusters:
        origins = [origin for origin in (cluster.culprit, cluster.fix) if origin]
        for name in filter(None, (cluster.representative, *cluster.confirmed)):
            cases[name] = replace(cases[name], bisections=origins)
    return replace(
        night,
        cases=list(cases.values()),
        clusters=clusters,
        investigation=investigation.summary,
    )


def clusters_of(cases: Iterable[CaseResult]) -> list[FailureCluster]:
    """Return a cluster for each new failure, the most frequent first."""
    groups: dict[ClusterKey, list[CaseResult]] = {}
    for case in cases:
        if case.is_new_failure and case.failure:
            groups.setdefault(case.key_of(case.failure), []).append(case)
    clusters = [
        key.cluster([case.case for case in members], members[0].failure)
        for key, members in groups.items()
    ]
    return sorted(clusters, key=lambda cluster: (-len(cluster.cases), cluster.key))


def suite_of(case: Case) -> str:
    """Return the suite of a case: the recipe or config that many cases come from, else
    the recipe's folder.
    """
    if case.name.partition("[")[0] == case.recipe:
        return case.source.absolute().parent.name
    return case.recipe
