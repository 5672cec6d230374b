"""A line of revisions and all probes of them. Searches read it, and only it probes."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.bisect.candidates import BisectRange
from triage.bisect.pass_evidence import files_that_diverge
from triage.bisect.prior import Clues
from triage.bisect.request import BisectRequest
from triage.bisect.result import Suspect
from triage.bisect.walk import middles_of_changes, state_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    Measured,
    NoAnswer,
    Outcome,
    Probe,
)
from triage.model.revision import Revision

_DETAILED = 20  # suspects
_WORTH_COMPARING = 8  # candidates; fewer need three probes at most
# factor by which a compile slows down when it prints its IR
_SLOWER = 6.0
_SAME_ERRORS = 5  # compilers that cannot be obtained before the search gives up
# what differs between equal errors of two commits
_OF_A_COMMIT = re.compile(r"[0-9a-f]{7,40}|/\S+|\d+")


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
    _suspected_files: frozenset[str] | None = None

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

    def seconds(self) -> list[float]:
        """Return the time to obtain each candidate and to compile the case."""
        compile_seconds = [probe.measured.seconds for _, probe in self.log]
        longest = max(compile_seconds, default=0.0)
        return [one.seconds + longest for one in self.range.candidates]

    def probe(self, counts: Mapping[int, int]) -> None:
        """Probe candidates at once, each `counts[index]` times.

        Only a first probe may come from the result cache. Of candidates that share
        compiler and input, the first one is probed; the others find its result in the
        cache when they are asked for again. Sets `stopped` if no compiler can be
        obtained.
        """
        owners: dict[tuple[Path, str], int] = {}
        jobs = []
        for index, times in counts.items():
            candidate = self.range.candidates[index]
            case: Case | NoAnswer = self.request.case
            if candidate.case_of:
                case = candidate.case_of()
            if isinstance(case, NoAnswer):
                self.probes[index].append(self.without_run(index, case))
                continue
            key = (case.source, candidate.ref.revision.name)
            if owners.setdefault(key, index) != index:
                continue
            for number in range(times):
                again = number > 0 or bool(self.probes[index])
                jobs.append(ProbeJob(case, candidate.ref, fresh=again))
        if not jobs:
            return
        self.rounds += 1
        what = f"bisect {self.request.case.name}"
        for probe in self.request.engine.probe_all(jobs, what):
            index = owners[probe.case.source, probe.revision.name]
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

    def without_run(self, index: int, why: NoAnswer) -> Probe:
        """Return a probe, not made, of a candidate that has no compiler or no case."""
        revision = self.range.candidates[index].revision
        return Probe(self.request.case, revision, None, why, Measured(), cached=False)

    def _stop_without_compilers(self) -> None:
        """Stop if all candidates between the ends have no compiler for one reason."""
        inside = [
            self.outcomes(index)[-1]
            for index in range(1, len(self) - 1)
            if self.probes[index]
        ]
        errors = [
            one.reason
            for one in inside
            if isinstance(one, NoAnswer) and one.cause is Cause.TOOLCHAIN
        ]
        if len(inside) != len(errors) or len(errors) < _SAME_ERRORS:
            return
        if len({_OF_A_COMMIT.sub("", error) for error in errors}) == 1:
            self.stopped = NoAnswer(
                Cause.ENVIRONMENT,
                f"no compiler could be obtained between both ends: {errors[-1]}",
            )

    # Suspicion

    def clues(self, failure: Failure, good: int, bad: int) -> Clues:
        """Return what the failure, the case and the passes of both ends say about the
        culprit.
        """
        failures = [failure]
        for outcome in self.outcomes(bad)[-1:]:
            if isinstance(outcome, Failed) and outcome.failure == failure:
                failures += outcome.others
        if self._suspected_files is None:
            self._suspected_files = frozenset()
            if self._is_worth_comparing():
                self._suspected_files = files_that_diverge(
                    self.request.engine,
                    self.request.case,
                    self.range.candidates[good].ref,
                    self.range.candidates[bad].ref,
                    self.request.repository,
                )
        noticed = bad > good and not self.range.candidates[bad].ref.is_release
        return Clues.of(failures, self._suspected_files, noticed=noticed)

    def _is_worth_comparing(self) -> bool:
        """Return whether comparing passes, two slow compiles, may save more time."""
        if not (self.request.attribute and self.range.is_of_commits):
            return False
        longest = max(probe.measured.seconds for _, probe in self.log)
        seconds = sorted(
            one.seconds for one in self.range.candidates if one.untestable is None
        )
        probe_seconds = seconds[len(seconds) // 2] + longest
        is_long = len(self) > _WORTH_COMPARING
        return is_long and probe_seconds >= _SLOWER * 2 * longest

    def suspects(
        self, chances: Mapping[int, float], clues: Clues
    ) -> tuple[Suspect, ...]:
        """Return candidates that may be the culprit, the likeliest first."""
        total = sum(chances.values())
        ranked = sorted(chances, key=lambda index: (-chances[index], index))
        details = self.range.details(ranked[:_DETAILED], clues)
        return tuple(
            replace(
                details.get(index) or self.range.change(index),
                probability=round(chances[index] / total, 4),
            )
            for index in ranked
        )

    def obtained(self) -> Counter[str]:
        return Counter(self.range.obtained.values())
