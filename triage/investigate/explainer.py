"""Explain the failure of one case for `triage why`: find a toolchain that has it, then
do the steps of an investigation, within a budget.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from triage.bisect.history import known_releases
from triage.bisect.line import BisectRequest
from triage.bisect.releases import probe_key_releases
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.investigate.investigation import ClusterInvestigation, Investigation
from triage.investigate.result import Explanation, FailureCluster
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Stage
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

_NOT_COMPARED = "no results were compared: a wrong one would not be seen"


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
        case = self.case
        named: Sequence[ToolchainRef] = ()
        if self.reported and not self.rev:
            named = registry.reported_toolchains(case.compiler, self.reported)
        refs = self._toolchains(named)
        answer = self._first_answer(refs[0])
        cases = {sibling.name: sibling for sibling in self.siblings}
        work = Investigation(self.engine, (None, refs[0]), cases)
        record = FailureCluster(signature="", cases=[case.name])
        cluster = ClusterInvestigation(work, record, case)
        work.clusters.append(cluster)
        if answer.failure is None:
            cluster.seconds = self.deadline - time.monotonic()
            cluster.do_step("history", lambda _: self._find_failure(answer, refs))
            cluster.case = self.case
        if answer.fails_on and not answer.flaky:
            work.steps = ["bisect", "attribute", "remedy"]
            cluster.add(failure=answer.failure)
            if answer.fails_on != answer.toolchain:
                bad = registry.resolve(answer.fails_on.name, case.compiler)
                work.ends = (None, bad)
        work.budget = self.deadline - time.monotonic()
        for _ in work.run():
            pass
        answer.bisection = cluster.record.culprit
        known = answer.bisection and answer.bisection.reason
        answer.attribution = cluster.record.attribution
        answer.remedies = cluster.record.remedies
        answer.left = [
            step
            for step in cluster.step_results.values()
            if step.status in ("left", "failed") and step.reason != known
        ]
        if answer.passes and not answer.failure:
            self._say_whether_compared(answer)
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
        if self.rev:
            return [registry.resolve(self.rev, family)]
        refs = [*named, *reversed(registry.installed_releases(family))]
        if not refs:
            with suppress(EnvironmentFailure):  # such as no network
                return [registry.resolve("latest", family)]
            return [registry.resolve("installed", family)]
        return list({ref.revision.name: ref for ref in refs}.values())

    # Which toolchain fails

    @cached_property
    def _needs_reference(self) -> bool:
        """Whether only another release can say what the case must compute."""
        compiler = self.engine.compilers[self.case.compiler]
        return not self.case.run and compiler.runs_script(self.case)

    def _first_answer(self, ref: ToolchainRef) -> Explanation:
        """Return what the first toolchain says of the case."""
        case = self.case
        probe = self.engine.probe(ProbeJob(case, ref))
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

    def _first_probe(
        self, is_wanted: Callable[[Outcome], bool], refs: Sequence[ToolchainRef]
    ) -> Probe | None:
        """Return the probe of the first of several toolchains whose outcome is
        wanted.
        """
        jobs = self.engine.jobs
        for start in range(0, len(refs), jobs):
            batch = [ProbeJob(self.case, ref) for ref in refs[start : start + jobs]]
            for probe in self.engine.probe_in_order(batch, "why"):
                if is_wanted(probe.outcome):
                    return probe
        return None

    def _find_failure(self, answer: Explanation, refs: Sequence[ToolchainRef]) -> None:
        """Find a toolchain that has the failure, for a case without it on the first
        one: on the others, or else among the releases.
        """
        first = refs[0]
        others = refs[1:]
        if answer.passes and first.release is not None and self._needs_reference:
            others = self._compare_results(answer, first, others)
        probe = self._first_probe(self._is_wanted, others)
        passes_on_several = answer.passes and refs[1:] and not answer.unseen
        is_enough = passes_on_several or (self.rev and answer.cause is not Cause.INPUT)
        if not (probe or is_enough or self.reported):
            line = probe_key_releases(BisectRequest(self.engine, self.case))
            last = [line.probes[index][-1] for index in reversed(line.last_outcomes)]
            failing = (item for item in last if self._is_wanted(item.outcome))
            probe = next(failing, None)
            answer.is_unreadable = answer.cause is Cause.INPUT and all(
                isinstance(item.outcome, NoAnswer) for item in last
            )
        if probe and (not self.rev or probe.revision == answer.toolchain):
            answer.failure = probe.outcome.failure
            answer.fails_on = probe.revision
            answer.passes &= answer.fails_on != answer.toolchain
            answer.unseen = None

    def _compare_results(
        self, answer: Explanation, first: ToolchainRef, others: Sequence[ToolchainRef]
    ) -> Sequence[ToolchainRef]:
        """Compare what the case computes on the first toolchain and on others. Return
        the toolchains on which results that differ are its failure.
        """
        case = self.case
        with_reference = self.engine.compilers[case.compiler].with_reference
        self.case = with_reference(case, first.revision.name)
        repeated = self.engine.probe(ProbeJob(self.case, first))
        answer.flaky = repeated.outcome.failure is not None
        others = others or self.engine.registry.neighbours(first)
        other = self._first_probe(_has_other_results, others)
        if other:
            self.case = with_reference(case, other.revision.name)
            return [first]
        if not self._first_probe(lambda new: isinstance(new, Passed), others):
            self.case = case
        return others

    def _say_whether_compared(self, answer: Explanation) -> None:
        """Say of a case that passes if its results were not compared. If only another
        release can say what is right, it is not known to pass.
        """
        is_expected = self.text or self._needs_reference
        cause = Cause.NEEDLESS
        if answer.left and self._needs_reference:
            answer.passes = False
            cause = Cause.TIME
        elif not is_expected or Stage.COMPARE in self.case.stages:
            return
        answer.unanswered = NoAnswer(cause, _NOT_COMPARED)

    def _commands(self, answer: Explanation) -> list[str]:
        """Return the command lines that go on from here."""
        commands = []
        if any(step.status == "left" for step in answer.left):
            rev = ["-t", self.rev] if self.rev else []
            commands.append(["why", *self.words, *rev, "--budget", "10m"])
        if answer.fails_on and not answer.flaky:
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
        return is_expected and isinstance(outcome, Failed) and not outcome.flaky

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


def _has_other_results(outcome: Outcome) -> bool:
    failure = outcome.failure
    return bool(failure and failure.stage is Stage.COMPARE and not outcome.flaky)
