"""Explain one failure: where it fails, since when, after which pass the compilers
diverge, and what works around it. It is investigated like a cluster of a night, but
nothing is written.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from triage.attribute.result import Attribution
from triage.bisect.history import KnownReleases, known_releases
from triage.bisect.line import BisectRequest
from triage.bisect.plan import bisect_between
from triage.bisect.result import Bisection
from triage.classify import ClassifiedLog
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.investigate.investigation import ClusterInvestigation, Investigation, Step
from triage.investigate.origin import OriginFinder
from triage.investigate.result import FailureCluster, StepResult
from triage.model.case import Case
from triage.model.fields import UNPRINTED, in_json
from triage.model.outcome import (
    Cause,
    Exit,
    Failed,
    Failure,
    MayLackAnswer,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
    exit_without_answer,
)
from triage.model.revision import Revision
from triage.recipes.expectations import expected_class, matches
from triage.remedy.result import Remedy
from triage.toolchains.registry import ToolchainRef

_NEARLY_ALL = 0.9  # of the time that is left
_MORE_TIME = "10m"  # in the command that goes on after a spent budget


@dataclass
class Explanation(MayLackAnswer):
    """Everything known of a case and its failure."""

    case: str
    compiler: str | None = field(default=None, metadata=UNPRINTED)
    """The compiler family."""
    toolchain: Revision | None = None
    """The one that was asked for, or the newest installed release."""
    passes: bool = False
    """Whether the case passes on that toolchain."""
    target: str | None = None
    """The backend and the chip."""
    assumed: Sequence[str] = ()
    """The part of the target and the values that nobody named."""
    releases: tuple[KnownReleases, ...] = ()
    """How the case ends on all releases, unless one toolchain was asked for."""
    unseen: str | None = None
    """The class of the failure that a text reports or a recipe expects, or `failure`,
    if no toolchain that was tried has it.
    """
    failure: Failure | None = None
    flaky: bool = False
    fails_on: Revision | None = None
    """The toolchain of the failure: the one above, or the newest release that fails."""
    bisection: Bisection | None = None
    attribution: Attribution | None = None
    remedies: Sequence[Remedy] = ()
    left: Sequence[StepResult] = ()
    """Steps without a result, each with the reason."""
    next: Sequence[str] = ()
    """Command lines that go on from here."""
    unanswered: NoAnswer | None = field(default=None, metadata=UNPRINTED)
    """Why the toolchain cannot test the case, or why there is nothing to explain."""
    is_reported_error: bool = field(default=False, metadata=UNPRINTED)
    """Whether a text reports this reason: then the toolchain ends as the text says."""
    log: ClassifiedLog | None = None
    """The failures in a text without a program."""

    @property
    def exit(self) -> Exit:
        if self.is_unreadable:
            return Exit.USAGE  # the program is the user's mistake
        if self.status == "inconclusive":
            return exit_without_answer(self.cause)
        if self.log:
            return Exit.INCONCLUSIVE
        if self.failure:
            return Exit.FOUND
        return Exit.OK

    @property
    def fixed(self) -> Revision | None:
        """The first release with the fix."""
        return self.bisection.fixed_in if self.bisection else None

    @property
    def broke(self) -> tuple[Revision, Revision] | None:
        """The good and the bad revision where the case broke, or was fixed, in whatever
        way; None if it never passed.
        """
        if self.bisection is None or self.bisection.broke is None:
            return None
        broke = self.bisection.broke
        return self.bisection.kind.in_order(broke.before, broke.after)

    @property
    def is_unreadable(self) -> bool:
        """Whether no release can parse the program, so that the program is wrong."""
        return (
            self.cause is Cause.INPUT
            and self.failure is None
            and self.bisection is not None
            and self.bisection.cause is Cause.INPUT
        )

    @in_json
    def status(self) -> str:
        """Return `fails`, `fixed` (by a newer release), `passes`, `inconclusive`, or
        `log`.
        """
        if self.log is not None:
            return "log"
        if self.flaky:
            return "inconclusive"
        if self.failure is not None:
            return "fixed" if self.fixed else "fails"
        return "passes" if self.passes and not self.unseen else "inconclusive"


@dataclass
class Explainer:
    """Explains one case within a budget of time."""

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
        case = self.case
        finder = OriginFinder(self.engine, (None, refs[0]))
        cases = {sibling.name: sibling for sibling in self.siblings}
        record = FailureCluster(signature="", cases=[case.name], failure=answer.failure)
        cluster = ClusterInvestigation(finder, cases, record, case)
        passes_on_several = answer.passes and len(refs) > 1 and not answer.unseen
        is_enough = bool(self.rev or self.reported or passes_on_several)
        if answer.failure is None:
            look = partial(self._look_elsewhere, answer, refs[1:])
            self._do_nearly_all(cluster, "history", look)
        if answer.failure is None and not is_enough:
            find = partial(self._find_earlier_failure, answer)
            self._do_nearly_all(cluster, "bisect", find)
        steps: dict[str, Step] = {}
        if answer.failure and not answer.flaky:
            steps = {
                "bisect": ClusterInvestigation.bisect,
                "attribute": ClusterInvestigation.attribute,
                "remedy": ClusterInvestigation.remedy,
            }
        budget = self._seconds_left()
        investigation = Investigation(finder, cases, steps, budget, clusters=[cluster])
        for _ in investigation.run():
            pass
        record = cluster.record
        answer.failure = record.failure
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
        registry = self.engine.registry
        family = self.case.compiler
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
        probe = self._probe(first)
        compiler = self.engine.compilers[self.case.compiler]
        compared = compiler.compared_with(self.case, first.revision.name)
        is_comparable = compared is not self.case and first.release is not None
        if not isinstance(probe.outcome, Passed) or not is_comparable:
            return probe
        others = refs[1:] or self.engine.registry.neighbours(first)
        other = self._first_wanted(_fails_each_time, compared, others, "compare")
        if other is None:
            return probe
        self.case = compiler.compared_with(self.case, other.revision.name)
        return self._probe(first)

    def _probe(self, ref: ToolchainRef) -> Probe:
        return self.engine.probe(ProbeJob(self.case, ref))

    def _first_wanted(
        self,
        is_wanted: Callable[[Outcome], bool],
        case: Case,
        refs: Sequence[ToolchainRef],
        what: str,
    ) -> Probe | None:
        """Return the probe of the first of several toolchains whose outcome is wanted.
        what: progress.
        """
        jobs = self.engine.jobs
        for start in range(0, len(refs), jobs):
            batch = refs[start : start + jobs]
            probes = self.engine.probe_all([ProbeJob(case, ref) for ref in batch], what)
            by_name = {probe.revision.name: probe for probe in probes}
            for ref in batch:
                probe = by_name[ref.revision.name]
                if is_wanted(probe.outcome):
                    return probe
        return None

    # The steps that a night does not have

    def _seconds_left(self) -> float:
        return self.budget - (time.monotonic() - self.started)

    def _do_nearly_all(
        self, cluster: ClusterInvestigation, name: str, step: Step
    ) -> None:
        """Do a step in nearly all of the time, because the others may be needless."""
        cluster.seconds = _NEARLY_ALL * self._seconds_left()
        cluster.do(name, step)

    def _look_elsewhere(
        self,
        answer: Explanation,
        others: Sequence[ToolchainRef],
        cluster: ClusterInvestigation,
    ) -> NoAnswer | None:
        """Find a toolchain that has the failure, for a case without it on the first
        one of all.
        """
        probe = self._first_wanted(self._is_wanted, self.case, others, "why")
        if probe and probe.outcome.failure:
            self._take_failure(answer, cluster, probe.outcome.failure, probe.revision)
        return None

    def _find_earlier_failure(
        self, answer: Explanation, cluster: ClusterInvestigation
    ) -> NoAnswer | None:
        """Find the failure that a release had before another one fixed it."""
        bisection = bisect_between(BisectRequest(self.engine, self.case, repeats=1))
        failure = bisection.failure
        if failure is None:
            cluster.add(culprit=bisection)
        elif self._is_wanted(Failed(failure)):
            fails_on = bisection.before
            if bisection.fixed:
                fails_on = bisection.fixed.before
            elif bisection.brought_failure:
                fails_on = bisection.after
            assert fails_on
            cluster.add(culprit=bisection)
            cluster.pair = cluster.finder.pair_of(bisection)
            self._take_failure(answer, cluster, failure, fails_on)
        return None

    def _take_failure(
        self,
        answer: Explanation,
        cluster: ClusterInvestigation,
        failure: Failure,
        fails_on: Revision,
    ) -> None:
        """Take the failure that another toolchain than the first one has."""
        answer.failure, answer.fails_on, answer.unseen = failure, fails_on, None
        bad = self.engine.registry.resolve(fails_on.name, self.case.compiler)
        cluster.finder.pair = (None, bad)
        cluster.add(failure=failure)

    def _commands(self, answer: Explanation) -> list[str]:
        """Return the command lines that go on from here."""
        commands = []
        if any(step.status == "left" for step in answer.left):
            rev = []
            if self.rev:
                rev = ["-t", self.rev]
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

    # What the steps share

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
