"""Find remedies of a failing case: try changes, narrow them, check the best on other
compilers, and measure what they cost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import NamedTuple

from triage.compilers.invocation import flag_name
from triage.compilers.registry import family_of
from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import Interrupted, TriageError
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Passed
from triage.model.probe_result import ProbeResult
from triage.recipes.values import parse_version
from triage.remedy.candidates import (
    ChangedCase,
    Situation,
    known_remedies,
    own_options,
)
from triage.remedy.result import Remedies, Remedy, RemedyCheck, Weakness
from triage.remedy.static_shapes import static_program
from triage.toolchains.registry import ToolchainRef

_MOST_REPORTED = 5  # remedies, each of which is tried on other compilers, too


@dataclass(frozen=True, slots=True)
class RemedyRequest:
    """The case to find remedies for. It fails on `bad`, and passes on `good`."""

    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None = None
    budget: int = 100
    """The maximum number of candidates."""
    siblings: Sequence[Case] = ()
    """The recipe's cases."""
    seconds: float = inf
    """The time for trying candidates."""


class Trial(NamedTuple):
    """A changed case and its result."""

    candidate: ChangedCase
    result: ProbeResult

    @property
    def is_good(self) -> bool:
        """Whether a change works that keeps the program and its checks."""
        is_weak = self.candidate.change.weakness is not Weakness.NONE
        return self.result.passed and not is_weak

    @property
    def remedy(self) -> Remedy:
        return Remedy(**asdict(self.candidate.change), result=self.result)


def find_remedies(engine: Engine, request: RemedyRequest) -> Remedies:
    """Try changes that may make the case compile.

    Raises:
        EnvironmentFailure: A compiler cannot be obtained.
    """
    deadline = time.monotonic() + request.seconds
    failing = engine.probe(ProbeJob(request.case, request.bad))
    case = request.case
    toolchain = failing.revision
    outcome = failing.outcome
    if isinstance(outcome, Passed):
        needless = NoAnswer(Cause.NEEDLESS, f"it passes on {toolchain.name}")
        return Remedies(case.name, toolchain, needless)
    failures = [outcome.failure] if outcome.failure else []
    if isinstance(outcome, Failed):
        failures += outcome.others
    # else a flag of the recipe that the compiler lacks can be left out
    elif outcome.cause is not Cause.FLAG or not failures:
        return Remedies(case.name, toolchain, outcome)
    situation = _situation(engine, request, failures)
    search = _Search(engine, request, situation, deadline, [])
    answer = Remedies(case.name, toolchain, failure=failures[0])
    groups = (known_remedies(situation), own_options(situation))
    try:
        for group in groups:
            search.try_all(group)
        answer = search.checked(answer, search.best())
    except Interrupted:
        if time.monotonic() < deadline:
            raise
        # what works so far is known, although nothing else is known of it
        remedies = [trial.remedy for trial in search.best()]
        answer = replace(answer, remedies=tuple(remedies))
    tried = len(search.trials)
    left = 0
    if not any(trial.is_good for trial in search.trials):
        texts = {candidate.change.text for group in groups for candidate in group}
        left = len(texts) - tried
    answer = replace(answer, tried=tried, left=left)
    if answer.remedies:
        return answer
    why = f"{tried} of {tried + left} candidates tried, none helps"
    if not tried + left:
        why = "nothing to try is known for this failure"
    if answer.upgrade:
        why += f"; {answer.upgrade.name} needs none"
    cause = Cause.NOT_FOUND
    if time.monotonic() > deadline:
        cause = Cause.TIME
    return replace(answer, unanswered=NoAnswer(cause, why))


def _situation(
    engine: Engine, request: RemedyRequest, failures: Sequence[Failure]
) -> Situation:
    case = request.case
    obtain = engine.registry.obtain
    toolchain = obtain(request.bad)
    hints = family_of(case).remedies
    prepared = engine.planner.input_of(case, toolchain)
    devices: frozenset[str] = frozenset()
    if hints and isinstance(prepared, Prepared):
        devices = hints.devices_named(prepared.path)
    situation = Situation(
        case,
        failures,
        toolchain,
        hints,
        devices,
        request.siblings,
        good=obtain(request.good) if request.good else None,
    )
    if any(rule.rewrite for _, rule in situation.rules()):
        static = static_program(engine, case, toolchain)
        return replace(situation, static=static)
    return situation


