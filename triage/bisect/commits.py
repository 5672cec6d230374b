"""Find the commit that brought a failure, or the one that took it away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from triage.bisect.belief import EXACT, FLAKY, Belief, Floats
from triage.bisect.choose import next_probes, untestable_odds
from triage.bisect.line import CommitLine, revision_of
from triage.bisect.prior import Clues, commit_prior, explain
from triage.bisect.result import Answer, Bisection, CommitNote, Kind
from triage.model.case import Case
from triage.model.failure import Failure
from triage.model.outcome import Compiled, Failed, Outcome, Untestable, Verdict
from triage.model.revision import Revision
from triage.probe.judge import Match, same_signature, verdict_of
from triage.probe.workbench import Job, Workbench
from triage.timeline import pull_request
from triage.toolchains.shed import Place

CONFIDENCE = 0.95
_LEAST_SECONDS = 0.05  # of a compile whose price is not known yet
_MOST_ROUNDS = 400


@dataclass(slots=True)
class CommitSearch:
    """One search under way: what was asked and what was answered. `ends`: toolchains of the good and the bad end, where
    they are named otherwise than by the commit (a release, a folder).
    """

    bench: Workbench
    case: Case
    line: CommitLine
    kind: Kind = Kind.REGRESSION
    ends: tuple[Place | None, Place | None] = (None, None)
    match: Callable[[Failure], Match] = same_signature
    project: str | None = "iree"
    llvm: str | None = None
    confidence: float = CONFIDENCE
    repeats: int = 1
    outcomes: dict[int, list[Outcome]] = field(default_factory=dict)
    belief: Belief | None = None
    failure: Failure | None = None
    probes: int = 0
    rounds: int = 0
    cached: int = 0
    compile_seconds: float = _LEAST_SECONDS

    @property
    def last(self) -> int:
        """The index of the bad end."""
        return len(self.line.spots) - 1

    def begin(self) -> str | None:
        """Verify both ends and weigh the commits between; why the search cannot begin, or None when it can."""
        self.ask([0, self.last])
        for index, new in ((0, False), (self.last, True)):
            if (wrong := self._wrong_state(index, new=new)) is not None:
                return wrong
        bad_end = self.last if self.kind is Kind.REGRESSION else 0
        outcome = self.outcomes[bad_end][-1]
        assert isinstance(outcome, Failed)
        self.failure = outcome.failure
        self.belief = Belief.from_weights(np.concatenate([[1.0], self.weights(outcome.failure)]))
        return None

    def weights(self, failure: Failure) -> Floats:
        """Shape (N-1,): how suspicious each commit after the first is before anything was probed."""
        commits = self.line.timeline.with_files(range(self.line.first + 1, self.line.first + self.last + 1))
        return commit_prior(commits, self.clues(failure), self.project)

    def clues(self, failure: Failure) -> Clues:
        """What the failure and the case tell of its culprit."""
        return Clues.of(failure, self.case.target.backend)

    def choose(self) -> tuple[int, ...]:
        """The places to probe next; empty when the answer stands or nothing more can be learnt."""
        assert self.belief is not None
        if self.belief.is_resolved(self.confidence, self.line.closed):
            return ()
        prices = self.line.prices + self.compile_seconds * self.repeats
        odds = untestable_odds(self.belief)
        odds[list(self.line.closed)] = 1.0
        return next_probes(self.belief, prices, self.bench.jobs, untestable=odds)

    def ask(self, indices: Iterable[int], *, fresh: bool = False) -> None:
        """Probe those places at once, each as many times as `repeats` says, and take in the verdicts."""
        places = {self.place(index).revision.name: index for index in indices}
        if not places:
            return
        self.rounds += 1
        for turn in range(self.repeats):
            jobs = [Job(self.case, self.place(index), fresh or turn > 0) for index in places.values()]
            for probe in self.bench.probe_all(jobs, f"bisect {self.case.name}"):
                index = places[probe.revision.name]
                self.probes += 1
                self.cached += probe.cached
                self.compile_seconds = max(self.compile_seconds, probe.measured.seconds)
                self.take(index, probe.outcome)

    def take(self, index: int, outcome: Outcome) -> None:
        """One more answer."""
        self.outcomes.setdefault(index, []).append(outcome)
        if self.belief is not None:
            self.belief = self.belief.observe(index, self.verdict(outcome))

    def verdict(self, outcome: Outcome) -> Verdict:
        """GOOD for the old state and BAD for the new one, whichever way the change goes."""
        assert self.failure is not None
        said = verdict_of(outcome, self.match(self.failure))
        if self.kind is Kind.REGRESSION or said is Verdict.SKIP:
            return said
        return Verdict.BAD if said is Verdict.GOOD else Verdict.GOOD

    def place(self, index: int) -> Place:
        """What is probed at an index: the end as the user named it, or the commit."""
        named = self.ends[0] if index == 0 else self.ends[1] if index == self.last else None
        return named or self.line.place(index)

    def revision(self, index: int) -> Revision:
        """The revision at an index, as a commit; a named end keeps its name."""
        commit = revision_of(self.line.spots[index].commit)
        named = self.ends[0] if index == 0 else self.ends[1] if index == self.last else None
        return replace(commit, name=named.revision.name) if named else commit

    def _wrong_state(self, index: int, *, new: bool) -> str | None:
        must_fail = new == (self.kind is Kind.REGRESSION)
        name = self.place(index).revision.name
        match self.outcomes[index][-1]:
            case Untestable(reason=reason):
                return f"{name} cannot be tested: {reason}"
            case Failed(flaky=True):
                return f"{name} does not give the same result twice"
            case Failed(failure=failure) if not must_fail:
                return f"{name} was to compile but fails: {failure.headline}"
            case Compiled() if must_fail:
                return f"{name} was to fail but compiles"
        return None


def bisect_commits(search: CommitSearch, told: Callable[[CommitSearch], None] = lambda _: None) -> Bisection:
    """Run a search to its end. `told` is called after each round of probes."""
    if (wrong := search.begin()) is not None:
        return answer(search, reason=wrong)
    told(search)
    for _ in range(_MOST_ROUNDS):
        while chosen := search.choose():
            search.ask(chosen)
            told(search)
        if confirm(search):
            return answer(search, confirmed=True)
        told(search)
        if not search.choose():
            break
    return answer(search)


def confirm(search: CommitSearch) -> bool:
    """Probe the pair that convicts once more, nothing recalled; whether both agree. A place that disagrees with itself
    shows that probes are not to be taken at their word, and the belief is told so.
    """
    assert search.belief is not None
    block = search.belief.leading(search.line.closed)
    pair = (block.first - 1, block.last)
    before = search.belief
    search.ask(pair, fresh=True)
    said = [search.verdict(search.outcomes[index][-1]) for index in pair]
    if said == [Verdict.GOOD, Verdict.BAD]:
        return before.is_resolved(search.confidence, search.line.closed)
    if before.noise is EXACT:
        search.belief = search.belief.with_noise(FLAKY)
    return False


def answer(search: CommitSearch, *, confirmed: bool = False, reason: str | None = None) -> Bisection:
    """What the search found out so far, as a certificate."""
    empty = Bisection(
        case=search.case,
        kind=search.kind,
        answer=Answer.INCONCLUSIVE,
        probes=search.probes,
        rounds=search.rounds,
        cached=search.cached,
        untestable=_untestable(search),
        other_failures=_other_failures(search),
        reason=reason,
    )
    if search.belief is None:
        return empty
    block = search.belief.leading(search.line.closed)
    resolved = search.belief.is_resolved(search.confidence, search.line.closed)
    chances = search.belief.probabilities
    if resolved:
        indices = [index for index in range(block.first, block.last + 1) if chances[index] > 0]
    else:
        indices = list(search.belief.credible(search.confidence))
    low, high = (block.first - 1, block.last) if resolved else (min(indices) - 1, max(indices))
    total = float(sum(chances[index] for index in indices))
    ranked = sorted(indices, key=lambda index: (-chances[index], index))
    one = confirmed and len(indices) == 1
    return replace(
        empty,
        answer=Answer.CULPRIT if one else Answer.SUSPECTS,
        failure=search.failure,
        before=search.revision(low),
        after=search.revision(high),
        suspects=tuple((search.revision(index), round(float(chances[index]) / total, 4)) for index in ranked),
        confirmed=confirmed,
        notes=notes(search, ranked[:20]),
    )


def notes(search: CommitSearch, indices: list[int]) -> dict[str, CommitNote]:
    """What a person wants to know of suspected commits, by sha."""
    line = search.line
    span = range(line.first + 1, line.first + search.last + 1)
    commits = line.timeline.with_files(span)
    links = line.timeline.links
    moves = line.timeline.pin_moves([line.first + index for index in indices], search.llvm) if search.llvm else {}
    found: dict[str, CommitNote] = {}
    for index in indices:
        if index == 0:
            continue
        commit = commits[index - 1]
        number = pull_request(commit.subject)
        move = moves.get(line.first + index)
        url = (links.pull(number) if number else links.commit(commit.sha)) if links else None
        why = explain(commits, index - 1, search.clues(search.failure), search.project) if search.failure else ()
        found[commit.sha] = CommitNote(
            sha=commit.sha,
            subject=commit.subject,
            date=commit.date,
            pull_request=number,
            url=url,
            files=tuple(changed.path for changed in commit.files),
            pinned=(move.path, move.before or "", move.after or "") if move else None,
            reasons=tuple(reason.text for reason in why if reason.bits > 0)[:5],
        )
    return found


def _untestable(search: CommitSearch) -> tuple[tuple[Revision, str], ...]:
    asked = [
        (search.revision(index), outcome.reason)
        for index, outcomes in sorted(search.outcomes.items())
        if isinstance(outcome := outcomes[-1], Untestable)
    ]
    if search.belief is None:
        return tuple(asked)
    low, high = search.belief.bounds
    closed = [
        (search.revision(index), search.line.spots[index].untestable or "")
        for index in sorted(search.line.closed)
        if low < index < high
    ]
    return (*asked, *closed)


def _other_failures(search: CommitSearch) -> tuple[tuple[Revision, Failure], ...]:
    if search.failure is None:
        return ()
    match = search.match(search.failure)
    return tuple(
        (search.revision(index), outcome.failure)
        for index, outcomes in sorted(search.outcomes.items())
        if isinstance(outcome := outcomes[-1], Failed) and not match(outcome.failure)
    )
