"""Find remedies of a failing case: try candidates, narrow them, check them on other compilers, rank them by cost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2

from triage.classify.rules import RewriteInput
from triage.compilers.registry import family_of
from triage.execution.inputs import Prepared
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.execution.timing import timed
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, TriageError
from triage.model.outcome import Cause, Compiled, Failed, Failure, Probe, Untestable
from triage.remedy.candidates import Situation, candidates_of_class, first_tier, second_tier
from triage.remedy.change import CaseChange
from triage.remedy.result import NothingToRemedy, Remedies, Remedy, RemedyCheck, smallest_costs, steps_above
from triage.remedy.rewrites import rewritten_inputs
from triage.remedy.search import Trials, search, with_smallest_value
from triage.toolchains.registry import ToolchainRef

_MAX_CHECKED = 5  # remedies that are tried on other compilers too


@dataclass(frozen=True, slots=True)
class RemedyRequest:
    """The case to remedy, which fails on `bad` and not on `good`.

    `budget` is the maximum number of candidates; `siblings` are the recipe's cases; `run` measures the run time of the
    compiled programs if they run on this machine; `seconds` is the time that trying candidates may take; `exhaustive` tries all
    candidates within the budget, also after one works; `untimed` is a runner that judges results, where the other one judges
    times.
    """

    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None = None
    budget: int = 100
    siblings: Sequence[Case] = ()
    run: bool = False
    seconds: float | None = None
    exhaustive: bool = False
    untimed: ProbeRunner | None = None


def find_remedies(runner: ProbeRunner, request: RemedyRequest) -> Remedies | NothingToRemedy:
    """Try what may make the case compile.

    Raises:
        EnvironmentFailure: A compiler cannot be obtained.
    """
    began = time.monotonic()
    failing = runner.probe(request.case, request.bad)
    failures = _failures(failing)
    if isinstance(failures, NothingToRemedy):
        return failures
    situation = situation_of(runner, request, failures)
    deadline = None if request.seconds is None else began + request.seconds
    trials = Trials(runner, request.case, request.bad, failures[0], request.budget, deadline, failing.measured.seconds)
    trials.exhaustive = request.exhaustive
    first, second = first_tier(situation), second_tier(situation)
    search(trials, first, second)
    is_out_of_time = trials.is_out_of_time
    remedies = [
        Remedy(*with_smallest_value(trials, change, probe)) if change.limit else Remedy(change, probe)
        for change, probe in trials.working
    ]
    others, notes = _other_toolchains(runner, request)
    checked = _checked(runner, request, ranked(remedies), others)
    if request.run:
        checked[:_MAX_CHECKED], more = _with_run_times(runner, request, others, checked[:_MAX_CHECKED])
        notes += more
    known = {change.text for change in (*first, *second)}
    return Remedies(
        request.case,
        failing,
        failures[0],
        ranked(checked),
        trials.tried,
        left=0 if trials.solved and not trials.exhaustive else len(known - trials.probes.keys()),
        promising=trials.promising,
        notes=tuple(notes),
        is_out_of_time=is_out_of_time,
    )


def planned_changes(runner: ProbeRunner, request: RemedyRequest) -> NothingToRemedy | tuple[CaseChange, ...]:
    """Return what `find_remedies` would try first, within the budget. Only the failing case is compiled."""
    failures = _failures(runner.probe(request.case, request.bad))
    if isinstance(failures, NothingToRemedy):
        return failures
    situation = situation_of(runner, request, failures)
    changes = {change.text: change for change in (*first_tier(situation), *second_tier(situation))}
    return tuple(changes.values())[: request.budget]


def _failures(probe: Probe) -> tuple[Failure, ...] | NothingToRemedy:
    match probe.outcome:
        case Compiled():
            does = "computes what it must" if probe.case.run else "compiles"
            return NothingToRemedy(probe.case, probe.revision, f"it {does} on {probe.revision.name}")
        case Failed(failure, others):
            return (failure, *others)
        case Untestable(cause, _, failure) if cause is Cause.FLAG and failure is not None:
            return (failure,)
        case Untestable(cause, reason):
            return NothingToRemedy(probe.case, probe.revision, f"it cannot be tested on {probe.revision.name}: {reason}", cause)


def situation_of(runner: ProbeRunner, request: RemedyRequest, failures: Sequence[Failure]) -> Situation:
    """Collect what candidates depend on; this rewrites the input as the rules of the failures' classes ask."""
    case = request.case
    toolchain = runner.registry.obtain(request.bad)
    prepared = runner.prober.input_of(case, toolchain)
    hints = family_of(case).remedy_hints()
    candidates = (candidate for failure in failures for candidate in candidates_of_class(case, failure))
    names = dict.fromkeys(candidate.name for candidate in candidates if isinstance(candidate, RewriteInput))
    return Situation(
        case,
        failures,
        toolchain,
        hints,
        hints.devices_named(prepared.path) if hints and isinstance(prepared, Prepared) else frozenset(),
        request.siblings,
        rewritten_inputs(runner, case, toolchain, names),
        runner.registry.obtain(request.good) if request.good else None,
    )


