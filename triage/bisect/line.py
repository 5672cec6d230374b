"""A line of revisions and all probes of them. Searches read it, and only it probes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from triage.bisect.candidates import BisectRange, suspect_of
from triage.bisect.prior import Clues
from triage.bisect.request import BisectRequest
from triage.bisect.result import Suspect
from triage.bisect.walk import middles_of_changes, state_of
from triage.execution.task import ProbeJob
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Probe,
)
from triage.model.revision import Revision

COME_AND_GO = ("crash", "out-of-memory", "timeout", "runaway-output", "metric")
"""Families of failures that may."""
_MOST_WITHOUT_COMPILER = 5  # candidates in a row, before the search gives up


@dataclass
class Line:
    """Candidates, oldest first, with their probes."""

    request: BisectRequest
    range: BisectRange
    probes: dict[int, list[Probe]] = field(default_factory=lambda: defaultdict(list))
    log: list[tuple[int, Probe]] = field(default_factory=list)
    """The probes in order."""
    rounds: int = 0
    started: float = field(default_factory=time.monotonic)
    stopped: NoAnswer | None = None
    """Why no more can be probed."""

    def __len__(self) -> int:
        return len(self.range.candidates)

    def name(self, index: int) -> str:
        return self.range.candidates[index].revision.name

    def revision(self, index: int) -> Revision:
        """Return a revision with the commit that its toolchain reports."""
        revision = self.range.candidates[index].revision
        if revision.commit is None and self.probes[index]:
            return self.probes[index][-1].revision
        return revision

    def change(self, index: int) -> Suspect:
        """Return what may have brought the change if it is between the candidate before
        this one and this one.
        """
        if self.range.is_of_commits:
            commit = self.range.candidates[index].commits[0]
            return suspect_of(commit, self.range.links)
        return Suspect(**asdict(self.revision(index)))

    def outcomes(self, index: int) -> list[Outcome]:
        return [probe.outcome for probe in self.probes[index]]

    def outcome(self, index: int) -> Outcome:
        """Return the last outcome of a candidate, which is probed first if it never
        was.
        """
        if not self.probes[index]:
            self.probe({index: 1})
        return self.probes[index][-1].outcome

    def seen(self, kind: type[Outcome]) -> list[int]:
        """Return the candidates that were probed and ended so, each time alike."""
        last = {
            index: probes[-1].outcome for index, probes in self.probes.items() if probes
        }
        return [
            index
            for index in sorted(last)
            if isinstance(last[index], kind) and not last[index].flaky
        ]

    def comes_and_goes(self) -> bool:
        """Whether a failure was seen that is of a family whose failures may."""
        outcomes = [probe.outcome for _, probe in self.log]
        failures = [
            outcome.failure for outcome in outcomes if isinstance(outcome, Failed)
        ]
        return any(failure.family in COME_AND_GO for failure in failures)

    def seconds(self) -> list[float]:
        """Return the time to obtain each candidate and to compile the case."""
        compile_seconds = [probe.measured.seconds for _, probe in self.log]
        longest = max(compile_seconds, default=0.0)
        return [candidate.seconds + longest for candidate in self.range.candidates]

    def probe(self, counts: Mapping[int, int]) -> None:
        """Probe candidates at once, each `counts[index]` times.

        Only a first probe may come from the result cache. Sets `stopped` if no compiler
        can be obtained.
        """
        index_of = {}
        jobs = []
        for index, times in counts.items():
            ref = self.range.candidates[index].ref
            index_of[ref.revision.name] = index
            for number in range(times):
                again = number > 0 or bool(self.probes[index])
                jobs.append(ProbeJob(self.request.case, ref, fresh=again))
        if not jobs:
            return
        self.rounds += 1
        what = f"bisect {self.request.case.name}"
        for probe in self.request.engine.probe_all(jobs, what):
            index = index_of[probe.revision.name]
            self.probes[index].append(probe)
            self.log.append((index, probe))
            has_run = probe.measured.seconds > 0
            if probe.outcome.cause is Cause.ENVIRONMENT and not has_run:
                why = f"{probe.revision.name}: {probe.outcome.reason}"
                self.stopped = NoAnswer(Cause.ENVIRONMENT, why)
        self._stop_without_compilers()

    def walk(self, wanted: Iterable[int]) -> None:
        """Probe some candidates, then the middle of each gap whose ends differ, until
        none is left.
        """
        while new := [index for index in wanted if not self.probes[index]]:
            self.probe(dict.fromkeys(new, 1))
            wanted = middles_of_changes(
                {
                    index: state_of(self.outcomes(index)[-1])
                    for index in sorted(self.probes)
                    if self.probes[index]
                }
            )

    def forget(self, index: int) -> None:
        """Drop the probes of a candidate, which a person takes back."""
        self.probes[index].clear()

    def _stop_without_compilers(self) -> None:
        """Stop if no compiler between the ends could be obtained so far."""
        inside = [
            self.outcomes(index)[-1]
            for index in range(1, len(self) - 1)
            if self.probes[index]
        ]
        is_hopeless = all(outcome.cause is Cause.TOOLCHAIN for outcome in inside)
        if is_hopeless and len(inside) >= _MOST_WITHOUT_COMPILER:
            self.stopped = NoAnswer(
                Cause.ENVIRONMENT,
                f"no compiler could be obtained between both ends: {inside[-1].reason}",
            )

    # Suspicion

    def clues(self, failure: Failure, bad: int) -> Clues:
        """Return what the failure and the case say about the culprit."""
        failures = [failure]
        for outcome in self.outcomes(bad)[-1:]:
            if isinstance(outcome, Failed) and outcome.failure == failure:
                failures += outcome.others
        noticed = bad > 0 and not self.range.candidates[bad].ref.is_release
        return Clues.of(failures, noticed=noticed)

    def suspects(
        self, chances: Mapping[int, float], clues: Clues
    ) -> tuple[Suspect, ...]:
        """Return candidates that may be the culprit, the likeliest first."""
        total = sum(chances.values())
        reasons = self.range.reasons(clues)
        return tuple(
            replace(
                self.change(index),
                probability=round(chances[index] / total, 4),
                reasons=reasons[index],
            )
            for index in sorted(chances, key=lambda index: (-chances[index], index))
        )
