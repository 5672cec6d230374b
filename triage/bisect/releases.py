"""Find the release that brought a failure, or the one that took it away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from triage.bisect.ends import chased, wrong_end
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.bisect.search import Search, Side
from triage.execution.judge import Match, same_signature, verdict_of
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Failure, Outcome, Probe, Untestable, Verdict
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef

_CONFIRMATIONS = 3  # rounds of doubt before a pair that will not agree with itself is given up


class ReleaseVerdicts:
    """One case along a line of places: what each probe said, and what it cost."""

    def __init__(self, bench: ProbeRunner, case: Case, places: Sequence[ToolchainRef]) -> None:
        self.bench, self.case, self.places = bench, case, places
        self.outcomes: dict[int, Outcome] = {}
        self.revisions: dict[int, Revision] = {}
        self.probes = self.rounds = self.cached = 0

    def ask(self, indices: Iterable[int], *, fresh: bool = False) -> None:
        """Probe those places, at once; the answers are in `outcomes`."""
        wanted = {self.places[index].revision.name: index for index in indices if fresh or index not in self.outcomes}
        if not wanted:
            return
        self.rounds += 1
        jobs = [ProbeJob(self.case, self.places[index], fresh) for index in wanted.values()]
        for probe in self.bench.probe_all(jobs, f"bisect {self.case.name}"):
            self._take(wanted[probe.revision.name], probe)

    def outcome(self, index: int) -> Outcome:
        """The outcome at a place, probed if it was not yet."""
        self.ask([index])
        return self.outcomes[index]

    def revision(self, index: int) -> Revision:
        """The revision of a place, with its commit where a toolchain told it."""
        return self.revisions.get(index, self.places[index].revision)

    def _take(self, index: int, probe: Probe) -> None:
        self.outcomes[index] = probe.outcome
        self.revisions[index] = probe.revision
        self.probes += 1
        self.cached += probe.cached


def bisect_releases(
    bench: ProbeRunner,
    case: Case,
    places: Sequence[ToolchainRef],
    *,
    kind: BisectKind = BisectKind.REGRESSION,
    before: int | None = None,
    after: int | None = None,
    match: Callable[[Failure], Match] = same_signature,
) -> Bisection:
    """The change of `case` along `places` (oldest first).

    before, after: indices of the ends, the old state and the new one; they are probed and must be what they are said to
    be. Without `after` the newest place that can be tested is it; without `before` it is looked for backwards, in steps
    that double. `match` makes, from the failure being chased, what recognises it.
    """
    line = ReleaseVerdicts(bench, case, places)
    if before is not None and after is not None:
        line.ask([before, after])
    after = _newest_testable(line) if after is None else after
    if after is None:
        return _inconclusive(line, kind, "no release could be tested", at=len(places) - 1)
    if (wrong := _wrong_state(line, after, new=True, kind=kind)) is not None:
        return _inconclusive(line, kind, wrong, at=after)
    if before is None:
        before = _old_state(line, after, kind)
        if before is None:
            return _inconclusive(line, kind, _never(line, after, kind))
    elif (wrong := _wrong_state(line, before, new=False, kind=kind)) is not None:
        return _inconclusive(line, kind, wrong, at=before)
    failure = _failure_at(line, after if kind is BisectKind.REGRESSION else before)
    bench.progress.note(chased(case, failure))
    return _narrow(line, kind, before, after, failure, match(failure))


def _narrow(line: ReleaseVerdicts, kind: BisectKind, before: int, after: int, failure: Failure, match: Match) -> Bisection:
    distrusted: set[int] = set()
    for _ in range(_CONFIRMATIONS):
        search = _search(line, kind, before, after, match, distrusted)
        while chosen := search.next(line.bench.jobs):
            line.ask(chosen)
            search = _search(line, kind, before, after, match, distrusted)
        low, high = search.bounds
        if len(search.suspects) > 1:
            return _answer(line, kind, search, failure, confirmed=False)
        line.ask([low, high], fresh=True)
        disagreeing = {
            index
            for index, side in ((low, Side.BEFORE), (high, Side.AFTER))
            if _side(line.outcomes[index], kind, match) is not side
        }
        if not disagreeing:
            return _answer(line, kind, search, failure, confirmed=True)
        for index in disagreeing & {before, after}:
            why = f"{line.revision(index).name} does not give the same result twice"
            return replace(_inconclusive(line, kind, why, at=index), failure=failure)
        distrusted |= disagreeing
    return _answer(line, kind, search, failure, confirmed=False)


def _search(line: ReleaseVerdicts, kind: BisectKind, before: int, after: int, match: Match, distrusted: set[int]) -> Search:
    sides = {
        index: Side.UNKNOWN if index in distrusted else _side(outcome, kind, match)
        for index, outcome in line.outcomes.items()
        if before < index < after
    }
    return Search(before, after, sides)


def _side(outcome: Outcome, kind: BisectKind, match: Match) -> Side:
    verdict = verdict_of(outcome, match)
    if verdict is Verdict.SKIP:
        return Side.UNKNOWN
    return Side.AFTER if (verdict is Verdict.BAD) == (kind is BisectKind.REGRESSION) else Side.BEFORE


def _newest_testable(line: ReleaseVerdicts) -> int | None:
    for index in range(len(line.places) - 1, -1, -1):
        if not isinstance(line.outcome(index), Untestable):
            return index
    return None


def _wrong_state(line: ReleaseVerdicts, index: int, *, new: bool, kind: BisectKind) -> str | None:
    """Why a place cannot be an end of the search; None when it can."""
    return wrong_end(line.places[index].revision.name, line.outcome(index), must_fail=new == (kind is BisectKind.REGRESSION))


def _old_state(line: ReleaseVerdicts, after: int, kind: BisectKind) -> int | None:
    """The nearest place found that is in the other state: 1, 2, 4, ... places back, then whatever was left out."""
    strides = [after - (1 << power) for power in range(after.bit_length()) if after - (1 << power) > 0]
    rest = [index for index in range(after - 1, -1, -1) if index not in strides and index != 0]
    order = [*strides, 0, *rest] if after > 0 else []
    step = line.bench.jobs
    for some in (order[at : at + step] for at in range(0, len(order), step)):
        line.ask(some)
        for index in some:
            outcome = line.outcomes[index]
            if kind is BisectKind.FIX and isinstance(outcome, Failed) and not outcome.flaky:
                return index
            if kind is BisectKind.REGRESSION and isinstance(outcome, Compiled):
                return index
    return None


def _never(line: ReleaseVerdicts, after: int, kind: BisectKind) -> str:
    oldest, newest = line.places[0].revision.name, line.places[after].revision.name
    if kind is BisectKind.FIX:
        return f"nothing was fixed: no release from {oldest} to {newest} fails"
    failing = [index for index, outcome in line.outcomes.items() if isinstance(outcome, Failed)]
    if len(failing) == after + 1:
        return f"no release from {oldest} to {newest} compiles it: it never worked, so nothing regressed"
    return f"no release from {oldest} to {newest} compiles it; some could not be tested"


def _failure_at(line: ReleaseVerdicts, index: int) -> Failure:
    outcome = line.outcomes[index]
    assert isinstance(outcome, Failed)
    return outcome.failure


def _answer(line: ReleaseVerdicts, kind: BisectKind, search: Search, failure: Failure, *, confirmed: bool) -> Bisection:
    low, high = search.bounds
    suspects = search.suspects
    return replace(
        _inconclusive(line, kind, None),
        answer=Answer.CULPRIT if confirmed else Answer.SUSPECTS,
        failure=failure,
        before=line.revision(low),
        after=line.revision(high),
        suspects=tuple((line.revision(index), round(1 / len(suspects), 4)) for index in suspects),
        confirmed=confirmed,
        other_failures=_others(line, range(low + 1, high)),
    )


def _inconclusive(line: ReleaseVerdicts, kind: BisectKind, reason: str | None, at: int | None = None) -> Bisection:
    """`at`: the place whose state made it inconclusive."""
    end = line.outcomes.get(at) if at is not None else None
    untestable = [
        (line.revision(index), outcome.reason)
        for index, outcome in sorted(line.outcomes.items())
        if isinstance(outcome, Untestable)
    ]
    return Bisection(
        case=line.case,
        kind=kind,
        answer=Answer.INCONCLUSIVE,
        probes=line.probes,
        rounds=line.rounds,
        cached=line.cached,
        untestable=tuple(untestable),
        reason=reason,
        cause=end.cause if isinstance(end, Untestable) else None,
    )


def _others(line: ReleaseVerdicts, between: range) -> tuple[tuple[Revision, Failure], ...]:
    return tuple(
        (line.revision(index), outcome.failure) for index in between if isinstance(outcome := line.outcomes.get(index), Failed)
    )
