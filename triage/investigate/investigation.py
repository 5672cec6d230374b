"""Do the steps for the clusters of a night, or for the one failure that `triage why`
explains, within a budget. What is known can be reported at any time. Compiles are
cached, so that a later run soon continues.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from triage.bisect.history import known_releases
from triage.bisect.line import BisectRequest
from triage.bisect.releases import walked_releases
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob, in_job_order
from triage.investigate.cluster import STEPS, ClusterInvestigation, Scope
from triage.investigate.result import (
    CaseChangeKind,
    CaseResult,
    Explanation,
    FailureCluster,
    InvestigationSummary,
    StepResult,
)
from triage.model.case import Case
from triage.model.outcome import (
    Cause,
    Failed,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.recipes.expectations import expected_class, matches
from triage.reduce.reproducer import original_draft
from triage.toolchains.registry import ToolchainRef

_SLOWER_SECONDS = 5.0  # that make a difference when a case is chosen
_NEARLY_ALL = 0.9  # of the time that is left
_MORE_TIME = "10m"  # in the command that goes on after a spent budget


@dataclass
class Investigation:
    """An investigation in progress."""

    scope: Scope
    steps: Sequence[str]
    """Those of `STEPS` to do, in their order."""
    budget: float | None = None
    """Seconds; None for no limit. When they are over, the step that runs is stopped."""
    again: str = ""
    """The command line that continues."""
    clusters: list[ClusterInvestigation] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    def add_cluster(
        self, record: FailureCluster, results: Iterable[CaseResult]
    ) -> None:
        """Take in a cluster with its results among those of a night. A regression
        stands for it, the first that fails about as fast as any: times vary from night
        to night.
        """
        members = [result for result in results if result.case in record.cases]
        chosen = min(
            members,
            key=lambda member: (
                member.change is not CaseChangeKind.REGRESSED,
                member.seconds // _SLOWER_SECONDS,
            ),
        )
        case = self.scope.cases[chosen.case]
        record = replace(record, representative=chosen.case)
        cluster = ClusterInvestigation(self.scope, record, case, members, chosen.change)
        if "reduce" in self.steps:
            bad = self.scope.ends[1]
            cluster.add(draft=original_draft(self.scope.engine, case, bad))
        self.clusters.append(cluster)

    def run(self) -> Iterator[None]:
        """Do each step of each cluster, cheap steps first; yield after each."""
        self._started = time.monotonic()
        while waiting := self._waiting():
            name, cluster = waiting[0]
            if self.budget is not None:
                rest = self.budget - (time.monotonic() - self._started)
                # half of what is left is for this step of all clusters
                alike = sum(other == name for other, _ in waiting)
                is_last = name == self.steps[-1]
                cluster.seconds = rest if is_last else rest / 2 / alike
            self.scope.engine.progress.note(f"{name}: {cluster.case.name}")
            cluster.do(name, STEPS[name])
            if name == "confirm" and cluster.record.different:
                self._split(cluster)
            yield

    def _waiting(self) -> list[tuple[str, ClusterInvestigation]]:
        """Return the steps that are left with their clusters, the next one first."""
        return [
            (name, cluster)
            for name in self.steps
            for cluster in self.clusters
            if not cluster.ending(name)
        ]

    def records(self) -> list[FailureCluster]:
        """Return the clusters with what is known; a step that was not begun is left."""
        records = []
        for cluster in self.clusters:
            steps = [
                cluster.ending(step) or StepResult(step, "left", reason="not begun")
                for step in self.steps
            ]
            records.append(replace(cluster.record, steps=steps))
        return records

    @property
    def summary(self) -> InvestigationSummary:
        seconds = round(time.monotonic() - self._started, 1)
        return InvestigationSummary(seconds, self.budget, self.again)

    def _split(self, cluster: ClusterInvestigation) -> None:
        """Make a cluster of the cases with the same failure that changed elsewhere."""
        names = cluster.record.different
        parted = [member for member in cluster.members if member.case in names]
        rest = [member for member in cluster.members if member.case not in names]
        cluster.members = rest
        cluster.add(cases=[member.case for member in rest])
        key = cluster.record.key
        number = 1 + sum(other.record.key == key for other in self.clusters)
        part = key.cluster(names, parted[0].failure)
        self.add_cluster(replace(part, id=f"{part.id}.{number}"), parted)


@dataclass
class Explainer:
    """Explains the failure of one case within a budget of time."""

    engine: Engine
    case: Case
    siblings: Sequence[Case]
    """The cases of its recipe."""
    words: Sequence[str]
    """The words that name the case on a command line."""
    rev: str | None
    """The toolchain that was asked for (default: see `_toolchains`)."""
    budget: float
    """Seconds for all steps after the first compile."""
    started: float
    """The time from which on the budget counts, as `time.monotonic` has it."""
    assumed: tuple[str, ...] = ()
    """See `Explanation.assumed`."""
    reported: Sequence[str] | None = None
    """Revisions that a text names; None for what is not a text."""
    text: str = ""
    """The text, which may report the error for which a program cannot be tested."""

    def explain(self) -> Explanation:
        """Explain the case.

        Raises:
            BadInput: The family has no releases, or there is no such revision.
            EnvironmentFailure: The toolchain cannot be obtained.
        """
        registry = self.engine.registry
        named: Sequence[ToolchainRef] = ()
        if self.reported and not self.rev:
            named = registry.reported_toolchains(self.case.compiler, self.reported)
        refs = self._toolchains(named)
        answer = self._first_answer(refs)
        cases = {sibling.name: sibling for sibling in self.siblings}
        scope = Scope(self.engine, (None, refs[0]), cases)
        record = FailureCluster(signature="", cases=[self.case.name])
        cluster = ClusterInvestigation(scope, record, self.case)
        if answer.failure is None:
            # nearly all, because the steps after it may be needless
            cluster.seconds = _NEARLY_ALL * self._seconds_left()
            cluster.do("history", lambda _: self._look_elsewhere(answer, refs[1:]))
        steps: list[str] = []
        if answer.failure and answer.fails_on and not answer.flaky:
            steps = ["bisect", "attribute", "remedy"]
            cluster.add(failure=answer.failure)
            if answer.fails_on != answer.toolchain:
                bad = registry.resolve(answer.fails_on.name, self.case.compiler)
                scope.ends = (None, bad)
        budget = self._seconds_left()
        for _ in Investigation(scope, steps, budget, clusters=[cluster]).run():
            pass
        record = cluster.record
        answer.bisection = record.culprit
        answer.attribution = record.attribution
        answer.remedies = record.remedies
        answer.left = [
            step for step in record.steps if step.status in ("left", "failed")
        ]
        if answer.failure or not self.rev:
            answer.releases = known_releases(self.engine, self.case, named)
        answer.next = self._commands(answer)[:2]
        return answer

    def _toolchains(self, named: Sequence[ToolchainRef]) -> list[ToolchainRef]:
        """Return what to try: the toolchain that was asked for. Else those that a text
        names, and the installed ones, the newest first.
        """
        registry, family = self.engine.registry, self.case.compiler
        if self.rev is not None:
            return [registry.resolve(self.rev, family)]
        refs = [*named, *reversed(registry.installed_releases(family))]
        if not refs:
            return [registry.resolve("latest", family)]
        return list({ref.revision.name: ref for ref in refs}.values())

    # Which toolchain fails

    def _first_answer(self, refs: Sequence[ToolchainRef]) -> Explanation:
        """Return what the first toolchain says of the case."""
        probe = self._first_probe(refs)
        case, outcome = self.case, probe.outcome
        answer = Explanation(case.name, case.compiler, probe.revision)
        answer.target = " ".join(filter(None, (case.target.backend, case.target.chip)))
        answer.assumed = self.assumed
        answer.passes = isinstance(outcome, Passed)
        if isinstance(outcome, NoAnswer):
            answer.unanswered = outcome
            answer.is_reported_error = self._is_reported(outcome)
        is_wanted = self._is_wanted(outcome)
        if not is_wanted and not answer.is_reported_error:
            answer.unseen = self._expected_class()
        if isinstance(outcome, Failed):
            answer.flaky = outcome.flaky
            if self.rev or outcome.flaky or is_wanted:
                answer.failure, answer.fails_on = outcome.failure, probe.revision
        return answer

    def _first_probe(self, refs: Sequence[ToolchainRef]) -> Probe:
        """Probe the case on the first toolchain. Where only another release can say
        what is right, compare it with one that has other results.
        """
        first = refs[0]
        probe = self.engine.probe(ProbeJob(self.case, first))
        compiler = self.engine.compilers[self.case.compiler]
        compared = compiler.compared_with(self.case, first.revision.name)
        is_comparable = compared is not self.case and first.release is not None
        if not isinstance(probe.outcome, Passed) or not is_comparable:
            return probe
        others = refs[1:] or self.engine.registry.neighbours(first)
        other = self._first_wanted(_fails_each_time, compared, others)
        if other is None:
            return probe
        self.case = compiler.compared_with(self.case, other.revision.name)
        return self.engine.probe(ProbeJob(self.case, first))

    def _first_wanted(
        self,
        is_wanted: Callable[[Outcome], bool],
        case: Case,
        refs: Sequence[ToolchainRef],
    ) -> Probe | None:
        """Return the probe of the first of several toolchains whose outcome is
        wanted.
        """
        jobs = self.engine.jobs
        for start in range(0, len(refs), jobs):
            batch = [ProbeJob(case, ref) for ref in refs[start : start + jobs]]
            probes = self.engine.probe_all(batch, "why")
            for probe in in_job_order(batch, probes):
                if is_wanted(probe.outcome):
                    return probe
        return None

    def _look_elsewhere(
        self, answer: Explanation, others: Sequence[ToolchainRef]
    ) -> None:
        """Find a toolchain that has the failure, for a case without it on the first
        one: among the others, or else among the releases.
        """
        probe = self._first_wanted(self._is_wanted, self.case, others)
        passes_on_several = answer.passes and others and not answer.unseen
        is_enough = passes_on_several or (self.rev and answer.cause is not Cause.INPUT)
        if probe is None and not (is_enough or self.reported):
            line = walked_releases(BisectRequest(self.engine, self.case))
            last = [line.probes[index][-1] for index in line.last_outcomes]
            failing = [one for one in last if self._is_wanted(one.outcome)]
            probe = failing[-1] if failing else None
            answer.is_unreadable = answer.cause is Cause.INPUT and all(
                isinstance(one.outcome, NoAnswer) for one in last
            )
        if probe and probe.outcome.failure and not self.rev:
            answer.failure, answer.fails_on = probe.outcome.failure, probe.revision
            answer.unseen = None

    def _seconds_left(self) -> float:
        return self.budget - (time.monotonic() - self.started)

    def _commands(self, answer: Explanation) -> list[str]:
        """Return the command lines that go on from here."""
        commands = []
        if any(step.status == "left" for step in answer.left):
            rev = ["-t", self.rev] if self.rev else []
            commands.append(self._command("why", *rev, "--budget", _MORE_TIME))
        if answer.failure and answer.fails_on and not answer.flaky:
            good: list[str] = []
            kind = ["--find", "fix"]
            if answer.broke and answer.bisection and answer.bisection.brought_failure:
                good = ["--good", answer.broke[0].name]
                kind = []
            commands.append(self._command("reduce", "-t", answer.fails_on.name, *good))
            if answer.broke:
                first, last = (end.name for end in answer.broke)
                words = [*kind, "--good", first, "--bad", last, "--repo", "DIR"]
                commands.append(self._command("bisect", *words))
        elif answer.unseen:
            commands.append(self._command("history"))
        return commands

    def _command(self, name: str, *more: str) -> str:
        """Return a command line about this case."""
        return shlex.join(["triage", name, *self.words, *more])

    # What is looked for

    def _expected_class(self) -> str | None:
        """Return the class of the failure that a text reports or a recipe expects, or
        `failure`; None if there is none. A toolchain that was asked for may lack what a
        recipe expects of others.
        """
        is_named = self.reported or self.case.expect
        if not is_named or (self.reported is None and self.rev):
            return None
        return expected_class(self.case) or "failure"

    def _is_wanted(self, outcome: Outcome) -> bool:
        """Return whether a case fails and, if it is from a text that reports a failure,
        with that one.
        """
        is_expected = self.reported is None or self._ends_as_expected(outcome)
        return is_expected and _fails_each_time(outcome)

    def _is_reported(self, outcome: NoAnswer) -> bool:
        """Return whether a text or a recipe has the error for which it cannot be
        tested.
        """
        if " ".join(outcome.reason.split()) in " ".join(self.text.split()):
            return True
        return bool(self.case.expect) and self._ends_as_expected(outcome)

    def _ends_as_expected(self, outcome: Outcome) -> bool:
        """Return whether a case ends each time, and as its text or recipe says: with a
        failure, or with an error for which it cannot be tested.
        """
        if outcome.failure is None or outcome.flaky:
            return False
        failures = [outcome.failure]
        if isinstance(outcome, Failed):
            failures += outcome.others
        expect = self.case.expect
        wanted = [matches(item, failure) for item in expect for failure in failures]
        return any(wanted) or not expect


def _fails_each_time(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and not outcome.flaky
