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

from triage.attribute.divergence import AttributionRequest
from triage.attribute.result import Attribution
from triage.bisect.plan import bisect_between
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection, BisectKind
from triage.classify import ClassifiedLog
from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.own_program import case_with_own_program, newest_that_fails
from triage.execution.task import ProbeJob
from triage.investigate.result import StepResult
from triage.investigate.steps import diverging_pass, do_step, working_remedies
from triage.model.case import Case
from triage.model.errors import BadInput, EnvironmentFailure
from triage.model.json_form import UNPRINTED, in_json
from triage.model.outcome import (
    UNANSWERED,
    Cause,
    Failed,
    Failure,
    MayLackAnswer,
    NoAnswer,
    Passed,
    Probe,
)
from triage.model.revision import Revision
from triage.remedy.result import Remedies
from triage.remedy.search import RemedyRequest
from triage.toolchains.registry import ToolchainRef, recorded_rev

_REMEDIES_TRIED = 40  # candidates
_CONFIDENCE = 0.9  # of a bisect, which then probes each pair again once
_ADVICE = 2  # lines
T = TypeVar("T")
_NEARLY_ALL = 0.95  # of the time that is left
_MORE_TIME = "10m"  # in the command that goes on after a spent budget


@dataclass(frozen=True, slots=True)
class KnownReleases:
    """Neighbouring releases on which a case ended alike. outcome: passed, failed,
    untestable, or not tried.
    """

    outcome: str
    first: Revision
    last: Revision


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
    """How the case ends on the installed releases, if it passes on the newest."""
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
    unanswered: NoAnswer | None = field(default=None, metadata=UNANSWERED)
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
        return found.after

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
        """The good and the bad revision where the case broke, in whatever way; those of
        the fix if it always failed.
        """
        found = self.bisection
        if found and found.broke:
            return (found.broke.before, found.broke.after)
        return self.pair

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
        if self.failure is None:
            return "passes" if self.passes else "inconclusive"
        return "fixed" if self.fixed else "fails"


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
    """The toolchain (default: one of `reported`, else the newest installed release)."""
    budget: float
    """Seconds for all steps after the first compile."""
    started: float
    """The time from which on the budget counts, as `time.monotonic` has it."""
    assumed: tuple[str, ...] = ()
    """See `Explanation.assumed`."""
    reported: Sequence[str] = ()
    """Revisions that a text names, which are tried first."""
    left: tuple[StepResult, ...] = ()

    def explain(self) -> Iterator[Explanation]:
        """Explain the case step by step, and yield what is known after each step.

        Raises:
            BadInput: The family has no releases, or there is no such revision.
            EnvironmentFailure: The toolchain cannot be obtained.
        """
        registry, family = self.engine.registry, self.case.compiler
        stored: Sequence[ToolchainRef] = ()
        if self.rev is None:
            self.rev = self._reported_that_fails()
        if self.rev is None:
            stored = registry.installed_releases(family)
        ref = stored[-1] if stored else registry.resolve(self.rev or "latest", family)
        known = self._with_outcome(
            Explanation(
                self.case.name,
                family,
                target=_target_text(self.case),
                assumed=self.assumed,
            ),
            self.engine.probe(self.case, ref),
        )
        yield known
        if known.passes:
            known = self._with_older_failure(known, stored or [ref])
        elif known.cause is Cause.INPUT and len(stored) > 1:
            known = self._with_newest_reader(known, stored)
        if known.releases and not known.failure:
            yield replace(known, left=self.left, next=self._commands_for_left())
            return
        if known.flaky or (self.rev and known.failure is None):
            return
        # without a failure there is nothing to do after the bisect
        share = 0.5 if known.failure else 0.9
        found: Bisection | None = self._step("bisect", share, self._bisect)
        known = self._with_origin(replace(known, bisection=found))
        yield known
        if known.failure is not None and known.fails_on is not None:
            yield from self._what_helps(known, known.failure, known.fails_on.name)
        elif self.left:
            yield replace(known, left=self.left, next=self._commands_for_left())

    def _with_outcome(self, known: Explanation, probe: Probe) -> Explanation:
        outcome = probe.outcome
        known = replace(
            known, toolchain=probe.revision, passes=isinstance(outcome, Passed)
        )
        if isinstance(outcome, Failed):
            return replace(
                known,
                failure=outcome.failure,
                flaky=outcome.flaky,
                fails_on=probe.revision,
            )
        if isinstance(outcome, Passed):
            return known
        reason = outcome.reason
        if outcome.failure and outcome.failure.location:
            reason = f"{outcome.failure.location.rpartition('/')[2]}: {reason}"
        return replace(known, unanswered=NoAnswer(outcome.cause, reason))

    def _with_older_failure(
        self, known: Explanation, refs: Sequence[ToolchainRef]
    ) -> Explanation:
        """Add the newest release that fails, for a case that passes on the last one."""
        failing: Probe | None = self._step(
            "history", _NEARLY_ALL, lambda: self._newest_that_fails(refs)
        )
        if failing is not None:
            self.rev = failing.revision.name
            known = replace(
                known,
                failure=failing.outcome.failure,
                fails_on=failing.revision,
                case=self.case.name,
            )
        if len(refs) > 1:
            known = replace(known, releases=self._known_releases(refs))
        return known

    def _with_newest_reader(
        self, known: Explanation, refs: Sequence[ToolchainRef]
    ) -> Explanation:
        """Add the newest release that reads the program, for a case that the last one
        cannot read.
        """
        reads: Probe | None = self._step(
            "history", _NEARLY_ALL, lambda: self._newest_that_reads(refs[:-1])
        )
        if reads is None:
            return known
        known = replace(known, reads=reads.revision)
        if isinstance(reads.outcome, Failed) and not reads.outcome.flaky:
            self.rev = reads.revision.name
            known = replace(
                known, failure=reads.outcome.failure, fails_on=reads.revision
            )
        return replace(known, releases=self._known_releases(refs))

    def _newest_that_reads(
        self, refs: Sequence[ToolchainRef]
    ) -> Probe | NoAnswer | None:
        """Return the probe of a release that reads the program while the next one does
        not; None if no release reads it.

        The releases are halved. If the syntax changed twice, newer ones may read it,
        too.
        """
        newest: Probe | None = None
        low, high = 0, len(refs)
        while low < high:
            middle = (low + high) // 2
            probe = self.engine.probe(self.case, refs[middle])
            outcome = probe.outcome
            if not isinstance(outcome, NoAnswer):
                newest, low = probe, middle + 1
            elif outcome.cause is Cause.INPUT:
                high = middle
            else:
                return outcome
        return newest

    def _reported_that_fails(self) -> str | None:
        """Return the first revision that the text names and on which the case fails."""
        registry, family = self.engine.registry, self.case.compiler
        for name in self.reported:
            try:
                ref = registry.resolve(recorded_rev(name), family)
                probe = self.engine.probe(self.case, ref)
            except (BadInput, EnvironmentFailure) as error:
                self.engine.progress.note(f"{name}, which the text names: {error}")
                continue
            if isinstance(probe.outcome, Failed) and not probe.outcome.flaky:
                return name
        return None

    def _known_releases(
        self, refs: Sequence[ToolchainRef]
    ) -> tuple[KnownReleases, ...]:
        """Return what the cache knows of the case on releases, oldest first."""
        known: list[KnownReleases] = []
        for ref in refs:
            probe = self.engine.recall(ProbeJob(self.case, ref))
            outcome = probe.outcome.plain_status if probe else "not tried"
            if known and known[-1].outcome == outcome:
                known[-1] = replace(known[-1], last=ref.revision)
            else:
                known.append(KnownReleases(outcome, ref.revision, ref.revision))
        return tuple(known)

    def _newest_that_fails(self, refs: Sequence[ToolchainRef]) -> Probe | None:
        """Return the probe of the newest of several releases that fails, if need be
        with a program that it makes itself.
        """
        found = newest_that_fails(self.engine, self.case, refs[:-1], "why")
        if found is not None:
            return found
        own = case_with_own_program(self.engine, self.case, refs, ())
        if own is None:
            return None
        self.case = own
        program = self.engine.planner.input_of(own)
        # `reduce` and others find the same program
        if isinstance(program, Prepared) and own.run is None:
            self.words = [str(program.path), "--backend", own.compiler]
        return newest_that_fails(self.engine, own, refs, "why")

    def _with_origin(self, known: Explanation) -> Explanation:
        """Add the failure that the bisect found, and the toolchain that has it."""
        found = known.bisection
        if found is None or found.failure is None:
            return known
        last_bad = None
        if found.fixed:
            last_bad = found.fixed.before
        elif not found.brought_failure:
            last_bad = found.before
        if self.rev is None and last_bad:
            return replace(known, failure=found.failure, fails_on=last_bad)
        return replace(
            known,
            failure=known.failure or found.failure,
            fails_on=known.fails_on or found.after,
        )

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

    def _bisect(self) -> Bisection:
        registry, family = self.engine.registry, self.case.compiler
        request = BisectRequest(self.engine, self.case, confidence=_CONFIDENCE)
        if self.rev is None:
            return bisect_between(request)
        ref = registry.resolve(self.rev, family)
        if not ref.is_release:
            return bisect_between(
                request, registry.resolve("latest", family).revision.name, self.rev
            )
        found = bisect_between(request, None, self.rev)
        newest = registry.releases(family)[-1].revision.name
        if newest == ref.revision.name:
            return found
        fix = bisect_between(replace(request, kind=BisectKind.FIX), self.rev)
        return replace(found, fixed=fix.transition()) if found.before else fix

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

    def _commands_for_left(self) -> tuple[str, ...]:
        """Return the command that does the steps that are left, if there are any."""
        if not any(one.status == "left" for one in self.left):
            return ()
        rev = ["-t", self.rev] if self.rev else []
        return (self._command("why", *rev, "--budget", _MORE_TIME),)

    def _command(self, name: str, *options: str) -> str:
        return shlex.join(["triage", name, *self.words, *options])


def _target_text(case: Case) -> str:
    return " ".join(filter(None, (case.target.backend, case.target.chip)))
