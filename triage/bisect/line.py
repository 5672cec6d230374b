"""What to bisect and how, and a line of candidates with all probes of them. Searches
read a line, and only the line probes.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from triage.bisect.prior import suspects_of
from triage.bisect.result import BisectKind, Suspect
from triage.execution.compare import Match, same_signature
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.git_history.repository import Links, Repository, links_of
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Outcome, Probe
from triage.model.revision import Commit, Revision
from triage.toolchains.project import FILE, Project, find_project
from triage.toolchains.registry import ToolchainRef

COME_AND_GO = ("crash", "out-of-memory", "timeout", "runaway-output", "metric")
"""Families of failures that may."""
_OF_BRANCH = "stands for the branch of the old end, whose commits the new end lacks"
_MOST_WITHOUT_COMPILER = 5  # candidates in a row, before the search gives up


@dataclass(frozen=True)
class BisectRequest:
    """What to bisect and how, without the two revisions."""

    engine: Engine
    case: Case
    repo: Path | None = None
    """A clone of the compiler, to search commits; without one, releases are searched.
    """
    kind: BisectKind = BisectKind.REGRESSION
    match_for: Callable[[Failure], Match] = same_signature
    repeats: int = 3
    """How often a pair is probed again if its failure may come and go."""
    build: bool = False
    """Build commits from source although the user's own project file does not say how.
    What the clone's says may run then.
    """

    @cached_property
    def repository(self) -> Repository:
        """The clone. Raises BadInput if it is missing or not a clone."""
        if self.repo is None:
            raise BadInput("commits need a clone of the compiler: name it with --repo")
        return Repository(self.repo)

    @cached_property
    def project(self) -> Project:
        """A `triage.yaml` here outside of the clone, or with `build` the clone's;
        otherwise the file that is shipped. Raises BadFiles if it has mistakes.
        """
        if self.build:
            return find_project(self.case.compiler, Path(), self.repo or Path())
        file = Path(FILE)
        in_clone = (self.repo or Path()) / FILE
        is_own = file.is_file() and not self.repository.contains(file)
        unused = {in_clone.parent.resolve(): in_clone}
        if not is_own:
            unused[file.parent.resolve()] = file
        for path in filter(os.path.lexists, unused.values()):
            warning = (
                f"{path} is not used, because it comes with the clone and can run "
                "commands: pass --build, or copy it to the current folder"
            )
            self.engine.progress.note(warning)
        project = find_project(self.case.compiler, *([file.parent] if is_own else []))
        if is_own:
            return project
        return replace(project, build=None)

    @cached_property
    def links(self) -> Links | None:
        """The web pages of the clone, or of the project that it should hold."""
        if self.repo is None:
            return None
        links = links_of(self.repository.remote)
        return links or links_of(self.project.repository)


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

    # Probes

    def outcomes(self, index: int) -> list[Outcome]:
        return [probe.outcome for probe in self.probes[index]]

    def probed_outcome(self, index: int) -> Outcome:
        """Return the last outcome of a candidate, which is probed first if it never
        was.
        """
        if not self.probes[index]:
            self.probe({index: 1})
        return self.probes[index][-1].outcome

    @property
    def last_outcomes(self) -> dict[int, Outcome]:
        """The last outcome of each candidate that was probed, oldest first."""
        indices = sorted(index for index, probes in self.probes.items() if probes)
        return {index: self.probes[index][-1].outcome for index in indices}

    def indices_of(self, kind: type[Outcome]) -> list[int]:
        """Return the candidates that were probed and ended so, each time alike."""
        return [
            index
            for index, outcome in self.last_outcomes.items()
            if isinstance(outcome, kind) and not outcome.flaky
        ]

    def comes_and_goes(self) -> bool:
        """Whether a failure was seen that is of a family whose failures may."""
        failures = [probe.outcome.failure for _, probe in self.log]
        return any(failure and failure.family in COME_AND_GO for failure in failures)

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
        jobs = []
        for index, times in counts.items():
            ref = self.candidates[index].ref
            for number in range(times):
                again = number > 0 or bool(self.probes[index])
                jobs.append(ProbeJob(self.request.case, ref, fresh=again))
        if not jobs:
            return
        self.rounds += 1
        what = f"bisect {self.request.case.name}"
        for probe in self.request.engine.probe_all(jobs, what):
            self.add(probe)
            has_run = probe.measured.seconds > 0
            if probe.outcome.cause is Cause.ENVIRONMENT and not has_run:
                why = f"{probe.revision.name}: {probe.outcome.reason}"
                self.stopped = NoAnswer(Cause.ENVIRONMENT, why)
        self._stop_without_compilers()

    @cached_property
    def indices(self) -> Mapping[str, int]:
        """The candidates by name."""
        refs = enumerate(candidate.ref for candidate in self.candidates)
        return {ref.revision.name: index for index, ref in refs}

    def add(self, probe: Probe) -> None:
        index = self.indices[probe.revision.name]
        self.probes[index].append(probe)
        self.log.append((index, probe))

    def forget(self, index: int) -> None:
        """Drop the probes of a candidate, which a person takes back."""
        self.probes[index].clear()

    def probe_changes(self, wanted: Iterable[int]) -> None:
        """Probe some candidates, then the middle of each gap whose ends differ, until
        none is left.
        """
        while new := [index for index in wanted if not self.probes[index]]:
            self.probe(dict.fromkeys(new, 1))
            wanted = self.gap_middles()

    @property
    def differing_neighbours(self) -> list[tuple[int, int]]:
        """The probed neighbours whose status or class of failure differs."""
        states = {
            index: class_or_status(outcome)
            for index, outcome in self.last_outcomes.items()
        }
        return [
            (low, high) for low, high in pairwise(states) if states[low] != states[high]
        ]

    def gap_middles(self) -> list[int]:
        """Return the middle of every gap in which a change is hidden."""
        return [
            (low + high) // 2
            for low, high in self.differing_neighbours
            if high - low > 1
        ]

    def _stop_without_compilers(self) -> None:
        """Stop if no compiler between the ends could be obtained so far."""
        outcomes = self.last_outcomes
        inside = [outcomes[index] for index in outcomes if 0 < index < len(self) - 1]
        is_hopeless = all(outcome.cause is Cause.TOOLCHAIN for outcome in inside)
        if is_hopeless and len(inside) >= _MOST_WITHOUT_COMPILER:
            self.stopped = NoAnswer(
                Cause.ENVIRONMENT,
                f"no compiler could be obtained between both ends: {inside[-1].reason}",
            )

    # Suspicion

    def suspect_at(self, index: int) -> Revision:
        """Return what may have brought the change if it is between the candidate before
        this one and this one.
        """
        if self.is_of_commits:
            return self.candidates[index].commits[0].revision
        return self.revision(index)

    def changes(self, failure: Failure) -> list[Suspect]:
        """Return the change of each candidate but the first one, with how suspicious
        the failure makes it.
        """
        if not self.is_of_commits:
            changes = map(self.suspect_at, range(1, len(self)))
            return [Suspect(**asdict(change), probability=1.0) for change in changes]
        commits = [candidate.commits[0] for candidate in self.candidates[1:]]
        request = self.request
        return suspects_of(commits, [failure], request.project, request.links)

    def suspects(
        self, chances: Mapping[int, float], failure: Failure
    ) -> tuple[Suspect, ...]:
        """Return candidates that may be the culprit, the likeliest first."""
        total = sum(chances.values())
        changes = self.changes(failure)
        suspects = []
        for index in sorted(chances, key=lambda index: (-chances[index], index)):
            change = changes[index - 1]
            if index == self.fork:
                change = replace(change, reasons=(_OF_BRANCH,))
            share = round(chances[index] / total, 4)
            suspects.append(replace(change, probability=share))
        return tuple(suspects)


def class_or_status(outcome: Outcome) -> str:
    """Return the class of the failure, or else the status."""
    if isinstance(outcome, Failed):
        return outcome.failure.failure_class
    return outcome.plain_status
