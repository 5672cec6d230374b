"""Explain one failure: where it fails, since when, after which pass the compilers
diverge, and what works around it. It is investigated like a cluster of a night, but
nothing is written.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from triage.attribute.result import Attribution
from triage.bisect.plan import bisect_between
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection
from triage.bisect.walk import bounds_of
from triage.classify import ClassifiedLog
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.investigate.investigation import Investigation
from triage.investigate.origin import OriginFinder
from triage.investigate.own_mistake import own_mistake
from triage.investigate.own_program import (
    KnownReleases,
    ends_as_expected,
    fails_each_time,
    first_that,
    known_releases,
)
from triage.investigate.result import ClusterKey, StepResult
from triage.investigate.steps import ClusterInWork, InvestigationSetting, do_step
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.exit_codes import Exit, exit_without_answer
from triage.model.json_form import UNPRINTED, in_json
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    MayLackAnswer,
    NoAnswer,
    Outcome,
    Passed,
)
from triage.model.revision import Revision
from triage.recipes.expectations import expected_class
from triage.remedy.result import Remedy
from triage.toolchains.registry import ToolchainRef

T = TypeVar("T")
_STEPS = ("bisect", "attribute", "remedy")
_NEARLY_ALL = 0.9  # of the time that is left
_MORE_TIME = "10m"  # in the command that goes on after a spent budget


@dataclass(frozen=True)
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
    assumed: tuple[str, ...] = ()
    """The part of the target and the values that nobody named."""
    releases: tuple[KnownReleases, ...] = ()
    """How the case ends on all releases, unless one toolchain was asked for."""
    unseen: str | None = None
    """The class of the failure that a text reports or a recipe expects, or `failure`,
    if no toolchain that was tried has it.
    """
    fails_otherwise: bool = field(default=False, metadata=UNPRINTED)
    """Whether it fails on that toolchain with another failure than that one."""
    failure: Failure | None = None
    flaky: bool = False
    fails_on: Revision | None = None
    """The toolchain of the failure: the one above, or the newest release that fails."""
    bisection: Bisection | None = None
    attribution: Attribution | None = None
    remedies: tuple[Remedy, ...] = ()
    left: tuple[StepResult, ...] = ()
    """Steps without a result, each with the reason."""
    next: tuple[str, ...] = ()
    """Command lines that go on from here."""
    unanswered: NoAnswer | None = field(default=None, metadata=UNPRINTED)
    """Why the toolchain cannot test the case, or why there is nothing to explain."""
    is_reported_error: bool = field(default=False, metadata=UNPRINTED)
    """Whether a text reports this reason: then the toolchain ends as the text says."""
    reads: Revision | None = None
    """The newest release known to read a program that the newest one of all cannot."""
    log: ClassifiedLog | None = None
    """The failures in a text without a program."""

    @property
    def exit(self) -> Exit:
        if self.status == "inconclusive":
            if self.is_unreadable:
                # a program that no release reads is the user's mistake
                return Exit.USAGE
            return exit_without_answer(self.cause)
        if self.log:
            return Exit.INCONCLUSIVE
        if self.failure:
            return Exit.FOUND
        return Exit.OK

    @property
    def fixed(self) -> Revision | None:
        """The first release with the fix."""
        bisection = self.bisection
        if bisection is None:
            return None
        if bisection.fixed:
            return bisection.fixed.after
        if bisection.brought_failure:
            return None
        return (bisection.broke or bisection).after

    @property
    def broke(self) -> tuple[Revision, Revision] | None:
        """The good and the bad revision where the case broke, or was fixed, in whatever
        way; None if it never passed.
        """
        if self.bisection is None or self.bisection.broke is None:
            return None
        broke = self.bisection.broke
        if self.bisection.brought_failure:
            return broke.before, broke.after
        return broke.after, broke.before

    @property
    def is_unreadable(self) -> bool:
        """Whether no release can parse the program, so that the program is wrong."""
        return (
            self.cause is Cause.INPUT
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
    named: Sequence[ToolchainRef] = ()
    """The toolchains that it names, and their neighbours."""

    def __post_init__(self) -> None:
        target = self.case.target
        text = " ".join(filter(None, (target.backend, target.chip)))
        self.known = Explanation(
            self.case.name, self.case.compiler, target=text, assumed=self.assumed
        )

    def explain(self) -> Explanation:
        """Explain the case.

        Raises:
            BadInput: The family has no releases, there is no such revision, or the
                program itself is wrong.
            EnvironmentFailure: The toolchain cannot be obtained.
        """
        refs = self._toolchains()
        self._compile(refs[0])
        if self.known.passes:
            self._compare(refs[0], refs[1:])
        if self.known.failure is None:
            self._look_elsewhere(refs)
        explanation = self.known
        passes_on_several = (
            explanation.passes and len(refs) > 1 and not explanation.unseen
        )
        is_known = self.rev or self.reported or passes_on_several or explanation.reads
        if explanation.failure is None and not is_known:
            self._find_earlier_failure()
        explanation = self.known
        if explanation.failure and not explanation.flaky:
            self._investigate(explanation.failure)
        if explanation.failure or not self.rev:
            releases = known_releases(self.engine, self.case, self.named)
            self._add(releases=releases)
        return replace(self.known, next=tuple(self._commands()[:2]))

    def _toolchains(self) -> list[ToolchainRef]:
        """Return what to try: the toolchain that was asked for. Else those that a text
        names, the newest installed one, those at which a recipe expects a change, and
        the other installed ones.
        """
        registry = self.engine.registry
        family = self.case.compiler
        if self.rev is not None:
            return [registry.resolve(self.rev, family)]
        stored = [*reversed(registry.installed_releases(family))]
        self.named = registry.reported(family, self.reported or ())
        if not stored and not self.named:
            stored = [registry.resolve("latest", family)]
        expected: Sequence[ToolchainRef] = ()
        expectations = self.case.expect
        if any(entry.since or entry.until for entry in expectations):
            releases = registry.releases(family)
            around = sorted(bounds_of(self.case, releases), reverse=True)
            expected = [releases[index] for index in around]
        refs = (*self.named, *stored[:1], *expected, *stored[1:])
        return list({ref.revision.name: ref for ref in refs}.values())

    # Which toolchain fails

    def _compile(self, ref: ToolchainRef) -> None:
        """Compile the case on the first toolchain."""
        probe = self.engine.probe(ProbeJob(self.case, ref))
        outcome = probe.outcome
        mistake = own_mistake(self.case, outcome)
        if mistake:
            raise BadInput(f"the program itself is wrong: {mistake}")
        self._add(toolchain=probe.revision, passes=isinstance(outcome, Passed))
        if isinstance(outcome, NoAnswer):
            is_reported = _one_line(outcome.reason) in _one_line(self.text)
            if self.case.expect:
                is_reported |= ends_as_expected(self.case, outcome)
            self._add(unanswered=outcome, is_reported_error=is_reported)
        if not isinstance(outcome, Failed):
            return
        is_other = not self._is_wanted(outcome)
        if is_other:
            self._add(unseen=self._unseen(), fails_otherwise=True)
        if self.rev or outcome.flaky or not is_other:
            self._add(failure=outcome.failure, flaky=outcome.flaky)
            self._add(fails_on=probe.revision)

    def _compare(self, about: ToolchainRef, others: Sequence[ToolchainRef]) -> None:
        """Find a release with other results, where only another release can say what
        is right.
        """
        compiler = self.engine.compilers[self.case.compiler]
        compared = compiler.compared_with(self.case, about.revision.name)
        if compared is self.case or about.release is None:
            return
        refs = others or self.engine.registry.neighbours(about)
        probe = first_that(fails_each_time, self.engine, compared, refs, "compare")
        if probe is not None:
            self.case = compiler.compared_with(self.case, probe.revision.name)
            self._compile(about)

    def _look_elsewhere(self, refs: Sequence[ToolchainRef]) -> None:
        """Find the first of several toolchains that has the failure, or reads the
        program, for a case without it on the first one of all.
        """
        is_own = self.reported is None or self.known.is_reported_error
        is_unreadable = self.known.cause is Cause.INPUT and is_own
        wanted = _reads if is_unreadable else self._is_wanted
        look = partial(first_that, wanted, self.engine, self.case, refs[1:], "why")
        probe = self._step("history", look)
        if probe is not None and is_unreadable:
            self._add(reads=probe.revision)
        if probe is not None and self._is_wanted(probe.outcome):
            self._add(failure=probe.outcome.failure, fails_on=probe.revision)
        unseen = self._unseen()
        if self.known.failure or self.known.is_reported_error:
            unseen = None
        self._add(unseen=unseen)

    def _find_earlier_failure(self) -> None:
        """Add the failure that a release had before one fixed it."""
        request = BisectRequest(self.engine, self.case, repeats=1)
        bisection = self._step("bisect", partial(bisect_between, request))
        if bisection is None:
            return
        failure = bisection.failure
        if failure is None:
            self._add(bisection=bisection)
        elif self._is_wanted(Failed(failure)):
            fails_on = bisection.before
            if bisection.fixed:
                fails_on = bisection.fixed.before
            elif bisection.brought_failure:
                fails_on = bisection.after
            self._add(bisection=bisection, unseen=None)
            self._add(failure=failure, fails_on=fails_on)

    def _step(self, name: str, do: Callable[[], T]) -> T | None:
        """Do a step before the investigation, which gets the rest of the time."""
        seconds = _NEARLY_ALL * self._seconds_left()
        answer, ending = do_step(self.engine, name, seconds, do)
        if ending.status != "done":
            self._add(left=(*self.known.left, ending))
        return answer

    # Its investigation

    def _investigate(self, failure: Failure) -> None:
        """Add what each step finds out."""
        case = self.case
        bisection = self.known.bisection
        assert self.known.fails_on is not None
        bad = self.engine.registry.resolve(self.known.fails_on.name, case.compiler)
        finder = OriginFinder(self.engine, (None, bad))
        cases = {sibling.name: sibling for sibling in self.siblings}
        key = ClusterKey(case.compiler, case.target.backend, failure.signature)
        record = key.cluster([case.name], failure)
        setting = InvestigationSetting(self.engine, cases, finder)
        cluster = ClusterInWork(setting, record, case, failure)
        steps: Sequence[str] = _STEPS
        if bisection:
            cluster.add(culprit=bisection)
            cluster.pair = finder.pair_of(bisection)
            steps = _STEPS[1:]
        work = Investigation(setting, "", self._seconds_left(), steps, [cluster])
        for _ in work.run():
            record = cluster.record
        bisection = record.culprit
        if record.fix:
            bisection = record.fix
            if record.culprit and record.culprit.before:
                bisection = replace(record.culprit, fixed=record.fix.broke)
        left = [step for step in record.steps if step.status in ("left", "failed")]
        self._add(
            bisection=bisection,
            attribution=record.attribution,
            remedies=tuple(record.remedies),
            left=(*self.known.left, *left),
        )

    def _commands(self) -> list[str]:
        """Return the command lines that go on from here."""
        explanation = self.known
        commands = []
        if any(step.status == "left" for step in explanation.left):
            rev = []
            if self.rev:
                rev = ["-t", self.rev]
            commands.append(self._command("why", *rev, "--budget", _MORE_TIME))
        if explanation.failure and explanation.fails_on and not explanation.flaky:
            good = []
            kind = ["--find", "fix"]
            broke = explanation.broke
            bisection = explanation.bisection
            if broke and bisection and bisection.brought_failure:
                good = ["--good", broke[0].name]
                kind = []
            bad = explanation.fails_on.name
            commands.append(self._command("reduce", "-t", bad, *good))
            if broke:
                first, last = (end.name for end in broke)
                words = [*kind, "--good", first, "--bad", last, "--repo", "DIR"]
                commands.append(self._command("bisect", *words))
        elif explanation.unseen:
            commands.append(self._command("history"))
        return commands

    # What the steps share

    def _add(self, **answers: object) -> None:
        self.known = replace(self.known, **answers)  # type: ignore[arg-type]

    def _unseen(self) -> str | None:
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
        is_expected = self.reported is None or ends_as_expected(self.case, outcome)
        return is_expected and fails_each_time(outcome)

    def _seconds_left(self) -> float:
        return self.budget - (time.monotonic() - self.started)

    def _command(self, name: str, *more: str) -> str:
        """Return a command line about this case."""
        return shlex.join(["triage", name, *self.words, *more])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _reads(outcome: Outcome) -> bool:
    return outcome.cause is not Cause.INPUT
