"""A line of candidates and all probes of them. Searches read it, and only it probes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from triage.bisect.history import middles_of_changes, state_of
from triage.bisect.prior import Clues, Suspicion, suspicions
from triage.bisect.request import BisectRequest
from triage.bisect.result import Suspect
from triage.execution.task import ProbeJob
from triage.git_history.repository import Links, pull_request
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Probe,
)
from triage.model.revision import Commit, Revision
from triage.toolchains.project import Project
from triage.toolchains.registry import ToolchainRef

COME_AND_GO = ("crash", "out-of-memory", "timeout", "runaway-output", "metric")
"""Families of failures that may."""
_OF_BRANCH = "stands for the branch of the old end, whose commits the new end lacks"
_MOST_WITHOUT_COMPILER = 5  # candidates in a row, before the search gives up


@dataclass(frozen=True)
class Candidate:
    """A revision that a search may probe."""

    revision: Revision
    ref: ToolchainRef
    """Its toolchain, not yet obtained."""
    seconds: float = 0.0
    """The estimated time to obtain it."""
    untestable: str | None = None
    """Why it cannot be obtained, if that is known beforehand."""
    commits: tuple[Commit, ...] = ()
    """The commits that it stands for: its own, with its files, and those after it that
    cannot change what the compiler does.
    """


@dataclass
class Line:
    """Candidates 0 .. N-1, oldest first, with their probes.

    The old end may be on a branch that the new end does not contain. Then the commit
    where it leaves the timeline follows it, and stands for all that the branch has.
    """

    request: BisectRequest
    candidates: Sequence[Candidate]
    links: Links | None = None
    """The web pages of their repository."""
    project: Project | None = None
    """The compiler that the clone holds, if it is one."""
    fork: int | None = None
    """The candidate that stands for a whole branch, if there is one."""
    probes: dict[int, list[Probe]] = field(default_factory=lambda: defaultdict(list))
    log: list[tuple[int, Probe]] = field(default_factory=list)
    """The probes in order."""
    rounds: int = 0
    started: float = field(default_factory=time.monotonic)
    stopped: NoAnswer | None = None
    """Why no more can be probed."""

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def is_of_commits(self) -> bool:
        return bool(self.candidates[0].commits)

    def name(self, index: int) -> str:
        return self.candidates[index].revision.name

    def revision(self, index: int) -> Revision:
        """Return a revision with the commit that its toolchain reports."""
        revision = self.candidates[index].revision
        if revision.commit is None and self.probes[index]:
            return self.probes[index][-1].revision
        return revision

    def change(self, index: int) -> Suspect:
        """Return what may have brought the change if it is between the candidate before
        this one and this one.
        """
        if self.is_of_commits:
            return suspect_of(self.candidates[index].commits[0], self.links)
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

    def indices_of(self, kind: type[Outcome]) -> list[int]:
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
        return [candidate.seconds + longest for candidate in self.candidates]

    def probe(self, counts: Mapping[int, int]) -> None:
        """Probe candidates at once, each `counts[index]` times.

        Only a first probe may come from the result cache. Sets `stopped` if no compiler
        can be obtained.
        """
        index_of = {}
        jobs = []
        for index, times in counts.items():
            ref = self.candidates[index].ref
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
        return Clues.of(failures)

    def suspects(
        self, chances: Mapping[int, float], clues: Clues
    ) -> tuple[Suspect, ...]:
        """Return candidates that may be the culprit, the likeliest first."""
        total = sum(chances.values())
        suspicion = self._suspicions(clues)
        suspects = []
        for index in sorted(chances, key=lambda index: (-chances[index], index)):
            reasons = suspicion[index - 1].reasons
            if index == self.fork:
                reasons = (_OF_BRANCH,)
            probability = round(chances[index] / total, 4)
            change = self.change(index)
            suspects.append(replace(change, probability=probability, reasons=reasons))
        return tuple(suspects)

    def weights(self, clues: Clues) -> list[float]:
        """Return how suspicious each candidate is; the first one counts for nothing."""
        return [1.0, *(suspicion.chance for suspicion in self._suspicions(clues))]

    def _suspicions(self, clues: Clues) -> list[Suspicion]:
        if self.project is None:
            return [Suspicion(1.0, ())] * (len(self) - 1)
        commits = [candidate.commits[0] for candidate in self.candidates[1:]]
        return suspicions(commits, clues, self.project)


def suspect_of(commit: Commit, links: Links | None = None) -> Suspect:
    """Return a commit, read with its files, as a suspect without probability.

    links: the pages of its repository.
    """
    number = pull_request(commit.subject)
    url = None
    if links and number:
        url = links.pull(number)
    elif links:
        url = links.commit(commit.sha)
    return Suspect(
        **asdict(commit.revision), pull_request=number, url=url, files=commit.files
    )
