"""Search a range for the candidate that brought a change: choose a probe, judge it, update the belief; confirm and answer."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from triage.bisect.belief import Belief, SuspectBlock, next_probes
from triage.bisect.candidates import BisectRange, CommitCandidates
from triage.bisect.pass_evidence import PassEvidence, pass_evidence
from triage.bisect.prior import Clues
from triage.bisect.result import (
    CONFIDENCE,
    Answer,
    Bisection,
    BisectKind,
    OtherFailure,
    Side,
    Suspect,
    Transition,
    UntestableRevision,
    unexpected,
)
from triage.execution.engine import Engine
from triage.execution.judge import Match, any_failure, same_signature, verdict_of
from triage.execution.task import ProbeJob
from triage.git_history import Repository
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Compiled, Failed, Failure, Outcome, Untestable, Verdict
from triage.model.revision import Revision
from triage.toolchains.sources.project import FILE, Project, find_project, load_project

_LEAST_SECONDS = 0.05  # of a compile that has not been measured yet
_MOST_ROUNDS = 40  # searches for another pair after a confirmation that failed
_MOST_FLAKY_PROBES = 400  # of a range whose probes contradict themselves
_WORTH_COMPARING = 8  # candidates; fewer need three probes at most
_SLOWER = 6.0  # factor by which a compile slows down when it prints its IR; comparing two may save one probe
_MOST_CONFIRMATIONS = 5
_FLAKY_RATE = 0.2  # wrong probes that are assumed at least in both states, once probes have disagreed
_HIGHEST_RATES = 0.9  # of both states together; with more, no number of probes tells them apart
_END_PROBES = 8  # of the failing end at least, to know how often it passes, once probes have disagreed
_END_REPEATS = 3  # probes that must be right after a first one that was wrong at an end
_TESTED_PAIRS = 5  # candidate pairs that a search with flaky probes may try to confirm; each must rarely be a wrong one
_SAME_ERRORS = 5  # compilers that cannot be obtained for the same reason before the search gives up
_NOTED = 20  # suspects with details
_OF_A_COMMIT = re.compile(r"[0-9a-f]{7,40}|/\S+|\d+")  # what differs between equal errors of two commits


@dataclass(slots=True)
class Effort:
    """What a search and its parts have cost so far."""

    probes: int = 0
    rounds: int = 0
    cached: int = 0
    started: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class BisectRequest:
    """What to bisect and how, without the two revisions."""

    runner: Engine
    case: Case
    repo: Path | None = None
    """A clone of the compiler, to search commits; without one, releases are searched."""
    project_file: Path | None = None
    """Named by the user; otherwise a `triage.yaml` here or in the clone, otherwise the one that is shipped."""
    kind: BisectKind = BisectKind.REGRESSION
    match: Callable[[Failure], Match] = same_signature
    confidence: float = CONFIDENCE
    attribute: bool = True
    """Compare the passes of both ends before a search over commits, as evidence about the commit."""
    build: bool = False
    """Build commits from source if only the shipped project file says how."""
    go_on: Callable[[str], bool] = lambda _: True
    """Asks whether to start a search over commits whose cost is this text."""

    @cached_property
    def repository(self) -> Repository:
        """The clone. Raises BadInput if it is missing or not a clone."""
        if self.repo is None:
            raise BadInput("commits need a clone of the compiler: name it with --repo")
        return Repository(self.repo)

    @cached_property
    def project(self) -> Project:
        """The project file. Raises BadFiles if it has mistakes."""
        if self.project_file:
            return load_project(self.project_file)
        folders = [Path(), *filter(None, [self.repo])]
        project = find_project(self.case.compiler, *folders)
        is_own = any((folder / FILE).is_file() for folder in folders)
        return project if self.build or is_own else project.model_copy(update={"build": None})


@dataclass(slots=True)
class BisectSearch:
    """A search in progress: what was probed and what follows from it."""

    request: BisectRequest
    range: BisectRange
    judge: Callable[[Outcome, Match], Verdict] = verdict_of
    outcomes: dict[int, list[Outcome]] = field(default_factory=dict)
    belief: Belief | None = None
    failure: Failure | None = None
    evidence: PassEvidence | None = None
    untestable_outside: tuple[UntestableRevision, ...] = ()
    """Probed while the ends were looked for."""
    broke: Transition | None = None
    fixed: Transition | None = None
    reason: str | None = None
    """Why the search cannot go on."""
    cause: Cause | None = None
    effort: Effort = field(default_factory=Effort)
    compile_seconds: float = _LEAST_SECONDS
    revisions: dict[int, Revision] = field(default_factory=dict)
    """With what a toolchain reported once it was there."""
    foreign: set[int] = field(default_factory=set)
    """Candidates first probed by a machine that is not trusted."""
    announced: str = ""
    """The last line of progress."""

    @property
    def last(self) -> int:
        return len(self.range.candidates) - 1

    @property
    def failing_end(self) -> int:
        return self.last if self.request.kind.failing is Side.NEW else 0

    def revision(self, index: int) -> Revision:
        return self.revisions.get(index, self.range.candidates[index].revision)

    def change(self, index: int) -> Suspect:
        """Return what may have brought the change if it is between the candidate before this one and this one."""
        return self.range.candidates[index].change or Suspect.of(self.revision(index))

    @property
    def pair(self) -> tuple[tuple[int, Side], tuple[int, Side]]:
        """The two candidates around the leading suspects, each with the side that it must be on."""
        block = self.leading
        return (block.first - 1, Side.OLD), (block.last, Side.NEW)

    @property
    def leading(self) -> SuspectBlock:
        assert self.belief is not None
        return self.belief.leading

    @property
    def resolved(self) -> bool:
        """Whether the leading suspects are likely enough, with a probe on each side of them."""
        return self.belief is not None and self.belief.is_resolved(self.request.confidence)

    @property
    def clues(self) -> Clues:
        """What the failure, the case and the passes say about the culprit."""
        assert self.failure is not None
        noticed = self.request.kind is BisectKind.REGRESSION and not self.range.candidates[-1].ref.is_release
        clues = Clues.of(self.failure, self.request.case.target.backend, noticed=noticed)
        return self.evidence.added_to(clues) if self.evidence else clues

    def verdict(self, outcome: Outcome) -> Verdict:
        assert self.failure is not None
        return self.judge(outcome, self.request.match(self.failure))

    def side(self, outcome: Outcome) -> Side | None:
        """Return the side of the change that an outcome shows; None if it is skipped."""
        return self.request.kind.side(self.verdict(outcome))

    def shown(self, index: int) -> tuple[int, int]:
        """Return how often a candidate was on the old and on the new side."""
        sides = [self.side(outcome) for outcome in self.outcomes.get(index, [])]
        return sides.count(Side.OLD), sides.count(Side.NEW)

    # Begin

    def begin(self) -> bool:
        """Verify both ends and weigh the candidates between them; False if the search cannot begin (see `reason`)."""
        self.ask(index for index in (0, self.last) if index not in self.outcomes)
        if not (self._verify_end(0, Side.OLD) and self._verify_end(self.last, Side.NEW)):
            self.reason = self.alike(0, self.last) or self.reason
            return False
        outcome = self.outcomes[self.failing_end][-1]
        assert isinstance(outcome, Failed)
        self.failure = outcome.failure
        request, note = self.request, self.request.runner.progress.note
        note(f"{request.case.name}: bisecting {self.failure.failure_class}: {self.failure.headline}")
        if (hint := unexpected(request.case, self.failure)) is not None:
            note(hint)
        if self.evidence is None and self._worth_comparing():
            good, bad = (self.range.candidates[index].ref for index in (self.last - self.failing_end, self.failing_end))
            self.evidence = pass_evidence(request.runner, request.case, good, bad, request.repository)
        self.rebuild()
        return True

    def rebuild(self) -> None:
        """Start the belief anew from the outcomes of the candidates between the ends."""
        shown = [(index, self.side(outcome)) for index, outcomes in self.outcomes.items() for outcome in outcomes]
        self.belief = Belief.from_weights(self.range.weights(self.clues), self.range.closed).observe(*shown)

    def is_end(self, index: int, side: Side) -> bool:
        """Return whether the last outcome of a candidate fits an end; sets `reason` and `cause` if it does not."""
        outcome = self.outcomes[index][-1]
        self.reason = wrong_end(self.revision(index).name, outcome, side, self.request.kind)
        self.cause = outcome.cause if isinstance(outcome, Untestable) else None
        return self.reason is None

    def alike(self, old: int, new: int) -> str | None:
        """Return the reason not to search between two candidates if both compile or both fail."""
        if any(len(set(map(type, self.outcomes[index]))) > 1 for index in (old, new)):  # flaky
            return None
        names = f"{self.revision(old).name} and {self.revision(new).name}"
        match self.outcomes[old][-1], self.outcomes[new][-1]:
            case Compiled(), Compiled():
                return f"it compiles at both ends, {names}; pass --bad with a revision that fails"
            case Failed(failure=first, flaky=False), Failed(failure=second, flaky=False):
                headlines = " and ".join(dict.fromkeys((first.headline, second.headline)))
                return f"it fails at both ends, {names}: {headlines}; pass --good with a revision that compiles"
        return None

    def _verify_end(self, index: int, side: Side) -> bool:
        """Return whether a candidate is an end. One that seems not to be is taken if all further probes differ."""
        if self.is_end(index, side):
            return True
        is_right: list[bool] = []
        for _ in range(_END_REPEATS):
            if self.cause is not None:
                return False
            self.ask([index], fresh=True)
            is_right.append(self.is_end(index, side))
            if not is_right[0]:
                return False
        if not all(is_right):
            self.reason = _flaky_end(self.revision(index).name)
        return all(is_right)

    def _worth_comparing(self) -> bool:
        """Return whether comparing passes costs less than the probes that it may save: it compiles twice, and slowly."""
        seconds = sorted(one.seconds for one in self.range.candidates if one.untestable is None)
        probe = seconds[len(seconds) // 2] + self.compile_seconds
        is_asked = self.request.attribute and isinstance(self.range, CommitCandidates)
        return is_asked and self.last >= _WORTH_COMPARING and probe >= _SLOWER * 2 * self.compile_seconds

    # Probe

    def choose(self) -> tuple[int, ...]:
        """Return the candidates to probe next; none if the answer is final or no probe can help any more."""
        if self.resolved or self.reason:
            return ()
        assert self.belief is not None
        seconds = [candidate.seconds + self.compile_seconds for candidate in self.range.candidates]
        return next_probes(self.belief, seconds, self.request.runner.jobs)

    def ask(self, indices: Iterable[int], *, fresh: bool = False, times: int = 1) -> None:
        """Probe candidates at once, each `times` times, and take in the outcomes. fresh: ignore the cache."""
        asked: dict[tuple[Path, str], int] = {}  # one of those that share compiler and input; the others are cached later
        jobs: list[ProbeJob] = []
        for index in indices:
            candidate = self.range.candidates[index]
            case = candidate.case_of() if candidate.case_of else self.request.case
            if isinstance(case, Untestable):
                self.take(index, case)
            elif asked.setdefault((case.source, candidate.ref.revision.name), index) == index:
                jobs.append(ProbeJob(case, candidate.ref, fresh or index in self.outcomes))
        if not jobs or times < 1:
            return
        self.effort.rounds += 1
        jobs += [replace(job, fresh=True) for _ in range(times - 1) for job in jobs]
        for probe in self.request.runner.probe_all(jobs, f"bisect {self.request.case.name}"):
            index, outcome = asked[probe.case.source, probe.revision.name], probe.outcome
            self.effort.probes += 1
            self.effort.cached += probe.cached
            self.compile_seconds = max(self.compile_seconds, probe.measured.seconds)
            self.take(index, outcome)
            if probe.foreign:
                self.foreign.add(index)
            if self.range.candidates[index].revision.commit is None:
                self.revisions[index] = probe.revision
            if isinstance(outcome, Untestable) and outcome.cause is Cause.ENVIRONMENT and not probe.measured.seconds:
                self.reason, self.cause = f"{probe.revision.name}: {outcome.reason}", Cause.ENVIRONMENT
        inside = [outcomes[-1] for index, outcomes in self.outcomes.items() if 0 < index < self.last]
        errors = [one.reason for one in inside if isinstance(one, Untestable) and one.cause is Cause.TOOLCHAIN]
        if len(inside) == len(errors) >= _SAME_ERRORS and len({_OF_A_COMMIT.sub("", error) for error in errors}) == 1:
            self.reason = f"no compiler could be obtained between both ends: {errors[-1]}"
            self.cause = Cause.ENVIRONMENT

    def take(self, index: int, outcome: Outcome) -> None:
        self.outcomes.setdefault(index, []).append(outcome)
        if self.belief is not None:
            self.belief = self.belief.observe((index, self.side(outcome)))

    def tell(self) -> None:
        """Print one line of progress if anything changed."""
        assert self.belief is not None
        (index, chance), *others = self.belief.suspects()
        likeliest = self.change(index)
        name = f"{likeliest.name} {likeliest.subject or ''}".rstrip()
        if others:
            steps = self.belief.steps
            line = f"{1 + len(others)} suspects left, about {steps} step{'' if steps == 1 else 's'}"
            line += f"; most likely ({chance:.0%}): {name}" if chance > others[0][1] else ""
        else:
            line = f"1 suspect left: {name}"
        if line != self.announced:
            self.announced = line
            self.request.runner.progress.note(line)

    # Confirm

    @property
    def contradicts(self) -> bool:
        """Whether a candidate has shown both sides."""
        return self.failure is not None and any(all(self.shown(index)) for index in self.outcomes)

    @property
    def is_inverted(self) -> bool:
        """Whether a candidate on the new side is older than one on the old side: a wrong probe, or a second change."""
        shown = {index: self.shown(index) for index in self.outcomes}
        oldest_new = min((index for index, (_, new) in shown.items() if new), default=self.last)
        return any(old and index > oldest_new for index, (old, _) in shown.items())

    @property
    def rates(self) -> tuple[float, float]:
        """How often the ends show that a candidate of the new side shows the old one at most, and the other way round."""
        old, new = self.shown(0), self.shown(self.last)
        return _highest_rate(new[0], sum(new)), _highest_rate(old[1], sum(old))

    @property
    def evidence_needed(self) -> float:
        """Log odds for a side at which chance confirms a wrong pair less often than the confidence allows."""
        return -math.log(max(1 - self.request.confidence, 1e-6) / (2 * _TESTED_PAIRS))

    def proof(self, index: int, side: Side) -> float:
        """Return how well the probes of a candidate prove its side: 1 or more is enough, below 0 they rather show the other.

        While no probe contradicts another, it must be on its side once more than it is confirmed. Otherwise its results must be
        so much likelier on that side that chance confirms a wrong pair less often than the confidence allows. Where the
        failure comes and goes after the change, many passes are needed before a candidate counts as good.
        Results of machines that are not trusted prove nothing.
        """
        old, new = self.shown(index)
        skipped = len(self.outcomes.get(index, [])) - old - new
        trusted = -1 if index in self.foreign else 0
        if not (self.contradicts or self.is_inverted):
            lead = (old - new if side is Side.OLD else new - old) - skipped + trusted
            return lead / (1 + confirmations(self.request.confidence))
        # What the pair itself shows counts too: were it right, its candidates would err as often as the ends.
        missed, false = self.rates
        (before, _), (after, _) = self.pair
        false = min(max(false, _highest_rate(self.shown(before)[1], sum(self.shown(before)))), 0.5)
        missed = min(max(missed, _highest_rate(self.shown(after)[0], sum(self.shown(after)))), 0.98 - false)
        if side is Side.OLD:
            log_odds = (old + trusted) * math.log((1 - false) / missed) + (new + skipped) * math.log(false / (1 - missed))
        else:
            log_odds = (new + trusted) * math.log((1 - missed) / false) + (old + skipped) * math.log(missed / (1 - false))
        return log_odds / self.evidence_needed

    @property
    def times(self) -> int:
        """How often each of a pair is probed again at once, while no candidate contradicts itself."""
        if not self.is_inverted:
            return confirmations(self.request.confidence)
        return math.ceil(self.evidence_needed / math.log((1 - _FLAKY_RATE) / _FLAKY_RATE)) - 1

    @property
    def is_confirmed(self) -> bool:
        """Whether both candidates of the pair were probed again and proved to be on their sides."""
        return self.resolved and all(self.proof(index, side) >= 1 for index, side in self.pair)


def run_search(search: BisectSearch) -> Bisection:
    """Run a search to its end."""
    if search.belief is None and not search.begin():
        return answer(search)
    search.tell()
    for _ in range(_MOST_ROUNDS):
        while (chosen := search.choose()) and search.effort.probes < _MOST_FLAKY_PROBES:
            search.ask(chosen)
            search.tell()
        if not search.resolved or confirm(search) or search.reason:
            break
        search.tell()
    found = answer(search)
    # A commit of the old end's branch is the culprit, but the new end has its original, or merged it. That end has the
    # new state all the same, so that a later commit brought the change, unless the original does not have the old state.
    start = search.range.original(search.leading.last) if found.status is Answer.CULPRIT else None
    if start is None or start == search.last:
        return found
    names = (search.revision(index).name for index in (0, start, search.last))
    search.request.runner.progress.note("{} has the change of {}, which {} contains: searching from there".format(*names))
    further = run_search(part_of(search, start, search.last))
    if further.status is not Answer.INCONCLUSIVE:
        return further
    return replace(found, probes=further.probes, rounds=further.rounds, cached=further.cached)


def part_of(search: BisectSearch, first: int, last: int) -> BisectSearch:
    """Return the search between two of its candidates, with what is known of them. Probes count for the whole."""

    def shifted(known: Iterable[int]) -> list[int]:
        return [index for index in known if first <= index <= last]

    return replace(
        search,
        range=search.range.part(first, last),
        outcomes={index - first: list(search.outcomes[index]) for index in shifted(search.outcomes)},
        revisions={index - first: search.revisions[index] for index in shifted(search.revisions)},
        foreign={index - first for index in shifted(search.foreign)},
        belief=None,
        failure=None,
    )


def confirm(search: BisectSearch) -> bool:
    """Probe the pair around the leading suspects again, ignoring the cache; return whether its own probes prove both sides.

    A candidate that contradicts itself shows that probes are not reliable. Both ends then show how often a probe is wrong; the
    belief weighs probes by that, and both candidates are probed until their sides are proved. A candidate that rather shows the
    other side sends the search elsewhere. An end that does makes the search inconclusive.
    """
    pair, failing = search.pair, search.failing_end
    search.ask(index for index, _ in pair if index not in search.outcomes)  # known from a journal only
    if not search.contradicts:
        search.ask([index for index, _ in pair if index in search.foreign], fresh=True)
        search.ask([index for index, _ in pair], fresh=True, times=search.times)
        # A failure that comes and goes since the culprit shows both sides at the failing end.
        search.ask([failing], fresh=True, times=2 * search.times + 1 - sum(search.shown(failing)))
    while search.contradicts and search.effort.probes < _MOST_FLAKY_PROBES and not search.reason:
        needed = max(_END_PROBES, *(sum(search.shown(index)) for index, _ in pair))
        search.ask([failing], fresh=True, times=needed - sum(search.shown(failing)))
        missed, false = search.rates
        if missed + false > _HIGHEST_RATES:
            search.reason = _flaky_end(search.revision(search.last if missed > false else 0).name)
            return False
        assert search.belief is not None
        search.belief = replace(search.belief, doubtful=True)
        unclear = [index for index, side in pair if search.proof(index, side) < 1]
        if not unclear or not search.resolved or search.pair != pair:
            break
        search.ask(unclear, fresh=True)
    return search.is_confirmed


def confirmations(confidence: float) -> int:
    """Return how often a pair is probed again while every probe is trusted, for a culprit of this confidence.

    Assume that one probe in five is wrong. About every second search then meets a wrong probe, and each confirmation repeats it
    one time in five.
    """
    allowed = 2 * (1 - confidence)
    if allowed <= 0:
        return _MOST_CONFIRMATIONS
    return min(_MOST_CONFIRMATIONS, max(1, math.ceil(math.log(allowed) / math.log(_FLAKY_RATE) - 1e-9)))


def _highest_rate(wrong: int, probes: int) -> float:
    """Return the rate of wrong probes that a number of them leaves possible (by one standard error), at least one in five."""
    if not wrong:
        return _FLAKY_RATE
    rate = (wrong + 1) / (probes + 2)
    return max(_FLAKY_RATE, rate + math.sqrt(rate * (1 - rate) / (probes + 3)))


def wrong_end(name: str, outcome: Outcome, side: Side, kind: BisectKind) -> str | None:
    """Return why a revision with this outcome cannot be this end of the range; None if it can."""
    match outcome:
        case Untestable(reason=reason):
            return f"{name} cannot be tested: {reason}"
        case Failed(flaky=True):
            return _flaky_end(name)
        case Failed(failure=failure) if side is not kind.failing:
            older = "an older" if side is Side.OLD else "a newer"
            return f"expected {name} to compile, but it fails: {failure.headline}; pass --good with {older} revision"
        case Compiled() if side is kind.failing:
            return f"expected {name} to fail, but it compiles; pass --bad with a revision that fails"
    return None


def _flaky_end(name: str) -> str:
    return f"{name} is flaky: repeated probes disagree"


def answer(search: BisectSearch) -> Bisection:
    """Report what the search knows so far."""
    request, belief = search.request, search.belief
    match = request.match(search.failure) if search.failure else any_failure
    untestable, others = [], []
    for index, outcomes in sorted(search.outcomes.items()):
        outcome = outcomes[-1]
        if isinstance(outcome, Untestable):
            untestable.append(UntestableRevision(search.revision(index), outcome.reason))
        elif isinstance(outcome, Failed) and not match(outcome.failure):
            others.append(OtherFailure(search.revision(index), outcome.failure))
    if belief is not None:
        inside = search.range.candidates[belief.bounds[0] + 1 : belief.bounds[1]]
        untestable += [UntestableRevision(one.revision, one.untestable) for one in inside if one.untestable is not None]
        untestable += search.range.left_out
    inconclusive = Bisection(
        case=request.case.name,
        kind=request.kind,
        status=Answer.INCONCLUSIVE,
        failure=search.failure,
        probes=search.effort.probes,
        rounds=search.effort.rounds,
        cached=search.effort.cached,
        halving_probes=math.ceil(math.log2(search.last)) if search.last > 1 else 0,
        obtained=Counter(search.range.brought),
        seconds=round(time.monotonic() - search.effort.started, 1),
        untestable=(*untestable, *search.untestable_outside),
        other_failures=tuple(others),
        reason=search.reason,
        cause=search.cause,
        hint=unexpected(request.case, search.failure) if search.failure else None,
        broke=search.broke,
        fixed=search.fixed,
    )
    if belief is None or search.failure is None or search.reason:
        return inconclusive
    chances = belief.probabilities
    if search.resolved:
        (low, _), (high, _) = search.pair
        indices = [index for index in range(low + 1, high + 1) if chances[index] > 0]
    else:
        low, high = belief.bounds
        indices = belief.credible(request.confidence)
    total = float(sum(chances[index] for index in indices))
    ranked = sorted(indices, key=lambda index: (-chances[index], index))
    details = search.range.details(ranked[:_NOTED], search.clues)
    suspects = [
        replace(details.get(index) or search.change(index), probability=round(float(chances[index]) / total, 4))
        for index in ranked
    ]
    kind, before, after = request.kind, search.revision(low), search.revision(high)
    undone = all(search.range.candidates[index].is_undone for index in indices)
    if undone:  # what the new end lacks: it changed the state the other way round
        kind, before, after = kind.opposite, after, before
    return replace(
        inconclusive,
        kind=kind,
        status=Answer.CULPRIT if search.is_confirmed and len(indices) == 1 else Answer.SUSPECTS,
        before=before,
        after=after,
        undone=undone,
        suspects=tuple(suspects),
        confirmed=search.is_confirmed,
        evidence=search.evidence.summary if search.evidence else None,
        branches=search.range.branches,
    )
