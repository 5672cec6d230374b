"""Find remedies of a failing case: try candidates, narrow them, check them on other compilers, rank them by cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log2

from packaging.version import Version

from triage.compilers.invocation import flag_name
from triage.compilers.registry import family_of
from triage.execution.engine import Engine
from triage.execution.files import Prepared
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import TriageError
from triage.model.outcome import Cause, Compiled, Failed, Failure, Probe, Untestable
from triage.model.revision import Revision
from triage.recipes.values import parse_version
from triage.remedy.candidates import CaseChange, Situation, candidates_of_class, first_tier, second_tier
from triage.remedy.result import COST_METRICS, Promising, Remedies, Remedy, RemedyCheck, check_of, cost_of
from triage.remedy.rewrites import rewritten_inputs
from triage.remedy.search import Trials
from triage.toolchains.registry import ToolchainRef

_MAX_CHECKED = 5  # remedies that are tried on other compilers too
_SIZES = (*COST_METRICS, "artifact_bytes")
_Found = tuple[CaseChange, Probe, bool]
"""A change that makes the case compile, its probe, and whether the next smaller value fails."""


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
    seconds: float = inf
    """The time that trying candidates may take."""
    exhaustive: bool = False
    """Try all candidates within the budget, also after one works."""
    untimed: Engine | None = None
    """A runner that judges results, where the other one judges times."""


def find_remedies(runner: Engine, request: RemedyRequest) -> Remedies:
    """Try what may make the case compile.

    Raises:
        EnvironmentFailure: A compiler cannot be obtained.
    """
    deadline = time.monotonic() + request.seconds
    failing = runner.probe(request.case, request.bad)
    failures = _failures(failing)
    if isinstance(failures, Remedies):
        return failures
    first, second = _tiers(runner, request, failures)
    longest, case = failing.measured.seconds, request.case
    trials = Trials(runner, case, request.bad, failures[0], request.budget, deadline, longest, request.exhaustive)
    trials.search(first, second)
    is_out_of_time = trials.is_out_of_time
    found = sorted((trials.with_smallest_value(*working) for working in trials.working), key=lambda one: _rank(*one[:2]))
    others, notes = _other_toolchains(runner, request)
    remedies, compiling = _checked(runner, request, found, others)
    newer = [revision for revision in compiling if _is_newer(revision, failing.revision)]
    left = 0 if trials.is_over else len({change.text for change in (*first, *second)} - trials.probes.keys())
    tried = len(trials.probes)
    does = "return the expected results" if case.run else "compile"
    goal = "fast enough" if failures[0].failure_class == "metric" else does
    more = f"; {left} more exceed the budget (--budget)" if left else ""
    return Remedies(
        case=case.name,
        toolchain=failing.revision,
        reason=None if remedies else f"None of {tried} candidates makes it {goal}{more}.",
        failure=failures[0],
        remedies=_distinct(sorted(remedies, key=lambda remedy: remedy.rank)),
        tried=tried,
        left=left,
        promising=tuple(Promising(change.text, failure) for change, failure in trials.promising),
        notes=tuple(notes),
        is_out_of_time=is_out_of_time,
        upgrade=max(newer, key=lambda revision: Version(revision.name), default=None),
    )


def _failures(probe: Probe) -> tuple[Failure, ...] | Remedies:
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
    situation = Situation(
        case,
        failures,
        toolchain,
        hints,
        hints.devices_named(prepared.path) if hints and isinstance(prepared, Prepared) else frozenset(),
        request.siblings,
        rewritten_inputs(runner, case, toolchain, {candidate.rewrite for candidate in candidates if candidate.rewrite}),
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
    runner: Engine, request: RemedyRequest, found: Sequence[_Found], others: Sequence[ToolchainRef]
) -> tuple[list[Remedy], list[Revision]]:
    """Try the best remedies on other compilers, and measure the resources on the bad and the first other one.

    Remedies that save time are measured again, and those that do not hold are left out.

    Returns:
        The remedies, and the other revisions that compile the case without one; the newer ones if there is no remedy.
    """
    cases = [change.applied(request.case) for change, *_ in found[:_MAX_CHECKED]]
    jobs = [ProbeJob(case, request.bad, resources=True) for case in cases]
    others = [ref for ref in others if found or _is_newer(ref.revision, request.bad.revision)]
    for ref in others:
        jobs += [ProbeJob(case, ref, resources=ref is others[0]) for case in (request.case, *cases)]
    probes = {(id(probe.case), probe.revision.name): probe for probe in runner.probe_all(jobs, "cost and other compilers")}
    plain = [probes[id(request.case), ref.revision.name] for ref in others]
    wrong: set[int] = set()
    if request.untimed is not None:  # a time counts only of a program that computes what it must, and when measured twice
        again = request.untimed.probe_all([ProbeJob(case, request.bad) for case in cases], "results")
        both = (*again, *(probes[id(case), request.bad.revision.name] for case in cases))
        wrong = {id(probe.case) for probe in both if not isinstance(probe.outcome, Compiled)}
    remedies = []
    for (change, probe, smallest), case in zip(found, cases, strict=False):
        if id(case) not in wrong:
            checks = tuple(check_of(without, probes[id(case), without.revision.name]) for without in plain)
            measured = replace(probe, measured=probes[id(case), request.bad.revision.name].measured)
            remedies.append(_remedy(change, measured, smallest, checks))
    if request.untimed is None:
        remedies += [_remedy(*one) for one in found[_MAX_CHECKED:]]
    return remedies, [probe.revision for probe in plain if isinstance(probe.outcome, Compiled)]


def _is_newer(revision: Revision, than: Revision) -> bool:
    new, old = parse_version(revision.name), parse_version(than.name)
    return new is not None and old is not None and new > old


def _rank(change: CaseChange, probe: Probe) -> tuple[float, ...]:
    """Return a key by which the mildest changes come first, then the cheapest."""
    measured = probe.measured
    return (
        change.checks_less,
        change.for_tests,
        not change.same_program,
        change.input_change is not None,
        change.recomputes,
        round(log2(max(measured.cpu_seconds, 0.1))),
        *(measured.metrics.get(name, inf) for name in COST_METRICS),
        measured.metrics.get("artifact_bytes", 0.0),
    )


def _distinct(remedies: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """Leave out a change of the same flag with the same result, such as `--x=false` next to leaving `--x` out."""
    kept: dict[object, Remedy] = {}
    for remedy in remedies:
        names = frozenset(map(flag_name, (*remedy.flags, *remedy.dropped_flags)))
        result = tuple(remedy.cost[name] for name in _SIZES if remedy.cost and name in remedy.cost)
        kept.setdefault((names, result) if names and result else remedy.text, remedy)
    return tuple(kept.values())


def _remedy(change: CaseChange, probe: Probe, smallest: bool, checks: tuple[RemedyCheck, ...] = ()) -> Remedy:
    warnings = probe.outcome.warnings if isinstance(probe.outcome, Compiled) else ()
    parts = [
        f"{change.why[:1].upper()}{change.why[1:]}." if change.why else "",
        "The next smaller value fails." if smallest else "",
        "This is a different program." if change.neighbour else "",
        "The kernel must be launched with this option." if change.options else "",
        change.caveat,
        f"The changed program is {change.program}." if change.program else "",
        "It computes in other types, so results change." if change.recomputes else "",
        f"The compiler still warns: {warnings[0].headline}." if warnings else "",
    ]
    broken = [check for check in checks if check.breaks]
    parts += [f"It breaks {check.revision.name}, where the case passes without it: {check.with_}." for check in broken]
    parts += [] if checks else ["It was not tried on another compiler."]
    return Remedy(
        flags=change.flags,
        dropped_flags=change.dropped,
        input_change=change.input_change,
        input=str(change.program) if change.program else None,
        verified_on=(probe.revision, *(check.revision for check in checks if check.cost_with is not None)),
        breaks=tuple(check.revision for check in broken),
        explanation=" ".join(filter(None, parts)),
        smallest=smallest,
        only_silences_a_check=change.checks_less,
        computes_in_other_types=change.recomputes,
        cost=cost_of(probe),
        checks=checks,
        rank=(len(broken), *_rank(change, probe)),
    )
