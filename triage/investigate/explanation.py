"""Explain one failure: where it fails, since when, after which pass the compilers
diverge, and what works around it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from triage.attribute.divergence import AttributionRequest
from triage.attribute.result import Attribution
from triage.bisect.narrowed import narrowed
from triage.bisect.plan import bisect_between, rev_text
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection, BisectKind, Transition
from triage.bisect.walk import bounds_of
from triage.classify import ClassifiedLog
from triage.execution.engine import Engine
from triage.execution.own_program import (
    ends_as_expected,
    fails_each_time,
    first_that,
)
from triage.execution.results import KnownReleases, TriedReleases
from triage.execution.task import ProbeJob
from triage.investigate.result import StepResult
from triage.investigate.steps import diverging_pass, do_step, working_remedies
from triage.model.case import Case
from triage.model.json_form import UNPRINTED, in_json
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    MayLackAnswer,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.model.revision import Revision
from triage.recipes.expectations import expected_class
from triage.remedy.result import Remedies
from triage.remedy.search import RemedyRequest
from triage.toolchains.registry import ToolchainRef

_REMEDIES_TRIED = 40  # candidates
_ADVICE = 2  # lines
T = TypeVar("T")
_NEARLY_ALL = 0.95  # of the time that is left
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
    notes: tuple[str, ...] = ()
    """What may keep that failure from being seen."""
    failure: Failure | None = None
    flaky: bool = False
    fails_on: Revision | None = None
    """The toolchain of the failure: the one above, or the newest release that fails."""
    bisection: Bisection | None = None
    attribution: Attribution | None = None
    remedies: Remedies | None = None
    advice: tuple[str, ...] = ()
    """Advice for the failure class, if no remedy was found."""
    left: tuple[StepResult, ...] = ()
    """Steps without a result, each with the reason."""
    next: tuple[str, ...] = ()
    """Command lines that go on from here."""
    unanswered: NoAnswer | None = field(default=None, metadata=UNPRINTED)
    """Why the toolchain cannot test the case, or why there is nothing to explain."""
    reads: Revision | None = None
    """The newest release known to read a program that the newest one of all cannot."""
    log: ClassifiedLog | None = None
    """The failures in a text without a program."""

    @property
    def fixed(self) -> Revision | None:
        """The first release with the fix."""
        found = self.bisection
        if found is None:
            return None
        if found.fixed:
            return found.fixed.after
        if found.brought_failure:
            return None
        return (found.broke or found).after

    @property
    def pair(self) -> tuple[Revision, Revision] | None:
        """The good and the bad revision around the change that was found."""
        return self._good_and_bad(self.bisection)

    @property
    def broke(self) -> tuple[Revision, Revision] | None:
        """The good and the bad revision where the case broke, or was fixed, in whatever
        way; None if it never passed.
        """
        return self._good_and_bad(self.bisection.broke if self.bisection else None)

    def _good_and_bad(
        self, change: Bisection | Transition | None
    ) -> tuple[Revision, Revision] | None:
        if not (self.bisection and change and change.before and change.after):
            return None
        if self.bisection.brought_failure:
            return change.before, change.after
        return change.after, change.before

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
    left_out: tuple[str, ...] = ()
    """Flags and variables of the text that are not used."""
    named: Sequence[ToolchainRef] = ()
    """The toolchains that it names, and their neighbours."""

    def __post_init__(self) -> None:
        case = self.case
        target = " ".join(filter(None, (case.target.backend, case.target.chip)))
        self.known = Explanation(
            case.name, case.compiler, target=target, assumed=self.assumed
        )

    def explain(self) -> Iterator[Explanation]:
        """Explain the case step by step, and yield what is known after each step.

        Raises:
            BadInput: The family has no releases, or there is no such revision.
            EnvironmentFailure: The toolchain cannot be obtained.
        """
        refs = self._toolchains()
        self._compile(refs[0])
        yield self.known
        if self.known.failure is None:
            self._look_elsewhere(refs)
        known = self.known
        passes_on_several = known.passes and len(refs) > 1 and not known.unseen
        is_known = self.rev or self.reported or passes_on_several or known.reads
        if not known.flaky and (known.failure or not is_known):
            self._find_origin()
            yield self.known
            failure, fails_on = self.known.failure, self.known.fails_on
            if failure and fails_on:
                self._compare_passes(failure)
                yield self.known
                self._find_remedies(failure, fails_on.name)
        yield replace(self.known, next=tuple(self._commands()[:2]))

    def _toolchains(self) -> list[ToolchainRef]:
        """Return what to try: the toolchain that was asked for. Else those that a text
        names, the newest installed one, the releases at which a recipe expects a
        change, and the other installed ones.
        """
        registry, family = self.engine.registry, self.case.compiler
        if self.rev is not None:
            return [registry.resolve(self.rev, family)]
        stored = [*reversed(registry.installed_releases(family))]
        self.named = registry.reported(family, self.reported or ())
        if not stored and not self.named:
            stored = [registry.resolve("latest", family)]
        expected: Sequence[ToolchainRef] = ()
        if any(item.since or item.until for item in self.case.expect):
            releases = registry.releases(family)
            around = sorted(bounds_of(self.case, releases), reverse=True)
            expected = [releases[index] for index in around]
        refs = (*self.named, *stored[:1], *expected, *stored[1:])
        return list({ref.revision.name: ref for ref in refs}.values())

    # The steps

    def _compile(self, ref: ToolchainRef) -> None:
        """Compile the case on the first toolchain."""
        probe = self.engine.probe(ProbeJob(self.case, ref))
        outcome = probe.outcome
        self._add(toolchain=probe.revision, passes=isinstance(outcome, Passed))
        if isinstance(outcome, NoAnswer):
            self._add(unanswered=outcome)
        if not isinstance(outcome, Failed):
            return
        is_other = not self._is_wanted(outcome)
        if is_other:
            self._add(unseen=self._unseen(), fails_otherwise=True)
        if self.rev or outcome.flaky or not is_other:
            self._add_failure(probe)

    def _look_elsewhere(self, refs: Sequence[ToolchainRef]) -> None:
        """Find the first of several toolchains that has the failure, or reads the
        program, for a case without it on the first one of all.
        """
        is_unreadable = self.known.cause is Cause.INPUT and self.reported is None
        wanted = _reads if is_unreadable else self._is_wanted
        look = partial(self._first_that, wanted, refs)
        probe: Probe | None = self._step("history", _NEARLY_ALL, look)
        if probe is not None and is_unreadable:
            self._add(reads=probe.revision)
        if probe is not None and self._is_wanted(probe.outcome):
            self._add_failure(probe)
        self._add(case=self.case.name)
        if self.rev is None:
            self._add(releases=self._tried().known())
        known, unseen = self.known, self._unseen()
        why = known.unanswered
        if known.failure or (why and ends_as_expected(self.case, why)):
            unseen = None
        notes = []
        if unseen and self.case.run is None:
            notes.append("it was only compiled, not run")
        if unseen and self.left_out:
            notes.append(f"{' '.join(self.left_out)} is left out")
        self._add(unseen=unseen, notes=tuple(notes))

    def _first_that(
        self, is_wanted: Callable[[Outcome], bool], refs: Sequence[ToolchainRef]
    ) -> Probe | None:
        """Return the first probe with a wanted outcome, but for the first toolchain."""
        return first_that(is_wanted, self.engine, self.case, refs[1:], "why")

    def _find_origin(self) -> None:
        """Add the answer of a bisect, or what is known of one that was not finished,
        and the failure and its toolchain if none was known.
        """
        known = self.known
        # without a failure there is nothing to do after the bisect
        share = 0.5 if known.failure else 0.9
        bisection = self._step("bisect", share, self._bisect)
        tried = self._tried()
        if bisection is None and known.failure and known.fails_on:
            bisection = narrowed(self.case, tried, known.failure, known.fails_on)
        self._add(releases=tried.known())
        if bisection is None or known.failure or bisection.failure is None:
            self._add(bisection=bisection)
        elif self._is_wanted(Failed(bisection.failure)):
            fails_on = bisection.before
            if bisection.fixed:
                fails_on = bisection.fixed.before
            elif bisection.brought_failure:
                fails_on = bisection.after
            failure = bisection.failure
            self._add(bisection=bisection, failure=failure, fails_on=fails_on)
            self._add(unseen=None, notes=())

    def _bisect(self) -> Bisection:
        registry, family = self.engine.registry, self.case.compiler
        request = BisectRequest(self.engine, self.case, repeats=1)
        fails_on = self.known.fails_on
        if fails_on is None:
            return bisect_between(request)
        ref = registry.resolve(fails_on.name, family)
        newest = registry.releases(family)[-1].revision.name
        if not ref.is_release:
            return bisect_between(request, newest, rev_text(ref))
        broke = bisect_between(request, None, fails_on.name)
        if newest == fails_on.name:
            return broke
        fix = bisect_between(replace(request, kind=BisectKind.FIX), fails_on.name)
        return replace(broke, fixed=fix.broke) if broke.before else fix

    def _compare_passes(self, failure: Failure) -> None:
        """Add the pass after which the compilers diverge."""
        registry, family = self.engine.registry, self.case.compiler
        if not self.known.pair or self.engine.compilers[family].passes is None:
            return
        good, bad = (registry.resolve(end.name, family) for end in self.known.pair)
        request = AttributionRequest(self.case, good, bad, excerpts=False)
        compare = partial(diverging_pass, self.engine, request, failure)
        self._add(attribution=self._step("attribute", 0.5, compare))

    def _find_remedies(self, failure: Failure, toolchain: str) -> None:
        """Add what works around the failure, or advice."""
        resolve, family = self.engine.registry.resolve, self.case.compiler
        good = self._good_name()
        request = RemedyRequest(
            self.case,
            resolve(toolchain, family),
            resolve(good, family) if good else None,
            _REMEDIES_TRIED,
            self.siblings,
            seconds=self._seconds_left() / 2,  # the others are for other compilers
        )
        find = partial(working_remedies, self.engine, request)
        remedies: Remedies | None = self._step("remedy", 1.0, find)
        self._add(remedies=remedies)
        if remedies is None:
            self._add(advice=self._advice(failure))

    def _advice(self, failure: Failure) -> tuple[str, ...]:
        """Return the advice for this failure: `remedy` tried flags already, and a flag
        can only be removed where it is set.
        """
        flags = {flag.text.partition("=")[0] for flag in self.case.flags}
        fitting = [
            text
            for text in failure.advice(self.case.compiler)
            if "--" not in text or any(flag in text for flag in flags)
        ]
        return tuple(fitting[:_ADVICE])

    def _commands(self) -> list[str]:
        """Return the command lines that go on from here."""
        known, commands = self.known, []
        if any(one.status == "left" for one in known.left):
            rev: list[str] = []
            if self.rev:
                rev = ["-t", self.rev]
            commands.append(self._command("why", *rev, "--budget", _MORE_TIME))
        if known.failure and known.fails_on and not known.flaky:
            good = self._good_name()
            better = ["--good", good] if good else []
            commands.append(self._command("reduce", "-t", known.fails_on.name, *better))
            if known.broke:
                ends = [known.broke[0].name, "--bad", known.broke[1].name]
                kind = [] if good else ["--find", "fix"]
                words = [*kind, "--good", *ends, "--repo", "DIR"]
                commands.append(self._command("bisect", *words))
        elif known.unseen:
            failing = [one.last for one in known.releases if one.outcome == "failed"]
            if failing:
                commands.append(self._command("why", "-t", failing[-1].name))
            if any(one.outcome == "not tried" for one in known.releases):
                commands.append(self._command("history", "--every"))
        return commands

    # What the steps share

    def _add(self, **answers: Any) -> None:
        self.known = replace(self.known, **answers)

    def _add_failure(self, probe: Probe) -> None:
        outcome = probe.outcome
        self._add(failure=outcome.failure, flaky=outcome.flaky, fails_on=probe.revision)

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

    def _good_name(self) -> str | None:
        """Return the last release before the failure."""
        bisection, broke = self.known.bisection, self.known.broke
        if bisection and broke and bisection.brought_failure:
            return broke[0].name
        return None

    def _tried(self) -> TriedReleases:
        return TriedReleases.recall(self.engine, self.case, self.named)

    def _step(
        self, name: str, share: float, do: Callable[[], T | NoAnswer]
    ) -> T | None:
        """Do a step in a share of the time that is left, and return its answer; note
        why it has none.
        """
        answer, done = do_step(self.engine, name, share * self._seconds_left(), do)
        if done.status in ("left", "failed"):
            self._add(left=(*self.known.left, done))
        return answer

    def _seconds_left(self) -> float:
        return self.started + self.budget - time.monotonic()

    def _command(self, name: str, *options: str) -> str:
        return shlex.join(["triage", name, *self.words, *options])


def _reads(outcome: Outcome) -> bool:
    return outcome.cause is not Cause.INPUT
