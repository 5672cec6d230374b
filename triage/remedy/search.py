"""Find remedies of a failing case: try changes, narrow them, check them on other
compilers, rank them by cost.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log2

from packaging.version import Version

from triage.compilers.invocation import flag_name
from triage.compilers.registry import family_of
from triage.execution.engine import Engine, Prober
from triage.execution.files import Prepared
from triage.execution.judge import result_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.errors import TriageError
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


@dataclass
class Trials:
    """The changes that were tried for a case on one toolchain."""

    prober: Prober
    case: Case
    ref: ToolchainRef
    failure: Failure
    budget: int
    """The maximum number of changes. Cached answers count too, so that a resumed search
    tries the same ones.
    """
    deadline: float = inf
    """A moment of the monotonic clock."""
    longest: float = 0.0
    """The duration of the longest batch, in seconds; a batch that may end after the
    deadline is not begun.
    """
    exhaustive: bool = False
    """Whether to go on after a remedy is found."""
    probes: dict[str, tuple[CaseChange, Probe]] = field(default_factory=dict)
    """Text of a change -> the change and its result."""

    def search(self, first: Sequence[CaseChange], second: Sequence[CaseChange]) -> None:
        """Try all changes of the first tier, then those of the second one until the
        program compiles.
        """
        size = 2 * self.prober.jobs
        for changes, what in ((first, "known remedies"), (second, "compiler options")):
            for start in range(0, len(changes), size):
                new = [
                    change
                    for change in changes[start : start + size]
                    if change.text not in self.probes
                ]
                new = new[: max(0, self.budget - len(self.probes))]
                if (
                    not new
                    or self.is_out_of_time
                    or (changes is second and self.is_over)
                ):
                    continue
                began = time.monotonic()
                self.probes.update(
                    (tried[0].text, tried) for tried in self.compiled(new, what)
                )
                self.longest = max(self.longest, time.monotonic() - began)

    def compiled(
        self, changes: Sequence[CaseChange], what: str
    ) -> Iterator[tuple[CaseChange, Probe]]:
        """Yield each change and its probe, in the given order."""
        cases = [change.applied(self.case) for change in changes]
        answers = {
            id(probe.case): probe
            for probe in self.prober.probe_all(
                [ProbeJob(case, self.ref) for case in cases], what
            )
        }
        for change, case in zip(changes, cases, strict=True):
            yield change, answers[id(case)]

    @property
    def is_out_of_time(self) -> bool:
        """Whether another batch would end after the deadline, if it takes as long as
        the longest so far.
        """
        return time.monotonic() + self.longest > self.deadline

    @property
    def is_over(self) -> bool:
        """Whether a change that keeps the program and its checks works, and no others
        are wanted.
        """
        return not self.exhaustive and any(
            change.is_clean for change, _ in self.working
        )

    @property
    def working(self) -> list[tuple[CaseChange, Probe]]:
        return [
            (change, probe)
            for change, probe in self.probes.values()
            if isinstance(probe.outcome, Passed)
        ]

    @property
    def promising(self) -> list[tuple[CaseChange, Failure]]:
        found = []
        for change, probe in self.probes.values():
            if isinstance(probe.outcome, Failed):
                failures = (probe.outcome.failure, *probe.outcome.others)
                if all(
                    failure.signature != self.failure.signature for failure in failures
                ):
                    found.append((change, failures[0]))
        return found

    def with_smallest_value(
        self, change: CaseChange, probe: Probe
    ) -> tuple[CaseChange, Probe, bool]:
        """Find the smallest value with which a change works, given that its largest
        does. The budget does not apply.

        Returns:
            The change, its probe, and whether the next smaller value fails.
        """
        if change.limit is None:
            return change, probe, False
        values = change.limit.least_values
        tried = {len(values): (change, probe)}

        def works(number: int) -> bool:
            [tried[number]] = self.compiled(
                [change.with_value(values[number - 1])], f"the smallest {change.text}"
            )
            return isinstance(tried[number][1].outcome, Passed)

        number = bisect_left(range(1, len(values)), 1, key=works) + 1
        return *tried[number], number > 1


_MAX_CHECKED = 5  # remedies that are tried on other compilers too
_SIZES = (*COST_METRICS, "artifact_bytes")
_Found = tuple[CaseChange, Probe, bool]
"""A change that makes the case compile, its probe, and whether the next smaller value
fails.
"""


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
    untimed: Prober | None = None
    """Judges results, where the engine judges times."""


def find_remedies(engine: Engine, request: RemedyRequest) -> Remedies:
    """Try what may make the case compile.

    Raises:
        EnvironmentFailure: A compiler cannot be obtained.
    """
    deadline = time.monotonic() + request.seconds
    failing = engine.probe(request.case, request.bad)
    failures = _failures(failing)
    if isinstance(failures, NoAnswer):
        return Remedies(request.case.name, failing.revision, failures)
    first, second = _tiers(engine, request, failures)
    longest, case = failing.measured.seconds, request.case
    trials = Trials(
        engine,
        case,
        request.bad,
        failures[0],
        request.budget,
        deadline,
        longest,
        request.exhaustive,
    )
    trials.search(first, second)
    is_out_of_time = trials.is_out_of_time
    found = sorted(
        (trials.with_smallest_value(*working) for working in trials.working),
        key=lambda one: _rank(*one[:2]),
    )
    others, notes = _other_toolchains(engine, request)
    remedies, compiling = _checked(engine, request, found, others)
    newer = [
        revision for revision in compiling if _is_newer(revision, failing.revision)
    ]
    tried, left = len(trials.probes), 0
    if not trials.is_over:
        left = len({change.text for change in (*first, *second)} - trials.probes.keys())
    return Remedies(
        case=case.name,
        toolchain=failing.revision,
        unanswered=None if remedies else _nothing_found(case, failures[0], tried, left),
        failure=failures[0],
        remedies=_distinct(sorted(remedies, key=lambda remedy: remedy.rank)),
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
    match probe.outcome:
        case Passed():
            if probe.case.run:
                does = "computes what it must"
            else:
                does = "compiles"
            return NoAnswer(Cause.NEEDLESS, f"it {does} on {probe.revision.name}")
        case Failed(failure, others):
            return (failure, *others)
        case NoAnswer(cause, _, failure) if cause is Cause.FLAG and failure is not None:
            return (failure,)
        case NoAnswer(cause, reason):
            why = f"it cannot be tested on {probe.revision.name}: {reason}"
            return NoAnswer(cause, why)


def _nothing_found(case: Case, failure: Failure, tried: int, left: int) -> NoAnswer:
    """Say why there is no remedy. left: candidates that the budget left untried."""
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
    """Return the candidates of both tiers. This rewrites the input as the rules of the
    failures' classes ask.
    """
    case, toolchain = request.case, engine.registry.obtain(request.bad)
    prepared, hints = engine.planner.input_of(case, toolchain), family_of(case).remedies
    candidates = (
        candidate
        for failure in failures
        for candidate in candidates_of_class(case, failure)
    )
    situation = Situation(
        case,
        failures,
        toolchain,
        hints,
        hints.devices_named(prepared.path)
        if hints and isinstance(prepared, Prepared)
        else frozenset(),
        request.siblings,
        rewritten_inputs(
            engine,
            case,
            toolchain,
            {candidate.rewrite for candidate in candidates if candidate.rewrite},
        ),
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
    found: Sequence[_Found],
    others: Sequence[ToolchainRef],
) -> tuple[list[Remedy], list[Revision]]:
    """Try the best remedies on other compilers, and measure the resources on the bad
    and the first other one.

    Remedies that save time are measured again, and those that do not hold are left out.

    Returns:
        The remedies, and the other revisions that compile the case without one; the
            newer ones if there is no remedy.
    """
    cases = [change.applied(request.case) for change, *_ in found[:_MAX_CHECKED]]
    jobs = [ProbeJob(case, request.bad, resources=True) for case in cases]
    others = [
        ref for ref in others if found or _is_newer(ref.revision, request.bad.revision)
    ]
    for ref in others:
        jobs += [
            ProbeJob(case, ref, resources=ref is others[0])
            for case in (request.case, *cases)
        ]
    probes = {
        (id(probe.case), probe.revision.name): probe
        for probe in engine.probe_all(jobs, "cost and other compilers")
    }
    plain = [probes[id(request.case), ref.revision.name] for ref in others]
    on_bad = [probes[id(case), request.bad.revision.name] for case in cases]
    wrong = _wrong_cases(request, on_bad)
    remedies = []
    for (change, probe, smallest), again in zip(found, on_bad, strict=False):
        if id(again.case) not in wrong:
            checks = tuple(
                RemedyCheck(
                    result_of(without),
                    result_of(probes[id(again.case), without.revision.name]),
                )
                for without in plain
            )
            measured = replace(probe, measured=again.measured)
            remedies.append(_remedy(change, measured, smallest, checks))
    if request.untimed is None:
        remedies += [_remedy(*one) for one in found[_MAX_CHECKED:]]
    return remedies, [
        probe.revision for probe in plain if isinstance(probe.outcome, Passed)
    ]


def _wrong_cases(request: RemedyRequest, timed: Sequence[Probe]) -> set[int]:
    """Return the cases, by identity, whose times do not count: the second measurement
    fails, or the program does not compute what it must.
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
    """Leave out a change of the same flag with the same result, such as `--x=false`
    next to leaving `--x` out.
    """
    kept: dict[object, Remedy] = {}
    for remedy in remedies:
        names = frozenset(map(flag_name, (*remedy.flags, *remedy.dropped_flags)))
        result = tuple(
            remedy.cost[name] for name in _SIZES if remedy.cost and name in remedy.cost
        )
        kept.setdefault((names, result) if names and result else remedy.text, remedy)
    return tuple(kept.values())


