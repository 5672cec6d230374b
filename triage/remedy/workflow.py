"""Find remedies of a failing case: try candidates, narrow them, check them on other compilers, rank them by cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log2

from packaging.version import InvalidVersion, Version

from triage.compilers.invocation import flag_name
from triage.compilers.registry import family_of
from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import TriageError
from triage.model.outcome import Cause, Compiled, Failed, Failure, Probe, Untestable
from triage.model.revision import Revision
from triage.remedy.candidates import Situation, candidates_of_class, first_tier, second_tier
from triage.remedy.change import CaseChange
from triage.remedy.result import COST_METRICS, Promising, Remedies, Remedy, RemedyCheck, check_of, cost_of
from triage.remedy.rewrites import rewritten_inputs
from triage.remedy.search import Trials, search, with_smallest_value
from triage.toolchains.registry import ToolchainRef

_MAX_CHECKED = 5  # remedies that are tried on other compilers too


@dataclass(frozen=True, slots=True)
class RemedyRequest:
    """The case to remedy, which fails on `bad` and not on `good`."""

    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None = None
    budget: int = 100
    """The maximum number of candidates."""
    siblings: Sequence[Case] = ()
    """The recipe's cases."""
    seconds: float | None = None
    """The time that trying candidates may take."""
    exhaustive: bool = False
    """Try all candidates within the budget, also after one works."""
    untimed: Engine | None = None
    """A runner that judges results, where the other one judges times."""


@dataclass(frozen=True, slots=True)
class WorkingChange:
    """A change that makes the case compile."""

    change: CaseChange
    probe: Probe
    smallest: bool = False
    """Whether the next smaller value fails."""
    checks: tuple[RemedyCheck, ...] = ()


def find_remedies(runner: Engine, request: RemedyRequest) -> Remedies:
    """Try what may make the case compile.

    Raises:
        EnvironmentFailure: A compiler cannot be obtained.
    """
    began = time.monotonic()
    failing = runner.probe(request.case, request.bad)
    failures = _failures(failing)
    if isinstance(failures, Remedies):
        return failures
    first, second = _tiers(runner, request, failures)
    deadline = None if request.seconds is None else began + request.seconds
    trials = Trials(runner, request.case, request.bad, failures[0], request.budget, deadline, failing.measured.seconds)
    trials.exhaustive = request.exhaustive
    search(trials, first, second)
    is_out_of_time = trials.is_out_of_time
    working = [
        WorkingChange(*with_smallest_value(trials, change, probe)) if change.limit else WorkingChange(change, probe)
        for change, probe in trials.working
    ]
    others, notes = _other_toolchains(runner, request)
    checked, compiling = _checked(runner, request, ranked(working), others)
    checked, newer = ranked(checked), [revision for revision in compiling if _is_newer(revision, failing.revision)]
    left = 0 if trials.is_over else len({change.text for change in (*first, *second)} - trials.probes.keys())
    tried = len(trials.probes)
    does = "return the expected results" if request.case.run else "compile"
    goal = "fast enough" if failures[0].failure_class == "metric" else does
    more = f"; {left} more exceed the budget (--budget)" if left else ""
    return Remedies(
        case=request.case.name,
        toolchain=failing.revision,
        reason=None if checked else f"None of {tried} candidates makes it {goal}{more}.",
        failure=failures[0],
        remedies=tuple(map(_remedy, _distinct(checked))),
        tried=tried,
        left=left,
        promising=tuple(Promising(change.text, failure) for change, failure in trials.promising),
        notes=tuple(notes),
        is_out_of_time=is_out_of_time,
        upgrade=max(newer, key=lambda revision: Version(revision.name), default=None),
    )


def planned_changes(runner: Engine, request: RemedyRequest) -> Remedies | tuple[CaseChange, ...]:
    """Return what `find_remedies` would try first, within the budget. Only the failing case is compiled."""
    failures = _failures(runner.probe(request.case, request.bad))
    if isinstance(failures, Remedies):
        return failures
    first, second = _tiers(runner, request, failures)
    return tuple({change.text: change for change in (*first, *second)}.values())[: request.budget]


def _failures(probe: Probe) -> tuple[Failure, ...] | Remedies:
    """Return the failures of the case, or the answer if there is nothing to remedy."""
    match probe.outcome:
        case Compiled():
            does = "computes what it must" if probe.case.run else "compiles"
            return Remedies(probe.case.name, probe.revision, f"it {does} on {probe.revision.name}")
        case Failed(failure, others):
            return (failure, *others)
        case Untestable(cause, _, failure) if cause is Cause.FLAG and failure is not None:
            return (failure,)
        case Untestable(cause, reason):
            return Remedies(probe.case.name, probe.revision, f"it cannot be tested on {probe.revision.name}: {reason}", cause)


def _tiers(
    runner: Engine, request: RemedyRequest, failures: Sequence[Failure]
) -> tuple[Sequence[CaseChange], Sequence[CaseChange]]:
    """Return the candidates of both tiers. This rewrites the input as the rules of the failures' classes ask."""
    case, toolchain = request.case, runner.registry.obtain(request.bad)
    prepared, hints = runner.planner.input_of(case, toolchain), family_of(case).remedies
    candidates = (candidate for failure in failures for candidate in candidates_of_class(case, failure))
    names = dict.fromkeys(candidate.rewrite for candidate in candidates if candidate.rewrite)
    situation = Situation(
        case,
        failures,
        toolchain,
        hints,
        hints.devices_named(prepared.path) if hints and isinstance(prepared, Prepared) else frozenset(),
        request.siblings,
        rewritten_inputs(runner, case, toolchain, names),
        runner.registry.obtain(request.good) if request.good else None,
    )
    return first_tier(situation), second_tier(situation)


