"""Explain the failure of one case for `triage why`: find a toolchain that has it, then
do the steps of an investigation, within a budget.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triage.bisect.history import known_releases
from triage.bisect.line import BisectRequest
from triage.bisect.releases import probe_key_releases
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.investigate.investigation import ClusterInvestigation, Investigation
from triage.investigate.result import Explanation, FailureCluster
from triage.model.case import Case
from triage.model.outcome import (
    Cause,
    Failed,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.recipes.expectations import expected_class, names_failure
from triage.toolchains.registry import ToolchainRef

_NEARLY_ALL = 0.9  # of the time that is left
_MORE_TIME = "10m"  # in the command that goes on after a spent budget


@dataclass
class Explainer:
    """Explains the failure of one case."""

    engine: Engine
    case: Case
    siblings: Sequence[Case]
    """The cases of its recipe."""
    words: Sequence[str]
    """The words that name the case on a command line."""
    rev: str | None
    """The toolchain that was asked for (default: see `_toolchains`)."""
    deadline: float
    """When the budget is spent, as `time.monotonic` has it. The first compile is always
    made.
    """
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
        work = Investigation(self.engine, (None, refs[0]), cases)
        record = FailureCluster(signature="", cases=[self.case.name])
        cluster = ClusterInvestigation(work, record, self.case)
        work.clusters.append(cluster)
        if answer.failure is None:
            # nearly all, because the steps after it may be needless
            cluster.seconds = _NEARLY_ALL * (self.deadline - time.monotonic())
            cluster.do_step("history", lambda _: self._find_elsewhere(answer, refs[1:]))
        if answer.failure and answer.fails_on and not answer.flaky:
            work.steps = ["bisect", "attribute", "remedy"]
            cluster.add(failure=answer.failure)
            if answer.fails_on != answer.toolchain:
                bad = registry.resolve(answer.fails_on.name, self.case.compiler)
                work.ends = (None, bad)
        work.budget = self.deadline - time.monotonic()
        for _ in work.run():
            pass
        answer.bisection = cluster.record.culprit
        answer.attribution = cluster.record.attribution
        answer.remedies = cluster.record.remedies
        results = cluster.step_results.values()
        answer.left = [step for step in results if step.status in ("left", "failed")]
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
        case = self.case
        outcome = probe.outcome
        answer = Explanation(
            case.name,
            case.compiler,
            probe.revision,
            passes=isinstance(outcome, Passed),
            target=" ".join(filter(None, (case.target.backend, case.target.chip))),
            flaky=outcome.flaky,
        )
        if isinstance(outcome, NoAnswer):
            answer.unanswered = outcome
            answer.is_reported_error = self._is_reported(outcome)
        is_wanted = self._is_wanted(outcome)
        if not is_wanted and not answer.is_reported_error:
            answer.unseen = self._expected_class()
        if isinstance(outcome, Failed) and (self.rev or outcome.flaky or is_wanted):
            answer.failure = outcome.failure
            answer.fails_on = probe.revision
        return answer

    def _first_probe(self, refs: Sequence[ToolchainRef]) -> Probe:
        """Probe the case on the first toolchain. Where only another release can say
        what is right, compare it with one that has other results.
        """
        first = refs[0]
        probe = self.engine.probe(ProbeJob(self.case, first))
        compiler = self.engine.compilers[self.case.compiler]
        compared = compiler.with_reference(self.case, first.revision.name)
        is_comparable = compared is not self.case and first.release is not None
        if not isinstance(probe.outcome, Passed) or not is_comparable:
            return probe
        others = refs[1:] or self.engine.registry.neighbours(first)
        other = self._first_probe_with(_fails_each_time, compared, others)
        if other is None:
            return probe
        self.case = compiler.with_reference(self.case, other.revision.name)
        return self.engine.probe(ProbeJob(self.case, first))

    def _first_probe_with(
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
            for probe in self.engine.probe_in_order(batch, "why"):
                if is_wanted(probe.outcome):
                    return probe
        return None

    def _find_elsewhere(
        self, answer: Explanation, others: Sequence[ToolchainRef]
    ) -> None:
        """Find a toolchain that has the failure, for a case without it on the first
        one: among the others, or else among the releases.
        """
        probe = self._first_probe_with(self._is_wanted, self.case, others)
        passes_on_several = answer.passes and others and not answer.unseen
        is_enough = passes_on_several or (self.rev and answer.cause is not Cause.INPUT)
        if probe is None and not (is_enough or self.reported):
            line = probe_key_releases(BisectRequest(self.engine, self.case))
            last = [line.probes[index][-1] for index in line.last_outcomes]
            failing = [item for item in last if self._is_wanted(item.outcome)]
            probe = failing[-1] if failing else None
            answer.is_unreadable = answer.cause is Cause.INPUT and all(
                isinstance(item.outcome, NoAnswer) for item in last
            )
        if probe and probe.outcome.failure and not self.rev:
            answer.failure = probe.outcome.failure
            answer.fails_on = probe.revision
            answer.unseen = None

    def _commands(self, answer: Explanation) -> list[str]:
        """Return the command lines that go on from here."""
        commands = []
        if any(step.status == "left" for step in answer.left):
            rev = ["-t", self.rev] if self.rev else []
            commands.append(["why", *self.words, *rev, "--budget", _MORE_TIME])
        if answer.failure and answer.fails_on and not answer.flaky:
            reduce = ["reduce", *self.words, "-t", answer.fails_on.name]
            commands.append(reduce)
            bisection = answer.bisection
            if bisection and bisection.broke:
                broke = bisection.broke
                good, bad = bisection.kind.in_order(broke.before, broke.after)
                ends = ["--good", good.name, "--bad", bad.name, "--repo", "DIR"]
                if bisection.brought_failure:
                    reduce += ends[:2]
                else:
                    ends = ["--find", "fix", *ends]
                commands.append(["bisect", *self.words, *ends])
        elif answer.unseen:
            commands.append(["history", *self.words])
        return [shlex.join(["triage", *words]) for words in commands]

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
        wanted = [
            names_failure(item, failure) for item in expect for failure in failures
        ]
        return any(wanted) or not expect


def _fails_each_time(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and not outcome.flaky