def _remedy(
    change: CaseChange,
    probe: Probe,
    smallest: bool,
    checks: tuple[RemedyCheck, ...] = (),
) -> Remedy:
    if isinstance(probe.outcome, Passed):
        warnings = probe.outcome.warnings
    else:
        warnings = ()
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
    parts += [
        (
            f"It breaks {check.with_.toolchain.name}, where the case passes without "
            f"it: {_why_broken(check.with_)}."
        )
        for check in broken
    ]
    if not checks:
        parts.append("It was not tried on another compiler.")
    return Remedy(
        flags=change.flags,
        dropped_flags=change.dropped,
        input_change=change.input_change,
        input=str(change.program) if change.program else None,
        verified_on=(
            probe.revision,
            *(check.with_.toolchain for check in checks if check.with_.passed),
        ),
        breaks=tuple(check.with_.toolchain for check in broken),
        explanation=" ".join(filter(None, parts)),
        smallest=smallest,
        only_silences_a_check=change.checks_less,
        computes_in_other_types=change.recomputes,
        cost=cost_of(result_of(probe)),
        checks=checks,
        rank=(len(broken), *_rank(change, probe)),
    )


def _why_broken(result: ProbeResult) -> str:
    if result.failure and result.failed:
        return f"failed with {result.failure.failure_class}"
    # What this compiler suggests instead of a flag says nothing about the remedy.
    return f"untestable, {(result.reason or '').partition(';')[0]}"
