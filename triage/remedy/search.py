"""Find remedies of a failing case: try changes, narrow them, check the best on other
compilers, and measure what they cost.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from math import inf

from triage.compilers.invocation import flag_name
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import Interrupted, TriageError
from triage.model.outcome import Cause, NoAnswer, ProbeResult
from triage.recipes.values import parse_version
from triage.remedy.candidates import (
    ChangedCase,
    Situation,
    compiler_options,
    known_remedies,
)
from triage.remedy.result import Remedies, Remedy
from triage.toolchains.registry import ToolchainRef

_COST = "cost"  # of remedies is measured
_MOST_REPORTED = 5  # remedies, each of which is tried on other compilers, too


def find_remedies(
    situation: Situation, budget: int = 100, seconds: float = inf
) -> Remedies:
    """Try changes that may make the case compile: at most `budget`, for at most some
    seconds.

    Raises:
        EnvironmentFailure: A compiler cannot be obtained.
    """
    deadline = time.monotonic() + seconds
    failing = situation.failing
    outcome = failing.outcome
    answer = Remedies(situation.case.name, failing.revision)
    if isinstance(outcome, NoAnswer):
        return replace(answer, unanswered=outcome)
    if outcome.failure is None:
        needless = NoAnswer(Cause.NEEDLESS, f"it passes on {failing.revision.name}")
        return replace(answer, unanswered=needless)
    answer = replace(answer, failure=outcome.failure)
    search = _Search(situation, budget, deadline)
    try:
        search.try_all(known_remedies(situation), stops_early=False)
        search.try_all(compiler_options(situation), stops_early=True)
        answer = search.check_best(answer)
    except Interrupted:
        if time.monotonic() < deadline:
            raise
        # what works so far is known, although nothing else is known of it
        answer = replace(answer, remedies=tuple(search.best()))
    tried = len(search.tried)
    unanswered = None
    if not answer.remedies:
        why = f"{tried} of {len(search.candidates)} candidates tried, none helps"
        if not search.candidates:
            why = "no change is known that could help"
        is_late = time.monotonic() > deadline
        unanswered = NoAnswer(Cause.TIME if is_late else Cause.NOT_FOUND, why)
    return replace(answer, tried=tried, unanswered=unanswered)


@dataclass
class _Search:
    situation: Situation
    budget: int
    deadline: float
    candidates: dict[str, ChangedCase] = field(default_factory=dict)
    """By the texts of their changes."""
    tried: dict[str, Remedy] = field(default_factory=dict)
    """What became of them, by the same texts."""

    @property
    def is_successful(self) -> bool:
        """Whether a change works that is not a makeshift."""
        return any(
            remedy.result.passed and not remedy.weakness
            for remedy in self.tried.values()
        )

    def try_all(self, changes: Iterable[ChangedCase], *, stops_early: bool) -> None:
        """Try changes until the budget or the time is used up, or if it `stops_early`
        until one works that is not a makeshift.
        """
        for changed in changes:
            self.candidates.setdefault(changed.change.text, changed)
        new = list(self.candidates.values())[len(self.tried) : self.budget]
        size = 2 * self.situation.engine.jobs
        for start in range(0, len(new), size):
            is_needless = stops_early and self.is_successful
            if is_needless or time.monotonic() > self.deadline:
                return
            batch = new[start : start + size]
            cases = [changed.case for changed in batch]
            results = self._results(cases, self.situation.bad, "remedies")
            for changed, result in zip(batch, results, strict=True):
                remedy = Remedy(**asdict(changed.change), result=result)
                self.tried[remedy.text] = remedy.with_check(result)

    def _results(
        self, cases: Sequence[Case], ref: ToolchainRef, what: str
    ) -> list[ProbeResult]:
        """Return the result of each case on a compiler."""
        jobs = [ProbeJob(case, ref, resources=what == _COST) for case in cases]
        probes = self.situation.engine.probe_in_order(jobs, what)
        return list(map(result_of, probes))

    def best(self) -> list[Remedy]:
        """Choose the best remedies, of those that change the same flags the first."""
        first: dict[object, Remedy] = {}
        for remedy in self.tried.values():
            names = frozenset(map(flag_name, (*remedy.flags, *remedy.dropped_flags)))
            if remedy.result.passed:
                first.setdefault(names or remedy.text, remedy)
        best = sorted(first.values(), key=lambda remedy: remedy.rank)
        return best[:_MOST_REPORTED]

    def check_best(self, answer: Remedies) -> Remedies:
        """Add the best remedies, measured and tried on the good compiler and the newest
        release, and the newest release if it needs none.
        """
        best = self.best()
        bad = self.situation.bad
        cases = [self.candidates[remedy.text].case for remedy in best]
        results = self._results(cases, bad, _COST)
        remedies = [
            replace(remedy, result=result)
            for remedy, result in zip(best, results, strict=True)
        ]
        upgrade = None
        for ref in self._other_toolchains():
            both = [self.situation.case, *cases]
            without, *others = self._results(both, ref, "other compilers")
            remedies = [
                remedy.with_check(result, without)
                for remedy, result in zip(remedies, others, strict=True)
            ]
            if without.passed and _is_newer(ref, bad):
                upgrade = ref.revision
        remedies.sort(key=lambda remedy: remedy.rank)
        return replace(answer, remedies=tuple(remedies), upgrade=upgrade)

    def _other_toolchains(self) -> list[ToolchainRef]:
        """Return the good compiler and the newest release, without the bad one."""
        situation = self.situation
        refs = [situation.good] if situation.good else []
        with suppress(TriageError):  # `verified_on` names all that were tried
            registry = situation.engine.registry
            refs.append(registry.resolve("latest", situation.case.compiler))
        others = {ref.revision.name: ref for ref in refs}
        others.pop(situation.bad.revision.name, None)
        return list(others.values())


def _is_newer(ref: ToolchainRef, other: ToolchainRef) -> bool:
    new, old = (parse_version(toolchain.revision.name) for toolchain in (ref, other))
    return new is not None and old is not None and new > old
