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
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Passed, Probe
from triage.model.probe_result import ProbeResult
from triage.model.revision import Revision
from triage.recipes.values import parse_version
from triage.remedy.candidates import (
    ChangedCase,
    Situation,
    known_remedies,
    own_options,
    with_limit,
)
from triage.remedy.result import Remedies, Remedy, RemedyCheck, Weakness
from triage.remedy.smallest import smallest
from triage.remedy.static_shapes import static_program
from triage.toolchains.registry import ToolchainRef

_GUESS = 64  # values of a flag to try first, as chains of 100 operations are usual
_MOST_REPORTED = 5  # remedies, each of which is tried on other compilers, too


@dataclass(frozen=True, slots=True)
class RemedyRequest:
    """The case to find remedies for. It fails on `bad`, and passes on `good`."""

    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None = None
    budget: int = 100
    """The maximum number of candidates. Cached answers count, too, so that a resumed
    search tries the same candidates.
    """
    siblings: Sequence[Case] = ()
    """The recipe's cases."""
    seconds: float = inf
    """The time for trying candidates."""


class Trial(NamedTuple):
    """A candidate and its probe."""

    candidate: ChangedCase
    probe: Probe

    @property
    def works(self) -> bool:
        return isinstance(self.probe.outcome, Passed)


def find_remedies(engine: Engine, request: RemedyRequest) -> Remedies:
    """Try changes that may make the case compile.

    Raises:
        EnvironmentFailure: A compiler cannot be obtained.
    """
    deadline = time.monotonic() + request.seconds
    failing = engine.probe(ProbeJob(request.case, request.bad))
    case, toolchain, outcome = request.case, failing.revision, failing.outcome
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
    known, options = known_remedies(situation), own_options(situation)
    trials: list[Trial] = []
    remedies: list[Remedy] = []
    upgrade = None
    try:
        trials.extend(_trials(engine, request, known, options, deadline))
        working = [
            _with_smallest_value(engine, request, situation, trial)
            for trial in trials
            if trial.works
        ]
        remedies = _best([_remedy(trial) for trial in working])
        remedies, upgrade = _checked(engine, request, working, remedies)
    except Interrupted:
        if time.monotonic() < deadline:
            raise
        # what works so far is known, although nothing else is known of it
        remedies = _best([_remedy(trial) for trial in trials if trial.works])
    left = 0
    if not any(_ends_search(trial) for trial in trials):
        left = len({one.change.text for one in (*known, *options)}) - len(trials)
    nothing = None
    if not remedies:
        why = f"{len(trials)} of {len(trials) + left} candidates tried, none helps"
        if upgrade:
            why += f"; {upgrade.name} needs none"
        is_late = time.monotonic() > deadline
        nothing = NoAnswer(Cause.TIME if is_late else Cause.NOT_FOUND, why)
    return Remedies(
        case.name,
        toolchain,
        nothing,
        failures[0],
        tuple(remedies),
        len(trials),
        left,
        upgrade,
    )


def _situation(
    engine: Engine, request: RemedyRequest, failures: Sequence[Failure]
) -> Situation:
    case, toolchain = request.case, engine.registry.obtain(request.bad)
    hints = family_of(case).remedies
    situation = Situation(case, failures, toolchain, hints, siblings=request.siblings)
    if request.good:
        good = engine.registry.obtain(request.good)
        situation = replace(situation, good=good)
    prepared = engine.planner.input_of(case, toolchain)
    if hints and isinstance(prepared, Prepared):
        devices = hints.devices_named(prepared.path)
        situation = replace(situation, devices=devices)
    if any(rule.rewrite for _, rule in situation.rules()):
        static = static_program(engine, case, toolchain)
        situation = replace(situation, static=static)
    return situation


def _trials(
    engine: Engine,
    request: RemedyRequest,
    known: Sequence[ChangedCase],
    options: Sequence[ChangedCase],
    deadline: float,
) -> Iterator[Trial]:
    """Try all known remedies. Then try the compiler's options until something works
    that is not a makeshift. Stop when the budget or the time is used up.
    """
    tried: set[str] = set()
    size = 2 * engine.jobs
    is_found = False
    for candidates, what in ((known, "known remedies"), (options, "compiler options")):
        new = [one for one in candidates if one.change.text not in tried]
        new = new[: max(0, request.budget - len(tried))]
        for start in range(0, len(new), size):
            is_needless = candidates is options and is_found
            if is_needless or time.monotonic() > deadline:
                return
            for trial in _probed(engine, request, new[start : start + size], what):
                tried.add(trial.candidate.change.text)
                is_found = is_found or _ends_search(trial)
                yield trial