def _other_toolchains(runner: Engine, request: RemedyRequest) -> tuple[list[ToolchainRef], list[str]]:
    """Return the good compiler and the newest release, without the bad one, and notes about what is missing."""
    refs, notes = [request.good] if request.good else [], []
    try:
        refs.append(runner.registry.resolve("latest", request.case.compiler))
    except TriageError as error:
        notes.append(f"not tried on the newest release: {error}")
    others = {ref.revision.name: ref for ref in refs if ref.revision.name != request.bad.revision.name}
    return list(others.values()), notes


def _checked(
    runner: Engine, request: RemedyRequest, remedies: Sequence[WorkingChange], others: Sequence[ToolchainRef]
) -> tuple[list[WorkingChange], list[Revision]]:
    """Try the best remedies on other compilers, and measure the resources on the bad and the first other one.

    Remedies that save time are measured again, and those that do not hold are left out.

    Returns:
        The remedies, and the other revisions that compile the case without one; the newer ones if there is no remedy.
    """
    chosen, rest = remedies[:_MAX_CHECKED], remedies[_MAX_CHECKED:]
    cases = [remedy.change.applied(request.case) for remedy in chosen]
    jobs = [ProbeJob(case, request.bad, resources=True) for case in cases]
    others = [ref for ref in others if chosen or _is_newer(ref.revision, request.bad.revision)]
    for ref in others:
        jobs += [ProbeJob(case, ref, resources=ref is others[0]) for case in (request.case, *cases)]
    probes = {(id(probe.case), probe.revision.name): probe for probe in runner.probe_all(jobs, "cost and other compilers")}
    right = {id(case) for case in cases}
    if request.untimed is not None:  # a time counts only of a program that computes what it must
        again = request.untimed.probe_all([ProbeJob(case, request.bad) for case in cases], "results")
        right = {id(probe.case) for probe in again if isinstance(probe.outcome, Compiled)}
        rest = []
    checked = []
    for remedy, case in zip(chosen, cases, strict=True):
        measured = probes[id(case), request.bad.revision.name]
        if id(case) in right and (request.untimed is None or isinstance(measured.outcome, Compiled)):
            probe = replace(remedy.probe, measured=measured.measured)
            names = [ref.revision.name for ref in others]
            checks = tuple(check_of(probes[id(request.case), name], probes[id(case), name]) for name in names)
            checked.append(replace(remedy, probe=probe, checks=checks))
    plain = [ref.revision for ref in others if isinstance(probes[id(request.case), ref.revision.name].outcome, Compiled)]
    return [*checked, *rest], plain


def _is_newer(revision: Revision, than: Revision) -> bool:
    try:
        return Version(revision.name) > Version(than.name)
    except InvalidVersion:
        return False


def ranked(found: Sequence[WorkingChange]) -> list[WorkingChange]:
    """Sort changes: first those that break nothing elsewhere, then the mildest, then the cheapest."""

    def key(one: WorkingChange) -> tuple[float, ...]:
        change, measured = one.change, one.probe.measured
        return (
            sum(check.breaks for check in one.checks),
            change.checks_less,
            change.for_tests,
            not change.same_program,
            change.input_change is not None,
            change.recomputes,
            round(log2(max(measured.cpu_seconds, 0.1))),
            *(measured.metrics.get(name, inf) for name in COST_METRICS),
            measured.metrics.get("artifact_bytes", 0.0),
        )

    return sorted(found, key=key)


def _distinct(found: Sequence[WorkingChange]) -> list[WorkingChange]:
    """Leave out a change of the same flag with the same result, such as `--x=false` next to leaving `--x` out."""
    kept: dict[object, WorkingChange] = {}
    for one in found:
        names = frozenset(map(flag_name, (*one.change.flags, *one.change.dropped)))
        metrics = one.probe.measured.metrics
        result = tuple(metrics[name] for name in (*COST_METRICS, "artifact_bytes") if name in metrics)
        kept.setdefault((names, result) if names and result else one.change.text, one)
    return list(kept.values())


def _remedy(found: WorkingChange) -> Remedy:
    change, probe = found.change, found.probe
    return Remedy(
        flags=change.flags,
        dropped_flags=change.dropped,
        input_change=change.input_change,
        input=str(change.program) if change.program else None,
        verified_on=(probe.revision, *(check.revision for check in found.checks if check.cost_with is not None)),
        breaks=tuple(check.revision for check in found.checks if check.breaks),
        explanation=_explanation(found),
        smallest=found.smallest,
        only_silences_a_check=change.checks_less,
        computes_in_other_types=change.recomputes,
        cost=cost_of(probe),
        checks=found.checks,
    )


def _explanation(found: WorkingChange) -> str:
    """Return a few sentences: what the remedy does, how certain that is, and what it breaks."""
    change, outcome = found.change, found.probe.outcome
    warning = outcome.warnings[0].headline if isinstance(outcome, Compiled) and outcome.warnings else ""
    parts = [
        f"{change.why[:1].upper()}{change.why[1:]}." if change.why else "",
        "The next smaller value fails." if found.smallest else "",
        "This is a different program." if change.neighbour else "",
        "The kernel must be launched with this option." if change.options else "",
        change.caveat,
        f"The changed program is {change.program}." if change.program else "",
        "It computes in other types, so results change." if change.recomputes else "",
        f"The compiler still warns: {warning}." if warning else "",
    ]
    broken = [check for check in found.checks if check.breaks]
    parts += [f"It breaks {check.revision.name}, where the case compiles without it and {check.with_}." for check in broken]
    parts += [] if found.checks else ["It was not tried on another compiler."]
    return " ".join(filter(None, parts))