@dataclass(frozen=True, slots=True)
class _Search:
    engine: Engine
    request: RemedyRequest
    situation: Situation
    deadline: float
    trials: list[Trial]

    def try_all(self, candidates: Sequence[ChangedCase]) -> None:
        """Try candidates until the budget or the time is used up. Those that are not
        the first ones end where something works that is not a makeshift.
        """
        tried = {trial.candidate.change.text for trial in self.trials}
        new = [
            candidate for candidate in candidates if candidate.change.text not in tried
        ]
        new = new[: max(0, self.request.budget - len(tried))]
        size = 2 * self.engine.jobs
        for start in range(0, len(new), size):
            is_needless = tried and any(trial.is_good for trial in self.trials)
            if is_needless or time.monotonic() > self.deadline:
                return
            self.trials.extend(self._probed(new[start : start + size]))

    def _probed(self, candidates: Sequence[ChangedCase]) -> Iterator[Trial]:
        """Compile with each change, and yield the trials in the same order."""
        jobs = [ProbeJob(candidate.case, self.request.bad) for candidate in candidates]
        probes = self.engine.probe_all(jobs, "remedies")
        results = {id(probe.case): result_of(probe) for probe in probes}
        for candidate in candidates:
            yield Trial(candidate, results[id(candidate.case)])

    def best(self) -> list[Trial]:
        """Return the best trials, of those that change the same flags the first."""
        first: dict[object, Trial] = {}
        # to leave out a flag is milder than to give it another value
        mildest = sorted(
            self.trials, key=lambda trial: not trial.candidate.change.dropped_flags
        )
        for trial in mildest:
            change = trial.candidate.change
            names = frozenset(map(flag_name, (*change.flags, *change.dropped_flags)))
            if trial.result.passed:
                first.setdefault(names or change.text, trial)
        best = sorted(first.values(), key=lambda trial: trial.remedy.rank)
        return best[:_MOST_REPORTED]

    def checked(self, answer: Remedies, best: Sequence[Trial]) -> Remedies:
        """Add the best remedies, tried on the good compiler and the newest release and
        measured, and the newest release if it needs none.
        """
        candidates = [trial.candidate for trial in best]
        others = self._other_toolchains()
        jobs = [
            ProbeJob(candidate.case, self.request.bad, resources=True)
            for candidate in candidates
        ]
        for ref in others:
            measured = ref is others[0]
            both = (self.request.case, *(candidate.case for candidate in candidates))
            jobs += [ProbeJob(case, ref, resources=measured) for case in both]
        results = {
            (id(probe.case), probe.revision.name): result_of(probe)
            for probe in self.engine.probe_all(jobs, "cost and other compilers")
        }
        original = id(self.request.case)
        remedies = []
        for candidate in candidates:
            result = results[id(candidate.case), self.request.bad.revision.name]
            checks = []
            for ref in others:
                without = results[original, ref.revision.name]
                with_ = results[id(candidate.case), ref.revision.name]
                checks.append(RemedyCheck(without, with_))
            remedy = Trial(candidate, result).remedy
            remedies.append(replace(remedy, checks=tuple(checks)))
        remedies.sort(key=lambda remedy: remedy.rank)
        upgrades = [
            ref.revision
            for ref in others
            if results[original, ref.revision.name].passed
            and _is_newer(ref, self.request.bad)
        ]
        answer = replace(answer, remedies=tuple(remedies))
        if upgrades:
            return replace(answer, upgrade=upgrades[-1])
        return answer

    def _other_toolchains(self) -> list[ToolchainRef]:
        """Return the good compiler and the newest release, without the bad one."""
        request = self.request
        refs = [request.good] if request.good else []
        with suppress(TriageError):  # `verified_on` names all that were tried
            refs.append(self.engine.registry.resolve("latest", request.case.compiler))
        others = {ref.revision.name: ref for ref in refs}
        others.pop(request.bad.revision.name, None)
        return list(others.values())


def _is_newer(ref: ToolchainRef, than: ToolchainRef) -> bool:
    new, old = (parse_version(toolchain.revision.name) for toolchain in (ref, than))
    return new is not None and old is not None and new > old