def _checked(
    runner: ProbeRunner, request: RemedyRequest, remedies: Sequence[Remedy], others: Sequence[ToolchainRef]
) -> list[Remedy]:
    """Try the best remedies on other compilers, and measure the footprints on the bad and the first other one.

    Remedies that save time are measured again, and those that do not hold are left out.
    """
    chosen, rest = remedies[:_MAX_CHECKED], remedies[_MAX_CHECKED:]
    cases = [remedy.change.applied(request.case) for remedy in chosen]
    jobs = [ProbeJob(case, request.bad, footprint=True) for case in cases]
    compared = (request.case, *cases) if chosen else ()
    jobs += [ProbeJob(case, ref, footprint=ref is others[0]) for ref in others for case in compared]
    probes = {(id(probe.case), probe.revision.name): probe for probe in runner.probe_all(jobs, "cost and other compilers")}
    bad, names = request.bad.revision.name, [ref.revision.name for ref in others]
    checked = [
        replace(
            remedy,
            probe=replace(remedy.probe, measured=probes[id(case), bad].measured),
            checks=tuple(RemedyCheck(probes[id(request.case), name], probes[id(case), name]) for name in names),
        )
        for remedy, case in zip(chosen, cases, strict=True)
    ]
    if request.untimed is None:
        return [*checked, *rest]
    # A time counts when both measurements say so, and only of a program that computes what it must.
    again = request.untimed.probe_all([ProbeJob(case, request.bad) for case in cases], "results")
    right = {id(probe.case) for probe in again if isinstance(probe.outcome, Compiled)}
    return [
        remedy
        for remedy, case in zip(checked, cases, strict=True)
        if id(case) in right and isinstance(probes[id(case), request.bad.revision.name].outcome, Compiled)
    ]


def _other_toolchains(runner: ProbeRunner, request: RemedyRequest) -> tuple[list[ToolchainRef], list[str]]:
    """Return the good compiler and the newest release, without the bad one, and notes about what is missing."""
    refs, notes = [request.good] if request.good else [], []
    try:
        refs.append(runner.registry.resolve("latest", request.case.compiler))
    except TriageError as error:
        notes.append(f"not tried on the newest release: {error}")
    others = {ref.revision.name: ref for ref in refs if ref.revision.name != request.bad.revision.name}
    return list(others.values()), notes


def _with_run_times(
    runner: ProbeRunner, request: RemedyRequest, others: Sequence[ToolchainRef], remedies: Sequence[Remedy]
) -> tuple[list[Remedy], list[str]]:
    """Measure the run times of remedies, and of the unchanged case on the first other compiler that compiles it.

    Returns:
        The remedies, and notes about times that could not be measured.
    """
    programs = runner.prober.compilers[request.case.compiler].runner()
    if programs is None or not programs.runs(request.case):
        return list(remedies), ["run times are only measured for programs that run on this machine's processor"]
    notes: list[str] = []
    timed_remedies = [replace(remedy, probe=_timed(runner, remedy.probe, request.bad, notes)) for remedy in remedies]
    without = {check.without.revision.name: check.without for remedy in remedies[:1] for check in remedy.checks}
    compiling = (ref for ref in others if (probe := without.get(ref.revision.name)) and isinstance(probe.outcome, Compiled))
    if (ref := next(compiling, None)) is not None:
        name = ref.revision.name
        measured = _timed(runner, without[name], ref, notes)
        timed_remedies = [
            replace(
                remedy,
                checks=tuple(
                    replace(check, without=measured) if check.without.revision.name == name else check
                    for check in remedy.checks
                ),
            )
            for remedy in timed_remedies
        ]
    return timed_remedies, list(dict.fromkeys(notes))


def _timed(runner: ProbeRunner, probe: Probe, ref: ToolchainRef, notes: list[str]) -> Probe:
    try:
        answer = timed(runner, probe.case, ref)
    except EnvironmentFailure as error:
        answer = str(error)
    if isinstance(answer, str):
        notes.append(f"no run time of {probe.case.name} on {ref.revision.name}: {answer}")
        return probe
    return replace(probe, measured=replace(probe.measured, metrics={**probe.measured.metrics, **answer}))


def ranked(remedies: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """Sort remedies: first those that break nothing elsewhere, then the cheapest."""
    smallest = smallest_costs(remedy.probe for remedy in remedies)
    return tuple(sorted(remedies, key=lambda remedy: (len(remedy.breaks), *_cost_key(remedy, smallest))))


def _cost_key(remedy: Remedy, smallest: Mapping[str, float]) -> tuple[float, ...]:
    """Return the cost: mildness and number of changes, magnitude of compile time, clear differences of metrics, size."""
    change, measured = remedy.change, remedy.probe.measured
    return (
        change.checks_less,
        change.for_tests,
        not change.same_program,
        change.input_change is not None,
        change.recomputes,
        len(change.steps),
        round(log2(max(measured.cpu_seconds, 0.1))),
        *steps_above(remedy.probe, smallest),
        measured.metrics.get("artifact_bytes", 0.0),
    )