def _probed(
    engine: Engine, request: RemedyRequest, candidates: Sequence[ChangedCase], what: str
) -> Iterator[Trial]:
    """Compile with each change, and yield the trials in the same order."""
    jobs = [ProbeJob(one.case, request.bad) for one in candidates]
    probes = {id(probe.case): probe for probe in engine.probe_all(jobs, what)}
    for candidate in candidates:
        yield Trial(candidate, probes[id(candidate.case)])


def _ends_search(trial: Trial) -> bool:
    """Return whether a change works that keeps the program and its checks."""
    return trial.works and trial.candidate.change.weakness is Weakness.NONE


def _with_smallest_value(
    engine: Engine, request: RemedyRequest, situation: Situation, trial: Trial
) -> Trial:
    """Find the smallest value with which a flag works, if it has several. The largest
    works.
    """
    rule = trial.candidate.limit
    if rule is None:
        return trial
    values = rule.least_values
    trials = {len(values) - 1: trial}  # by the index of the value

    def works(index: int) -> bool:
        smaller = with_limit(situation, rule, values[index])
        [trials[index]] = _probed(engine, request, [smaller], "the smallest value")
        return trials[index].works

    return trials[smallest(works, -1, len(values) - 1, _GUESS)]


def _remedy(trial: Trial) -> Remedy:
    return Remedy(**asdict(trial.candidate.change), result=result_of(trial.probe))


def _best(remedies: Sequence[Remedy]) -> list[Remedy]:
    """Return the best remedies, only one of those that change the same flags."""
    best: dict[object, Remedy] = {}
    for remedy in sorted(remedies, key=lambda remedy: remedy.rank):
        names = frozenset(map(flag_name, (*remedy.flags, *remedy.dropped_flags)))
        best.setdefault(names or remedy.text, remedy)
    return list(best.values())[:_MOST_REPORTED]


def _checked(
    engine: Engine,
    request: RemedyRequest,
    working: Sequence[Trial],
    remedies: Sequence[Remedy],
) -> tuple[list[Remedy], Revision | None]:
    """Try the best remedies on the good compiler and the newest release, and measure
    the resources that they need on the bad one and the first of these.

    Returns:
        The remedies, the best first, and the newest release if the case compiles there
            without one.
    """
    bad = request.bad
    cases = {trial.candidate.change.text: trial.candidate.case for trial in working}
    best = [cases[remedy.text] for remedy in remedies]
    # without a remedy, only an upgrade may help
    others = _other_toolchains(engine, request, only_newer=not best)
    jobs = [ProbeJob(case, bad, resources=True) for case in best]
    for ref in others:
        jobs += [
            ProbeJob(case, ref, resources=ref is others[0])
            for case in (request.case, *best)
        ]
    results: dict[tuple[int, str], ProbeResult] = {
        (id(probe.case), probe.revision.name): result_of(probe)
        for probe in engine.probe_all(jobs, "cost and other compilers")
    }
    checked = []
    for remedy, case in zip(remedies, best, strict=True):
        checks = tuple(
            RemedyCheck(
                results[id(request.case), ref.revision.name],
                results[id(case), ref.revision.name],
            )
            for ref in others
        )
        result = results[id(case), bad.revision.name]
        checked.append(replace(remedy, result=result, checks=checks))
    upgrade = None
    for ref in others:
        without = results[id(request.case), ref.revision.name]
        if without.passed and _is_newer(ref, bad):
            upgrade = ref.revision
    return sorted(checked, key=lambda remedy: remedy.rank), upgrade


def _other_toolchains(
    engine: Engine, request: RemedyRequest, *, only_newer: bool
) -> list[ToolchainRef]:
    """Return the good compiler and the newest release, without the bad one."""
    refs = [request.good] if request.good else []
    with suppress(TriageError):  # `verified_on` names all that were tried
        refs.append(engine.registry.resolve("latest", request.case.compiler))
    others = {ref.revision.name: ref for ref in refs}
    others.pop(request.bad.revision.name, None)
    if only_newer:
        return [ref for ref in others.values() if _is_newer(ref, request.bad)]
    return list(others.values())


def _is_newer(ref: ToolchainRef, than: ToolchainRef) -> bool:
    new, old = (parse_version(one.revision.name) for one in (ref, than))
    return new is not None and old is not None and new > old
