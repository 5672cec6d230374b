"""Run a nightly: probe every case on both toolchains, compare, bisect regressions."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.execution.statistics import Pace
from triage.model.case import Case
from triage.model.errors import BadInput, TriageError
from triage.model.outcome import Failed, Probe
from triage.nightly.compare import CaseChangeKind, Night, Pair, RunTimes, pair_up
from triage.nightly.origin import OriginFinder, finder_between
from triage.nightly.times import compile_times, run_times
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.registry import ToolchainRef


@dataclass
class NightRun:
    """A nightly in progress. `night` is what is known so far, so that it can be reported whenever the run is stopped.

    phase: what is being done; after: number of the last cached result to ignore; fail_on_slower, shard, strict, scope,
    positions, total: as in `Night`; is_flaky: whether earlier nights show that a case is flaky.
    """

    runner: ProbeRunner
    cases: Sequence[Case]
    toolchain: ToolchainRef
    baseline: ToolchainRef
    after: int = 0
    fail_on_slower: bool = False
    shard: str | None = None
    strict: bool = False
    is_flaky: Callable[[str], bool] = lambda _: False
    phase: str = "comparison"
    scope: str | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    _probes: list[Probe] = field(default_factory=list)
    _pairs: tuple[Pair, ...] | None = None  # None until every case is compared
    _logs: dict[tuple[str, str], str] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)
    _started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        """Raises BadInput when both toolchains are the same."""
        if self.toolchain.revision.name == self.baseline.revision.name:
            name = self.baseline.revision.name
            raise BadInput(f"toolchain and baseline are both {name}; name two different revisions")

    def night(self, stopped: str | None = None) -> Night:
        """Return what is known. `stopped`: why the run ended early."""
        toolchain, baseline = self.toolchain.revision, self.baseline.revision
        names = [case.name for case in self.cases]
        pairs = self._pairs if self._pairs is not None else pair_up(self._probes, toolchain.name, baseline.name, names)
        revisions = {probe.revision.name: probe.revision for probe in self._probes}
        known = {pair.name for pair in pairs}
        return Night(
            toolchain=revisions.get(toolchain.name, toolchain),
            baseline=revisions.get(baseline.name, baseline),
            pairs=pairs,
            seconds=time.monotonic() - self._started,
            compiles=self.runner.compiles,
            cached=sum(probe.cached for probe in self._probes),
            stopped=f"{stopped} during the {self.phase}" if stopped else None,
            not_compared=tuple(name for name in names if name not in known),
            fail_on_slower=self.fail_on_slower,
            strict=self.strict,
            started=self._started_at.isoformat(timespec="seconds"),
            shard=self.shard,
            positions=self.positions,
            total=self.total,
            scope=self.scope,
        )

    def compare(self) -> None:
        """Probe every case on both toolchains and pair the probes; measure the compiles again that took much longer."""
        refs = self.baseline, self.toolchain
        for probe in self.runner.probe_all(
            [ProbeJob(case, ref, after=self.after) for ref in refs for case in self.cases], "nightly"
        ):
            self._probes.append(probe)
        self._pairs = self.night().pairs
        self._replace_pairs(self._steady)
        self._replace_pairs(
            lambda pair: (
                replace(pair, compiles=compile_times(self.runner, pair.probe.case, *refs)) if pair.is_suspicious else pair
            )
        )

    def write_logs(self, out: Path) -> Mapping[tuple[str, str], str]:
        """Write the output of each failure that has no file yet; return all paths below the folder by case and revision."""
        refs = {ref.revision.name: ref for ref in (self.baseline, self.toolchain)}
        for probe in self._probes:
            key = probe.case.name, probe.revision.name
            if key in self._logs or not isinstance(probe.outcome, Failed):
                continue
            text = self.runner.prober.output(probe.case, self.runner.registry.obtain(refs[probe.revision.name]))
            if not text:
                continue
            stem = f"logs/{_file_name(probe.revision.name)}/{_file_name(probe.case.name)}"
            numbers = (f"-{number}" if number > 1 else "" for number in count(1))
            self._logs[key] = next(path for number in numbers if (path := f"{stem}{number}.log") not in self._logs.values())
            with disk_errors("write a log"):
                write_whole(out / self._logs[key], text)
        return self._logs

    def _steady(self, pair: Pair) -> Pair:
        """Return a pair whose change is flaky where a result, or the case in earlier nights, changed with nothing changed."""
        if pair.change not in (CaseChangeKind.REGRESSED, CaseChangeKind.CHANGED, CaseChangeKind.FIXED):
            return pair
        jobs = [ProbeJob(pair.probe.case, ref) for ref in (self.baseline, self.toolchain)]
        is_flaky = any(map(self.runner.is_unsteady, jobs)) or self.is_flaky(pair.name)
        return replace(pair, change=CaseChangeKind.FLAKY) if is_flaky else pair

    def bench(self, threshold: float, budget: float) -> None:
        """Measure the run times of the cases that are run or name functions to measure.

        threshold: the smallest change that counts; budget: seconds for each case.
        """
        self.phase = "run times"
        refs = self.baseline, self.toolchain

        def measured(pair: Pair) -> Pair:
            case = pair.probe.case
            if not pair.compiles_on_both or not (case.benchmarks or case.run):
                return pair
            return replace(pair, runs=run_times(self.runner, case, *refs, threshold=threshold, budget=budget))

        self._replace_pairs(measured)

    def finder(self, repo: Path | None = None, project_file: Path | None = None) -> OriginFinder:
        """Return what bisects cases between both toolchains. repo: a clone of the compiler, to search its commits."""
        finder = finder_between(self.runner, self.cases[0], self.baseline, self.toolchain, repo, project_file)
        self.scope = finder.scope
        return finder

    def bisect(self, finder: OriginFinder, budget: float = 60.0) -> None:
        """Find what introduced each regression, slower compile and slower run. budget: seconds to measure each candidate."""
        self.phase = "bisects"

        def traced(pair: Pair) -> Pair:
            case, compiles = pair.probe.case, pair.compiles
            if pair.is_new_failure:
                origins = self._guarded(case, lambda: [origin.bisection for origin in finder.find(case, pair.changed)])
                return replace(pair, bisections=tuple(origins))
            if compiles and compiles.pace is Pace.SLOWER:
                [origin] = self._guarded(case, lambda: [finder.find_slower(case, None, budget)])
                pair = replace(pair, compiles=replace(compiles, bisection=origin))
            return replace(pair, runs=tuple(traced_run(case, row) for row in pair.runs))

        def traced_run(case: Case, row: RunTimes) -> RunTimes:
            if row.pace is not Pace.SLOWER:
                return row
            [origin] = self._guarded(case, lambda: [finder.find_slower(case, row.new.function, budget)])
            return replace(row, bisection=origin)

        self._replace_pairs(traced)

    def _guarded(self, case: Case, bisect: Callable[[], list[Bisection]]) -> list[Bisection]:
        """Bisect one case. A defect of this program leaves that case without an answer, and the others with theirs."""
        try:
            return bisect()
        except (TriageError, OSError):
            raise
        except Exception as error:
            why = self.runner.internal_error(f"the bisect of {case.name}", error)
            return [Bisection(case, BisectKind.REGRESSION, Answer.INCONCLUSIVE, reason=why.reason, cause=why.cause)]

    def _replace_pairs(self, change: Callable[[Pair], Pair]) -> None:
        """Replace each pair as soon as the new one is known."""
        pairs = list(self._pairs or ())
        for index, pair in enumerate(pairs):
            pairs[index] = change(pair)
            self._pairs = tuple(pairs)


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[-100:] or "case"
