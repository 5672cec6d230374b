"""Find remedies of a failing case: try changes, narrow them, check them on other
compilers, rank them by cost.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log2
from typing import NamedTuple

from packaging.version import Version

from triage.compilers.invocation import flag_name
from triage.compilers.registry import family_of
from triage.execution.engine import Engine, Prober
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
    CaseChange,
    Situation,
    candidates_of_class,
    first_tier,
    second_tier,
)
from triage.remedy.result import (
    COST_METRICS,
    Promising,
    Remedies,
    Remedy,
    RemedyCheck,
    cost_of,
)
from triage.remedy.rewrites import rewritten_inputs
from triage.toolchains.registry import ToolchainRef


class Trial(NamedTuple):
    """A change that was tried, and its probe."""

    change: CaseChange
    probe: Probe


class WorkingChange(NamedTuple):
    """A change that makes the case compile, and its probe."""

    change: CaseChange
    probe: Probe
    is_smallest: bool
    """Whether the next smaller value of the flag fails."""


@dataclass
class Trials:
    """Tries changes of a case on one toolchain."""

    prober: Prober
    case: Case
    ref: ToolchainRef
    failure: Failure
    budget: int
    """The maximum number of changes. Cached answers count, too, so that a resumed
    search tries the same changes.
    """
    deadline: float = inf
    """A moment of the monotonic clock."""
    longest: float = 0.0
    """Seconds that the longest batch took, to estimate how long the next one takes."""
    exhaustive: bool = False
    """Whether to go on after a remedy is found."""
    trials: dict[str, Trial] = field(default_factory=dict)
    """Text of a change -> its trial."""

    def search(self, first: Sequence[CaseChange], second: Sequence[CaseChange]) -> None:
        """Try all changes of the first tier. Then try those of the second tier until
        one keeps the program and works. Stop when the budget or the time is used up.
        """
        for batch in self._batches(first):
            self._try(batch, "known remedies")
        for batch in self._batches(second):
            if not self.has_clean_remedy:
                self._try(batch, "compiler options")

    def _batches(self, changes: Sequence[CaseChange]) -> Iterator[Sequence[CaseChange]]:
        size = 2 * self.prober.jobs
        for start in range(0, len(changes), size):
            yield changes[start : start + size]

    def _try(self, changes: Sequence[CaseChange], what: str) -> None:
        new = [change for change in changes if change.text not in self.trials]
        new = new[: max(0, self.budget - len(self.trials))]
        if not new or self.is_out_of_time:
            return
        began = time.monotonic()
        for trial in self.probed(new, what):
            self.trials[trial.change.text] = trial
        self.longest = max(self.longest, time.monotonic() - began)

    def probed(self, changes: Sequence[CaseChange], what: str) -> Iterator[Trial]:
        """Compile with each change, and yield the trials in the same order. `what` is
        shown as progress.
        """
        cases = [change.applied(self.case) for change in changes]
        jobs = [ProbeJob(case, self.ref) for case in cases]
        probes = {id(probe.case): probe for probe in self.prober.probe_all(jobs, what)}
        for change, case in zip(changes, cases, strict=True):
            yield Trial(change, probes[id(case)])

    @property
    def is_out_of_time(self) -> bool:
        """Whether another batch would end after the deadline, if it takes as long as
        the longest so far.
        """
        return time.monotonic() + self.longest > self.deadline

    @property
    def has_clean_remedy(self) -> bool:
        """Whether to end the search, because a change that keeps the program and its
        checks works.
        """
        return not self.exhaustive and any(
            trial.change.is_clean for trial in self.working
        )

    @property
    def working(self) -> list[Trial]:
        """The changes with which the case compiles."""
        trials = self.trials.values()
        return [trial for trial in trials if isinstance(trial.probe.outcome, Passed)]

    @property
    def promising(self) -> list[tuple[CaseChange, Failure]]:
        """The changes with which the case fails in another way, and the failure."""
        found = []
        for change, probe in self.trials.values():
            if isinstance(probe.outcome, Failed):
                failures = (probe.outcome.failure, *probe.outcome.others)
                signatures = {failure.signature for failure in failures}
                if self.failure.signature not in signatures:
                    found.append((change, failures[0]))
        return found

    def with_smallest_value(self, change: CaseChange, probe: Probe) -> WorkingChange:
        """Find the smallest value with which a change works, if its flag has several.
        Its largest value works. The budget does not apply.
        """
        if change.limit is None:
            return WorkingChange(change, probe, is_smallest=False)
        values = change.limit.least_values
        trials = {len(values) - 1: Trial(change, probe)}  # by the index of the value

        def works(index: int) -> bool:
            smaller = change.with_value(values[index])
            [trials[index]] = self.probed([smaller], f"the smallest {change.text}")
            return isinstance(trials[index].probe.outcome, Passed)

        index = bisect_left(range(len(values) - 1), 1, key=works)
        return WorkingChange(*trials[index], is_smallest=index > 0)


_MAX_CHECKED = 5  # remedies that are tried on other compilers too
_SIZES = (*COST_METRICS, "artifact_bytes")


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
    exhaustive: bool = False
    """Try all candidates within the budget, also after one works."""
    untimed: Prober | None = None
    """Judges the results of runs, if the engine judges how long they take."""


def find_remedies(engine: Engine, request: RemedyRequest) -> Remedies:
    """Try changes that may make the case compile.

    Raises:
        EnvironmentFailure: A compiler cannot be obtained.
    """
    deadline = time.monotonic() + request.seconds
    failing = engine.probe(ProbeJob(request.case, request.bad))
    failures = _failures(failing)
    if isinstance(failures, NoAnswer):
        return Remedies(request.case.name, failing.revision, failures)
    first, second = _tiers(engine, request, failures)
    case = request.case
    trials = Trials(
        engine,
        case,
        request.bad,
        failures[0],
        request.budget,
        deadline,
        failing.measured.seconds,
        request.exhaustive,
    )
    others, notes = _other_toolchains(engine, request)
    try:
        trials.search(first, second)
        is_out_of_time = trials.is_out_of_time
        found = [trials.with_smallest_value(*trial) for trial in trials.working]
        found.sort(key=lambda working: _rank(working.change, working.probe))
        remedies, compiling = _checked(engine, request, found, others)
    except Interrupted:
        if time.monotonic() < deadline:
            raise
        # what works so far is known, although nothing else is known of it
        is_out_of_time, compiling = True, []
        remedies = [
            _remedy(WorkingChange(*trial, is_smallest=False))
            for trial in trials.working
        ]
    newer = [
        revision for revision in compiling if _is_newer(revision, failing.revision)
    ]
    tried, left = len(trials.trials), 0
    if not trials.has_clean_remedy:
        candidates = {change.text for change in (*first, *second)}
        left = len(candidates - trials.trials.keys())
    return Remedies(
        case=case.name,
        toolchain=failing.revision,
        unanswered=None if remedies else _nothing_found(case, failures[0], tried, left),
        failure=failures[0],
        remedies=_without_duplicates(sorted(remedies, key=lambda remedy: remedy.rank)),
        tried=tried,
        left=left,
        promising=tuple(
            Promising(change.text, failure) for change, failure in trials.promising
        ),
        notes=tuple(notes),
        is_out_of_time=is_out_of_time,
        upgrade=max(newer, key=lambda revision: Version(revision.name), default=None),
    )


def _failures(probe: Probe) -> tuple[Failure, ...] | NoAnswer:
    """Return the failures to remedy, the root cause first, or why there are none."""
    match probe.outcome:
        case Passed():
            does = "computes what it must" if probe.case.run else "compiles"
            return NoAnswer(Cause.NEEDLESS, f"it {does} on {probe.revision.name}")
        case Failed(failure, others):
            return (failure, *others)
        case NoAnswer(cause, _, failure) if cause is Cause.FLAG and failure is not None:
            return (failure,)
        case NoAnswer(cause, reason):
            why = f"it cannot be tested on {probe.revision.name}: {reason}"
            return NoAnswer(cause, why)


def _nothing_found(case: Case, failure: Failure, tried: int, left: int) -> NoAnswer:
    """Say why there is no remedy. `left` is the number of candidates that the budget
    left untried.
    """
    if failure.is_number:
        goal = "fast enough"
    elif case.run:
        goal = "return the expected results"
    else:
        goal = "compile"
    why = f"Nothing was tried that may make it {goal}"
    if tried:
        why = f"None of {tried} candidates makes it {goal}"
    if left:
        why += f"; {left} more exceed the budget (--budget)"
    return NoAnswer(Cause.NOT_FOUND, f"{why}.")


def _tiers(
    engine: Engine, request: RemedyRequest, failures: Sequence[Failure]
) -> tuple[Sequence[CaseChange], Sequence[CaseChange]]:
    """Return the candidates of both tiers. The input is rewritten in the ways that the
    rules of the failures' classes name.
    """
    case, toolchain = request.case, engine.registry.obtain(request.bad)
    hints = family_of(case).remedies
    devices: frozenset[str] = frozenset()
    prepared = engine.planner.input_of(case, toolchain)
    if hints and isinstance(prepared, Prepared):
        devices = hints.devices_named(prepared.path)
    rewrites = {
        candidate.rewrite
        for failure in failures
        for candidate in candidates_of_class(case, failure)
        if candidate.rewrite
    }
    situation = Situation(
        case,
        failures,
        toolchain,
        hints,
        devices,
        request.siblings,
        rewritten_inputs(engine, case, toolchain, rewrites),
        engine.registry.obtain(request.good) if request.good else None,
    )
    return first_tier(situation), second_tier(situation)


def _other_toolchains(
    engine: Engine, request: RemedyRequest
) -> tuple[list[ToolchainRef], list[str]]:
    """Return the good compiler and the newest release, without the bad one, and notes
    about what is missing.
    """
    refs, notes = [request.good] if request.good else [], []
    try:
        refs.append(engine.registry.resolve("latest", request.case.compiler))
    except TriageError as error:
        notes.append(f"not tried on the newest release: {error}")
    others = {
        ref.revision.name: ref
        for ref in refs
        if ref.revision.name != request.bad.revision.name
    }
    return list(others.values()), notes


def _checked(
    engine: Engine,
    request: RemedyRequest,
    found: Sequence[WorkingChange],
    others: Sequence[ToolchainRef],
) -> tuple[list[Remedy], list[Revision]]:
    """Try the best remedies on other compilers, and measure the resources that they
    need on the bad one and the first other one. Without a remedy, only try newer
    compilers.

    A remedy against a slow run is measured again, and left out if it does not hold.

    Returns:
        The remedies, and the other revisions that compile the case without one.
    """
    bad = request.bad
    if not found:
        others = [ref for ref in others if _is_newer(ref.revision, bad.revision)]
    best = found[:_MAX_CHECKED]
    cases = [working.change.applied(request.case) for working in best]
    jobs = [ProbeJob(case, bad, resources=True) for case in cases]
    for ref in others:
        jobs += [
            ProbeJob(case, ref, resources=ref is others[0])
            for case in (request.case, *cases)
        ]
    probes = {
        (id(probe.case), probe.revision.name): probe
        for probe in engine.probe_all(jobs, "cost and other compilers")
    }
    without_remedy = [probes[id(request.case), ref.revision.name] for ref in others]
    on_bad = [probes[id(case), bad.revision.name] for case in cases]
    refuted = _refuted_cases(request, on_bad)
    remedies = []
    for working, again in zip(best, on_bad, strict=True):
        if id(again.case) in refuted:
            continue
        checks = []
        for without in without_remedy:
            with_ = probes[id(again.case), without.revision.name]
            checks.append(RemedyCheck(result_of(without), result_of(with_)))
        measured = replace(working.probe, measured=again.measured)
        remedies.append(_remedy(working._replace(probe=measured), checks))
    if request.untimed is None:
        remedies += [_remedy(working) for working in found[_MAX_CHECKED:]]
    passing = [
        probe.revision for probe in without_remedy if isinstance(probe.outcome, Passed)
    ]
    return remedies, passing


def _refuted_cases(request: RemedyRequest, timed: Sequence[Probe]) -> set[int]:
    """Return the ids of the cases whose remedy against a slow run does not hold: the
    second measurement fails, or a result is wrong.
    """
    if request.untimed is None:
        return set()
    jobs = [ProbeJob(probe.case, request.bad) for probe in timed]
    both = (*request.untimed.probe_all(jobs, "results"), *timed)
    return {id(probe.case) for probe in both if not isinstance(probe.outcome, Passed)}


def _is_newer(revision: Revision, than: Revision) -> bool:
    new, old = parse_version(revision.name), parse_version(than.name)
    return new is not None and old is not None and new > old


def _rank(change: CaseChange, probe: Probe) -> tuple[float, ...]:
    """Return a key for sorting: the mildest changes come first, then the cheapest."""
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


def _without_duplicates(remedies: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """Keep the first of the remedies that change the same flags and lead to programs of
    the same size, such as `--x=false` and leaving `--x` out.
    """
    kept: dict[object, Remedy] = {}
    for remedy in remedies:
        names = frozenset(map(flag_name, (*remedy.flags, *remedy.dropped_flags)))
        cost = remedy.cost or {}
        sizes = tuple(cost[name] for name in _SIZES if name in cost)
        kept.setdefault((names, sizes) if names and sizes else remedy.text, remedy)
    return tuple(kept.values())


def _remedy(working: WorkingChange, checks: Sequence[RemedyCheck] = ()) -> Remedy:
    change, probe, smallest = working
    warnings: Sequence[Failure] = ()
    if isinstance(probe.outcome, Passed):
        warnings = probe.outcome.warnings
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
    broken = [check.with_ for check in checks if check.breaks]
    parts += [
        f"It breaks {result.toolchain.name}, where the case passes without it: "
        f"{_why_broken(result)}."
        for result in broken
    ]
    holding = [check.with_.toolchain for check in checks if check.with_.passed]
    if not checks:
        parts.append("It was not tried on another compiler.")
    return Remedy(
        flags=change.flags,
        dropped_flags=change.dropped,
        input_change=change.input_change,
        input=str(change.program) if change.program else None,
        verified_on=(probe.revision, *holding),
        breaks=tuple(result.toolchain for result in broken),
        explanation=" ".join(filter(None, parts)),
        smallest=smallest,
        only_silences_a_check=change.checks_less,
        computes_in_other_types=change.recomputes,
        cost=cost_of(result_of(probe)),
        checks=tuple(checks),
        weakness=_weakness(change),
        rank=(len(broken), *_rank(change, probe)),
    )


def _weakness(change: CaseChange) -> str:
    if change.checks_less:
        return "it only silences a check"
    if change.recomputes:
        return "it computes in other types"
    if change.for_tests:
        return "its flag is for the compiler's own tests"
    return "" if change.is_clean else "it changes the program"


def _why_broken(result: ProbeResult) -> str:
    if result.failure and result.failed:
        return f"failed with {result.failure.failure_class}"
    # What this compiler suggests instead of a flag says nothing about the remedy.
    return f"untestable, {(result.reason or '').partition(';')[0]}"
