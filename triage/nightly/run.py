"""Run a nightly: compare all cases on both toolchains, then measure, bisect and
investigate. What is known is reported after each part, so that the reports are complete
whenever the run is stopped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from triage.bisect.result import Bisection
from triage.compilers.invocation import readable_output
from triage.compilers.registry import family_title
from triage.execution.benchmark import Benchmark
from triage.execution.engine import Engine
from triage.execution.in_turn import Pace
from triage.execution.plan import input_hash, last_execution
from triage.execution.task import ProbeJob
from triage.investigate.result import CaseResult, text_id
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import FAILING, MACHINE_CAUSES, Cause, NoAnswer, Probe
from triage.nightly.compare import (
    EarlierNights,
    case_result,
    clusters_of,
    with_earlier_nights,
    with_owners,
)
from triage.nightly.result import SCHEMA, Night, TimeChange
from triage.nightly.store import LARGEST_FILE
from triage.processes.sealing import is_sealing
from triage.toolchains.home import path_from_here, save_file
from triage.toolchains.project import OwnerRule
from triage.toolchains.registry import ToolchainRef

if TYPE_CHECKING:  # most nights investigate nothing
    from triage.investigate.investigation import Investigation
    from triage.reduce.reproducer import Reproducer

_SECONDS = 60.0  # for which each probe of a slower run is measured


@dataclass
class NightRun:
    """A nightly in progress."""

    engine: Engine
    cases: Sequence[Case]
    toolchain: ToolchainRef
    baseline: ToolchainRef
    earlier: EarlierNights
    shard: str | None = None
    strict: bool = False
    repo: Path | None = None
    """A clone of the compiler."""
    bisects: bool = False
    reduces: bool = False
    investigates: bool = False
    budget: float | None = None
    """Seconds for all investigations."""
    bench: float | None = None
    """Seconds in which each run is measured."""
    owners: Sequence[OwnerRule] = ()
    out: Path | None = None
    """The folder of logs, reproducers and reports, if they are written."""
    write_reproducer: Callable[[Reproducer], Path] | None = None
    """Writes the folder of a reproducer."""
    write: Callable[[Night, Path], Night] = lambda night, _: night
    """Writes the reports of a night into a folder."""
    investigation: Investigation | None = None
    """The investigation of the new failures, once it has begun."""
    _results: dict[str, CaseResult] = field(default_factory=dict)
    _times: list[TimeChange] = field(default_factory=list)
    _cached: int = 0
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

    def run(self) -> Night:
        """Do everything; return the finished night."""
        self.compare()
        if self.bench:
            self.report()
            self._time_runs(self.bench)
        if self.bisects or self.reduces or self.investigates:
            self.report()
            self.investigate()
        return self.report()

    def report(self, stopped: str | None = None) -> Night:
        """Write what is known. stopped: why the run ends early."""
        if self.out is None:
            return self.night(stopped)
        self._write_logs(self.out)
        return self.write(self.night(stopped), self.out)

    def night(self, stopped: str | None = None) -> Night:
        """Return what is known."""
        names = list(self.cases_by_name)
        cases = [self._results[name] for name in names if name in self._results]
        clusters = clusters_of(cases)
        if self.investigation:
            clusters = self.investigation.records()
        old, new = map(self.engine.registry.revision, self.refs)
        compiler = next((case.compiler for case in self.cases), None)
        return Night(
            schema=SCHEMA,
            toolchain=new,
            baseline=old,
            kind=self.toolchain.kind,
            compiler=compiler,
            title=family_title(compiler),
            started=self._started.isoformat(timespec="seconds"),
            seconds=round((datetime.now(UTC) - self._started).total_seconds(), 2),
            compiles=self.engine.compiles,
            cached=self._cached,
            shard=self.shard,
            cases=cases,
            clusters=with_owners(cases, clusters, self.owners),
            times=list(self._times),
            stopped=stopped,
            planned=names,
            strict=self.strict,
            sealed=is_sealing(),
        )

    def compare(self) -> None:
        """Probe every case on both toolchains and compare the probes."""
        jobs = [ProbeJob(case, ref) for ref in self.refs for case in self.cases]
        probes = defaultdict[str, dict[str, Probe]](dict)
        for probe in self.engine.probe_all(jobs, "nightly"):
            name = probe.case.name
            kind = self.toolchain.kind
            self._cached += probe.cached
            probes[name][probe.revision.name] = probe
            if len(probes[name]) == len(self.refs):
                old, new = (probes[name][ref.revision.name] for ref in self.refs)
                source = str(path_from_here(probe.case.source))
                result = case_result(old, new, source, self._input_hash(new))
                self._results[name] = with_earlier_nights(result, kind, self.earlier)

    def _input_hash(self, probe: Probe) -> str:
        if probe.outcome.cause in MACHINE_CAUSES:
            return ""
        toolchain = self.engine.registry.obtain(self.toolchain)
        return input_hash(self.engine.inputs, probe.case, toolchain)

    def _write_logs(self, out: Path) -> None:
        """Write the output of each failure on the new toolchain that has no file
        yet.
        """
        folder = f"logs/{_file_name(self.toolchain.revision.name)}"
        for name, result in self._results.items():
            if result.log or result.status not in FAILING:
                continue
            toolchain = self.engine.registry.obtain(self.toolchain)
            recorded = last_execution(self.engine, self.cases_by_name[name], toolchain)
            if recorded is None:
                continue
            _, execution = recorded
            text = readable_output(execution.stdout.text + execution.stderr.text)
            if text.strip():
                path = f"{folder}/{_file_name(name)}.log"
                content = text.encode("utf-8", "replace")[-LARGEST_FILE:]
                save_file(out / path, content, "write a log")
                self._results[name] = replace(result, log=path)

    def _time_runs(self, budget: float) -> None:
        """Measure the run times of the cases that are run or name functions to measure.

        budget: seconds for each case.
        """
        for name, result in self._results.items():
            case = self.cases_by_name[name]
            passes = result.passed and result.baseline.passed
            if passes and (case.benchmarks or case.run):
                old, new = (ProbeJob(case, ref) for ref in self.refs)
                benchmark = Benchmark((old, new))
                benchmark.measure(self.engine, budget)
                self._times += _time_changes(benchmark)
                rows = list(benchmark.rows(new).values())
                if len(rows) == 1 and rows[0].median is not None:
                    metrics = {**result.metrics, "run_seconds": rows[0].median}
                    self._results[name] = replace(result, metrics=metrics)

    def investigate(self) -> None:
        """Find what made programs slower, and do the steps for each new failure."""
        from triage.investigate.investigation import STEPS, Investigation

        if self.bisects:
            self._bisect_slower()
        wanted = {
            "bisect": self.bisects,
            "narrow": self.bisects and self.repo is not None,
            "confirm": self.bisects,
            "reduce": self.reduces,
        }
        steps = [name for name in STEPS if self.investigates or wanted.get(name)]
        investigation = Investigation(
            self.engine,
            self.refs,
            self.cases_by_name,
            steps,
            self.repo,
            self.write_reproducer,
            self.budget,
        )
        night = self.night()
        for cluster in night.clusters:
            investigation.add_cluster(cluster, night.cases)
        self.investigation = investigation
        for _ in investigation.run():
            self.report()

    def _bisect_slower(self) -> None:
        """Bisect what made functions run slower. A candidate whose interval reaches the
        threshold is never named.
        """
        from triage.bisect.line import BisectRequest
        from triage.bisect.releases import bisect_between, metric_request, rev_text

        ends = rev_text(self.baseline), rev_text(self.toolchain)
        seconds = self.bench or _SECONDS
        for index, row in enumerate(self._times):
            if row.verdict is not Pace.SLOWER:
                continue
            case = self.cases_by_name[row.case]
            request = BisectRequest(self.engine, case, self.repo)
            metric = f"run_seconds:{row.function or ''}"
            try:
                with metric_request(request, *ends, metric, None, seconds) as measured:
                    bisection = bisect_between(measured, *ends)
            except BadInput as error:  # such as two that do not differ any more
                why = NoAnswer(Cause.NOT_FOUND, str(error))
                bisection = Bisection(case.name, unanswered=why)
            self._times[index] = replace(row, bisection=bisection)


def _time_changes(benchmark: Benchmark) -> Iterator[TimeChange]:
    """Yield the times of each function on both toolchains."""
    old, new = map(benchmark.rows, benchmark.configurations)
    for function, series in (old | new).items():
        before = old.get(function, series)
        problems = [
            f"{row.configuration.ref.revision.name}: {row.reason}"
            for row in (before, series)
            if row.problem
        ]
        yield TimeChange(
            case=series.case,
            function=function or None,
            baseline_seconds=before.median,
            seconds=series.median,
            ratio=series.change,
            verdict=None if problems else series.verdict,
            reason=next(iter(problems), None),
        )


def _file_name(text: str) -> str:
    """Return a text as the name of a file, which no other text has."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[-100:]
    if name == text:
        return name
    return f"{name}-{text_id(text)}"
