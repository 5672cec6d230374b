"""From a failing case to its remedies: tried, narrowed, checked on other compilers, ranked by what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2

from triage.classify.rules import RewriteInput
from triage.execution.inputs import Prepared
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case
from triage.model.errors import EnvironmentFailure, TriageError
from triage.model.outcome import Cause, Compiled, Failed, Failure, Probe, Untestable
from triage.remedy.candidates import Situation, first_tier, of_class, second_tier
from triage.remedy.change import CaseChange
from triage.remedy.cost import least, steps_above
from triage.remedy.devices import devices_named
from triage.remedy.result import Check, NothingToRemedy, Remedies, Remedy
from triage.remedy.rewrites import rewritten_inputs
from triage.remedy.run_times import with_run_times
from triage.remedy.search import Trials, narrowed, search
from triage.toolchains.registry import ToolchainRef

CHECKED = 5
"""Remedies that are tried on other compilers too; the rest is only told."""


@dataclass(frozen=True, slots=True)
class RemedyRequest:
    """What to remedy. good: a compiler on which it does not fail; budget: candidates to try; siblings: the recipe's cases;
    run: take the time that the compiled programs run, where they run on this machine.
    """

    case: Case
    bad: ToolchainRef
    good: ToolchainRef | None = None
    budget: int = 100
    siblings: Sequence[Case] = ()
    run: bool = False


def find_remedies(bench: ProbeRunner, order: RemedyRequest) -> Remedies | NothingToRemedy:
    """Try what may make the case compile. Raises EnvironmentFailure where there is no compiler to try it on."""
    failing = bench.probe(order.case, order.bad)
    failures = _failures(failing)
    if isinstance(failures, NothingToRemedy):
        return failures
    situation = situation_of(bench, order, failures)
    trials = Trials(bench, order.case, order.bad, failures[0], order.budget)
    first, second = first_tier(situation), second_tier(situation)
    search(trials, first, second)
    remedies = [_narrow(trials, change, probe) for change, probe in trials.working]
    checked, notes = _checked(bench, order, ranked(remedies))
    if order.run:
        checked[:CHECKED], more = with_run_times(bench, order.case, order.bad, _elsewhere(bench, order)[0], checked[:CHECKED])
        notes += more
    known = {change.text for change in (*first, *second)}
    return Remedies(
        order.case,
        failing,
        failures[0],
        ranked(checked),
        trials.tried,
        left=0 if trials.mended else len(known - trials.probes.keys()),
        promising=trials.promising,
        notes=tuple(notes),
    )


def candidates(bench: ProbeRunner, order: RemedyRequest) -> NothingToRemedy | tuple[CaseChange, ...]:
    """What `find_remedies` would try first, within the budget; the failing case itself is compiled, nothing else."""
    failures = _failures(bench.probe(order.case, order.bad))
    if isinstance(failures, NothingToRemedy):
        return failures
    situation = situation_of(bench, order, failures)
    both = {change.text: change for change in (*first_tier(situation), *second_tier(situation))}
    return tuple(both.values())[: order.budget]


def _failures(probe: Probe) -> tuple[Failure, ...] | NothingToRemedy:
    match probe.outcome:
        case Compiled():
            return NothingToRemedy(probe.case, probe.revision, f"it compiles on {probe.revision.name}")
        case Failed(failure, others):
            return (failure, *others)
        case Untestable(cause, _, failure) if cause is Cause.FLAG and failure is not None:
            return (failure,)
        case Untestable(cause, reason):
            return NothingToRemedy(probe.case, probe.revision, f"it cannot be tested on {probe.revision.name}: {reason}", cause)


def situation_of(bench: ProbeRunner, order: RemedyRequest, failures: Sequence[Failure]) -> Situation:
    """What candidates are made for; the rewritings that the failures' classes name are made here."""
    prepared, toolchain = bench.prober.input_of(order.case), bench.shed.obtain(order.bad)
    known = (candidate for failure in failures for candidate in of_class(order.case, failure))
    names = dict.fromkeys(candidate.name for candidate in known if isinstance(candidate, RewriteInput))
    return Situation(
        order.case,
        failures,
        toolchain,
        devices_named(prepared.path) if isinstance(prepared, Prepared) else frozenset(),
        order.siblings,
        rewritten_inputs(bench, order.case, toolchain, names) if names and isinstance(prepared, Prepared) else {},
        bench.shed.obtain(order.good) if order.good else None,
    )


def _narrow(trials: Trials, change: CaseChange, probe: Probe) -> Remedy:
    if change.least is None:
        return Remedy(change, probe)
    return Remedy(*narrowed(trials, change, probe))


def _checked(bench: ProbeRunner, order: RemedyRequest, remedies: Sequence[Remedy]) -> tuple[list[Remedy], list[str]]:
    """The best of them tried on the good compiler and on the newest release, and their footprints taken: where it fails, and
    on the first of the others, for comparison.
    """
    places, notes = _elsewhere(bench, order)
    chosen, rest = remedies[:CHECKED], remedies[CHECKED:]
    cases = [remedy.change.applied(order.case) for remedy in chosen]
    jobs = [ProbeJob(case, order.bad, footprint=True) for case in cases]
    jobs += [ProbeJob(case, place, footprint=place is places[0]) for place in places for case in (order.case, *cases) if chosen]
    asked = {(id(probe.case), probe.revision.name): probe for probe in bench.probe_all(jobs, "what it costs and breaks")}
    here, names = order.bad.revision.name, [place.revision.name for place in places]
    done = [
        replace(
            remedy,
            probe=replace(remedy.probe, measured=asked[id(case), here].measured),
            checks=tuple(Check(asked[id(order.case), name], asked[id(case), name]) for name in names),
        )
        for remedy, case in zip(chosen, cases, strict=True)
    ]
    return [*done, *rest], notes


def _elsewhere(bench: ProbeRunner, order: RemedyRequest) -> tuple[list[ToolchainRef], list[str]]:
    places, notes = [order.good] if order.good else [], []
    try:
        places.append(bench.shed.place("latest", order.case.compiler))
    except (EnvironmentFailure, TriageError) as error:
        notes.append(f"not tried on the newest release: {error}")
    others = {place.revision.name: place for place in places if place.revision.name != order.bad.revision.name}
    return list(others.values()), notes


def ranked(remedies: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """What breaks nothing elsewhere first, then what costs less."""
    smallest = least(remedy.probe for remedy in remedies)
    return tuple(sorted(remedies, key=lambda remedy: (len(remedy.breaks), *_cost(remedy, smallest))))


def _cost(remedy: Remedy, smallest: Mapping[str, float]) -> tuple[float, ...]:
    """The fewer and milder the changes the better, then time to compile by its order of magnitude, then what the program asks
    for where that differs clearly, then size.
    """
    change, measured = remedy.change, remedy.probe.measured
    return (
        change.checks_less,
        not change.same_program,
        change.input_change is not None,
        change.recomputes,
        len(change.steps),
        round(log2(max(measured.cpu_seconds, 0.1))),
        *steps_above(remedy.probe, smallest),
        measured.metrics.get("artifact_bytes", 0.0),
    )
