"""Find remedies of a failing case: try changes, narrow them, check the best on other
compilers, and measure what they cost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from math import inf

from triage.compilers.invocation import flag_name
from triage.compilers.registry import family_of
from triage.execution.engine import Engine
from triage.execution.inputs import Prepared
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import Interrupted, TriageError
from triage.model.outcome import Cause, Failure, NoAnswer
from triage.recipes.values import parse_version
from triage.remedy.candidates import (
    ChangedCase,
    Situation,
    known_remedies,
    own_options,
)
from triage.remedy.result import Remedies, Remedy, RemedyCheck
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


def find_remedies(engine: Engine, request: RemedyRequest) -> Remedies:
    """Try changes that may make the case compile.

    Raises:
        EnvironmentFailure: A compiler cannot be obtained.
    """
    deadline = time.monotonic() + request.seconds
    failing = engine.probe(ProbeJob(request.case, request.bad))
    answer = Remedies(request.case.name, failing.revision)
    outcome = failing.outcome
    if isinstance(outcome, NoAnswer):
        return replace(answer, unanswered=outcome)
    failure = outcome.failure
    if failure is None:
        why = f"it passes on {failing.revision.name}"
        return replace(answer, unanswered=NoAnswer(Cause.NEEDLESS, why))
    answer = replace(answer, failure=failure)
    situation = _situation(engine, request, failure)
    search = _Search(engine, request, deadline)
    groups = (known_remedies(situation), own_options(situation))
    try:
        for group in groups:
            search.try_all(group)
        answer = search.checked(answer)
    except Interrupted:
        if time.monotonic() < deadline:
            raise
        # what works so far is known, although nothing else is known of it
        answer = replace(answer, remedies=tuple(search.best()))
    tried, left = len(search.tried), 0
    if not search.is_successful:
        texts = {candidate.change.text for group in groups for candidate in group}
        left = len(texts) - tried
    answer = replace(answer, tried=tried, left=left)
    if answer.remedies:
        return answer
    why = f"{tried} of {tried + left} candidates tried, none helps"
    cause = Cause.NOT_FOUND
    if time.monotonic() > deadline:
        cause = Cause.TIME
    return replace(answer, unanswered=NoAnswer(cause, why))


def _situation(engine: Engine, request: RemedyRequest, failure: Failure) -> Situation:
    case = request.case
    obtain = engine.registry.obtain
    toolchain = obtain(request.bad)
    hints = family_of(case).remedies
    prepared = engine.inputs.input_of(case, toolchain)
    devices: frozenset[str] = frozenset()
    if hints and isinstance(prepared, Prepared):
        devices = hints.devices_named(prepared.path)
    situation = Situation(
        case,
        failure,
        toolchain,
        hints,
        devices,
        request.siblings,
        good=obtain(request.good) if request.good else None,
    )
    if any(rule.rewrite for rule in situation.rules()):
        static = static_program(engine, case, toolchain)
        return replace(situation, static=static)
    return situation


@dataclass(slots=True)
class _Search:
    engine: Engine
    request: RemedyRequest
    deadline: float
    tried: dict[str, Remedy] = field(default_factory=dict)
    """By the texts of their changes."""
    cases: dict[str, Case] = field(default_factory=dict)
    """The changed cases by these texts."""

    @property
    def is_successful(self) -> bool:
        """Whether a change works that is not a makeshift."""
        return any(
            remedy.result.passed and not remedy.weakness
            for remedy in self.tried.values()
        )

    def try_all(self, candidates: Sequence[ChangedCase]) -> None:
        """Try candidates until the budget or the time is used up. Those that are not
        the first ones end where something works that is not a makeshift.
        """
        new: dict[str, ChangedCase] = {}
        for candidate in candidates:
            new.setdefault(candidate.change.text, candidate)
        left = [new[text] for text in new if text not in self.tried]
        left = left[: max(0, self.request.budget - len(self.tried))]
        is_first, size = not self.tried, 2 * self.engine.jobs
        for start in range(0, len(left), size):
            is_needless = not is_first and self.is_successful
            if is_needless or time.monotonic() > self.deadline:
                return
            batch = left[start : start + size]
            jobs = [ProbeJob(candidate.case, self.request.bad) for candidate in batch]
            probes = self.engine.probe_all(jobs, "remedies")
            results = {id(probe.case): result_of(probe) for probe in probes}
            for candidate in batch:
                change, result = candidate.change, results[id(candidate.case)]
                self.tried[change.text] = Remedy(**asdict(change), result=result)
                self.cases[change.text] = candidate.case

    def best(self) -> list[Remedy]:
        """Choose the best remedies, of those that change the same flags the first."""
        first: dict[object, Remedy] = {}
        for remedy in self.tried.values():
            names = frozenset(map(flag_name, (*remedy.flags, *remedy.dropped_flags)))
            if remedy.result.passed:
                first.setdefault(names or remedy.text, remedy)
        best = sorted(first.values(), key=lambda remedy: remedy.rank)
        return best[:_MOST_REPORTED]

    def checked(self, answer: Remedies) -> Remedies:
        """Add the best remedies, tried on the good compiler and the newest release and
        measured, and the newest release if it needs none.
        """
        best, original = self.best(), self.request.case
        cases = [self.cases[remedy.text] for remedy in best]
        refs = [self.request.bad, *self._other_toolchains()]
        _, *jobs = [  # the first fails
            ProbeJob(case, ref, resources=ref in refs[:2])
            for ref in refs
            for case in (original, *cases)
        ]
        results = {
            (id(probe.case), probe.revision.name): result_of(probe)
            for probe in self.engine.probe_all(jobs, "cost and other compilers")
        }
        names = [ref.revision.name for ref in refs]
        remedies = []
        for remedy, case in zip(best, cases, strict=True):
            result, *others = [results[id(case), name] for name in names]
            checks = [
                RemedyCheck(results[id(original), name], other)
                for name, other in zip(names[1:], others, strict=True)
            ]
            remedies.append(replace(remedy, result=result, checks=tuple(checks)))
        remedies.sort(key=lambda remedy: remedy.rank)
        upgrades = [
            ref.revision
            for ref in refs[1:]
            if results[id(original), ref.revision.name].passed
            and _is_newer(ref, self.request.bad)
        ]
        upgrade = upgrades[-1] if upgrades else None
        return replace(answer, remedies=tuple(remedies), upgrade=upgrade)

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
