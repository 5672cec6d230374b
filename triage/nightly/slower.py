"""Reduce the programs that a night measured as slower, so that its report has small
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from triage.bisect.metric import MetricChoice
from triage.bisect.metric_ratio import engine_with_ratio
from triage.execution.match import same_signature
from triage.execution.metric import Metric
from triage.investigate.steps import do_step
from triage.model.case import Case
from triage.model.outcome import NoAnswer
from triage.nightly.result import TimeChange
from triage.nightly.run import NightRun
from triage.reduce.baseline import ReductionRequest
from triage.reduce.reproducer import Reproducer, reproducer_of
from triage.reduce.workflow import reduce_case

_SECONDS = 600.0  # for each program; the next night goes on where it stopped


@dataclass
class SlowerReductions:
    """The reductions of a night's slower programs."""

    run: NightRun
    out: Path
    """Folder of the reports."""
    budget: float
    """Seconds to measure each candidate for."""
    write_reproducer: Callable[[Reproducer, Path], Path]
    """Writes a folder below another one."""
    _seen: set[str] = field(default_factory=set)

    def reduce(self, case: Case, row: TimeChange) -> TimeChange:
        """Reduce the program of a time while it stays slower than on the baseline.

        Only the first time of a case: its reproducer has the name of the case.
        """
        if case.name in self._seen:
            return row
        self._seen.add(case.name)
        do = partial(self._reduced, case, row)
        spent = f"{_SECONDS:.0f} s are over; the next night continues"
        path, step = do_step(self.run.engine, "reduce", _SECONDS, do, spent)
        return replace(row, reproducer=path, not_reduced=step.reason or None)

    def _reduced(self, case: Case, row: TimeChange) -> str | NoAnswer:
        run, metric = self.run, Metric.RUN_SECONDS
        if row.measured == "compile":
            metric = Metric.CPU_SECONDS
        choice = MetricChoice(metric, self.budget, row.function or "")
        request = ReductionRequest(
            case, run.toolchain, run.baseline, same_signature, resume=True
        )
        with engine_with_ratio(run.engine, case, run.refs, choice) as judging:
            found = reduce_case(judging, request)
        if found.unanswered is not None:
            return found.unanswered
        reproducer = reproducer_of(run.engine, found, run.toolchain)
        folder = self.write_reproducer(reproducer, self.out / "reproducers")
        return f"reproducers/{folder.name}"
