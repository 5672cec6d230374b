"""Explain one failure: where it fails, since when, after which pass the compilers
diverge, and what works around it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from packaging.version import Version

from triage.attribute.divergence import AttributionRequest
from triage.attribute.result import Attribution
from triage.bisect.narrowed import narrowed
from triage.bisect.plan import bisect_between, rev_text
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.walk import bounds_of
from triage.classify import ClassifiedLog
from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.own_program import (
    case_with_own_program,
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
        found = self.bisection
        if found is None or found.before is None or found.after is None:
            return None
        pair = (found.before, found.after)
        return pair if found.brought_failure else pair[::-1]

    @property
    def broke(self) -> tuple[Revision, Revision] | None:
        """The good and the bad revision where the case broke, or was fixed, in whatever
        way; None if it never passed.
        """
        found = self.bisection
        if found is None or found.broke is None:
            return None
        pair = (found.broke.before, found.broke.after)
        return pair if found.brought_failure else pair[::-1]

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
    left: tuple[StepResult, ...] = ()
    named: Sequence[ToolchainRef] = ()
    """The toolchains that it names, and their neighbours."""

    def explain(self) -> Iterator[Explanation]:
        """Explain the case step by step, and yield what is known after each step.

        Raises:
            BadInput: The family has no releases, or there is no such revision.
            EnvironmentFailure: The toolchain cannot be obtained.
        """
        refs = self._toolchains()
        known = Explanation(
            self.case.name,
            self.case.compiler,
            target=_target_text(self.case),
            assumed=self.assumed,
        )
        known = self._with_outcome(
            known, self.engine.probe(ProbeJob(self.case, refs[0]))
        )
        yield known
        if known.failure is None:
            known = self._with_older_failure(known, refs)
        passes_on_several = known.passes and len(refs) > 1 and not known.unseen
        is_searched = self.rev or self.reported or passes_on_several or known.reads
        if known.flaky or (known.failure is None and is_searched):
            yield self._with_commands(known)
            return
        # without a failure there is nothing to do after the bisect
        share = 0.5 if known.failure else 0.9
        bisect = partial(self._bisect, known.fails_on)
        known = self._with_origin(known, self._step("bisect", share, bisect))
        yield known
        if known.failure is not None and known.fails_on is not None:
            yield from self._what_helps(known, known.failure, known.fails_on.name)
        else:
            yield self._with_commands(known)

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

    def _with_outcome(self, known: Explanation, probe: Probe) -> Explanation:
        outcome = probe.outcome
        known = replace(
            known, toolchain=probe.revision, passes=isinstance(outcome, Passed)
        )
        if isinstance(outcome, NoAnswer):
            reason = outcome.reason
            if outcome.failure and outcome.failure.location:
                reason = f"{outcome.failure.location.rpartition('/')[2]}: {reason}"
            why = NoAnswer(outcome.cause, reason, outcome.failure)
            return replace(known, unanswered=why)
        if isinstance(outcome, Passed):
            return known
        if not self._is_wanted(outcome):
            known = replace(known, unseen=self._unseen(), fails_otherwise=True)
        if self.rev or outcome.flaky or not known.fails_otherwise:
            known = _with_failure(known, probe)
        return known

    def _unseen(self) -> str | None:
        """Return the class of the failure that a text reports or a recipe expects, or
        `failure`; None if there is none. A toolchain that was asked for may lack what a
        recipe expects of others.
        """
        if self.reported is None and self.rev:
            return None
        if not (self.reported or self.case.expect):
            return None
        return expected_class(self.case) or "failure"

    def _is_wanted(self, outcome: Outcome) -> bool:
        """Return whether a case fails and, if it is from a text that reports a failure,
        with that one.
        """
        is_expected = self.reported is None or ends_as_expected(self.case, outcome)
        return is_expected and fails_each_time(outcome)

    def _with_older_failure(
        self, known: Explanation, refs: Sequence[ToolchainRef]
    ) -> Explanation:
        """Add the first of several toolchains that has the failure, or reads the
        program, for a case without it on the first one of all.
        """
        is_unreadable = known.cause is Cause.INPUT and self.reported is None
        wanted = _reads if is_unreadable else self._is_wanted
        look = partial(self._first_that, wanted, refs)
        found: Probe | None = self._step("history", _NEARLY_ALL, look)
        if found is not None and is_unreadable:
            known = replace(known, reads=found.revision)
        if found is not None and self._is_wanted(found.outcome):
            known = _with_failure(known, found)
        known = replace(known, case=self.case.name)
        if self.rev is None:
            known = replace(known, releases=self._tried().known())
        unseen = self._unseen()
        why = known.unanswered
        is_seen = known.failure or (why and ends_as_expected(self.case, why))
        if is_seen or not unseen:
            return replace(known, unseen=None)
        notes = ["it was only compiled, not run"] if self.case.run is None else []
        if self.left_out:
            notes.append(f"{' '.join(self.left_out)} is left out")
        return replace(known, unseen=unseen, notes=tuple(notes))

    def _first_that(
        self, is_wanted: Callable[[Outcome], bool], refs: Sequence[ToolchainRef]
    ) -> Probe | None:
        """Return the probe of the first of several toolchains with a wanted outcome, if
        need be with a program that it makes itself. The first one was probed.
        """
        found = first_that(is_wanted, self.engine, self.case, refs[1:], "why")
        if found is not None or self.reported is not None:
            return found
        by_age = sorted(refs, key=lambda ref: Version(ref.revision.name))
        own = case_with_own_program(self.engine, self.case, by_age, ())
        if own is None:
            return None
        self.case = own
        program = self.engine.planner.input_of(own)
        # `reduce` and others find the same program
        if isinstance(program, Prepared) and own.run is None:
            self.words = [str(program.path), "--backend", own.compiler]
        return first_that(is_wanted, self.engine, own, by_age[::-1], "why")

    def _tried(self) -> TriedReleases:
        return TriedReleases.recall(self.engine, self.case, self.named)

    def _with_origin(self, known: Explanation, found: Bisection | None) -> Explanation:
        """Add the answer of a bisect, or what is known of one that was not finished,
        and the failure and its toolchain if none was known.
        """
        tried = self._tried()
        if found is None and known.failure and known.fails_on:
            found = narrowed(self.case, tried, known.failure, known.fails_on)
        known = replace(known, releases=tried.known())
        if found is None or known.failure or found.failure is None:
            return replace(known, bisection=found)
        if not self._is_wanted(Failed(found.failure)):
            return known
        fails_on = found.after if found.brought_failure else found.before
        if found.fixed:
            fails_on = found.fixed.before
        known = replace(known, bisection=found, failure=found.failure, unseen=None)
        return replace(known, fails_on=fails_on, notes=())

    def _what_helps(
        self, known: Explanation, failure: Failure, toolchain: str
    ) -> Iterator[Explanation]:
        """Add the pass after which the compilers diverge, then what works around the
        failure and the next commands.
        """
        registry, family = self.engine.registry, self.case.compiler
        if known.pair and self.engine.compilers[family].passes is not None:
            good, bad = (
                registry.resolve(revision.name, family) for revision in known.pair
            )
            pair = AttributionRequest(self.case, good, bad, excerpts=False)
            compare = partial(diverging_pass, self.engine, pair, failure)
            known = replace(known, attribution=self._step("attribute", 0.5, compare))
            yield replace(known, left=self.left)
        is_regression = known.bisection is not None and known.bisection.brought_failure
        good_name = known.broke[0].name if known.broke and is_regression else None
        request = RemedyRequest(
            self.case,
            registry.resolve(toolchain, family),
            registry.resolve(good_name, family) if good_name else None,
            _REMEDIES_TRIED,
            self.siblings,
            seconds=self._seconds_left() / 2,  # the others are for other compilers
        )
        find = partial(working_remedies, self.engine, request)
        remedies: Remedies | None = self._step("remedy", 1.0, find)
        better = ["--good", good_name] if good_name else []
        commands = [
            *self._commands_for_left(),
            self._command("reduce", "-t", toolchain, *better),
        ]
        if known.broke:
            kind = [] if is_regression else ["--find", "fix"]
            before, after = (revision.name for revision in known.broke)
            ends = ["--good", before, "--bad", after, "--repo", "DIR"]
            commands.append(self._command("bisect", *kind, *ends))
        yield replace(
            known,
            remedies=remedies,
            advice=() if remedies else self._advice(failure),
            left=self.left,
            next=tuple(commands[:2]),
        )

    def _step(
        self, name: str, share: float, do: Callable[[], T | NoAnswer]
    ) -> T | None:
        """Do a step in a share of the time that is left, and return its answer; note
        why it has none.
        """
        answer, done = do_step(self.engine, name, share * self._seconds_left(), do)
        if done.status in ("left", "failed"):
            self.left += (done,)
        return answer

    def _bisect(self, fails_on: Revision | None) -> Bisection:
        registry, family = self.engine.registry, self.case.compiler
        request = BisectRequest(self.engine, self.case, repeats=1)
        if fails_on is None:
            return bisect_between(request)
        ref = registry.resolve(fails_on.name, family)
        if ref.is_nightly:
            before = registry.neighbours(ref)[0].revision.name
            return bisect_between(request, before, rev_text(ref))
        newest = registry.releases(family)[-1].revision.name
        if not ref.is_release:
            return bisect_between(request, newest, fails_on.name)
        found = bisect_between(request, None, fails_on.name)
        if newest == fails_on.name:
            return found
        fix = bisect_between(replace(request, kind=BisectKind.FIX), fails_on.name)
        return replace(found, fixed=fix.broke) if found.before else fix

    def _advice(self, failure: Failure) -> tuple[str, ...]:
        """Return the advice for this failure: `remedy` tried flags already, and a flag
        can only be removed where it is set.
        """
        flags = {flag.text.partition("=")[0] for flag in self.case.flags}
        texts = failure.advice(self.case.compiler)
        fitting = [
            text
            for text in texts
            if "--" not in text or any(flag in text for flag in flags)
        ]
        return tuple(fitting[:_ADVICE])

    def _seconds_left(self) -> float:
        return self.started + self.budget - time.monotonic()

    def _with_commands(self, known: Explanation) -> Explanation:
        """Add the commands that go on where the failure was not found."""
        commands = [*self._commands_for_left()]
        if known.unseen:
            failing = [one.last for one in known.releases if one.outcome == "failed"]
            if failing:
                commands.append(self._command("why", "-t", failing[-1].name))
            if any(one.outcome == "not tried" for one in known.releases):
                commands.append(self._command("history", "--every"))
        return replace(known, left=self.left, next=tuple(commands[:2]))

    def _commands_for_left(self) -> tuple[str, ...]:
        """Return the command that does the steps that are left, if there are any."""
        if not any(one.status == "left" for one in self.left):
            return ()
        rev = ["-t", self.rev] if self.rev else []
        return (self._command("why", *rev, "--budget", _MORE_TIME),)

    def _command(self, name: str, *options: str) -> str:
        return shlex.join(["triage", name, *self.words, *options])


def _reads(outcome: Outcome) -> bool:
    return outcome.cause is not Cause.INPUT


def _with_failure(known: Explanation, probe: Probe) -> Explanation:
    outcome = probe.outcome
    return replace(
        known, failure=outcome.failure, flaky=outcome.flaky, fails_on=probe.revision
    )


def _target_text(case: Case) -> str:
    return " ".join(filter(None, (case.target.backend, case.target.chip)))
