"""Search a line for the revision that brought a change: probe both ends, halve what is
between them, and probe the pair again.

A search is a value: what the probes of its line prove is a `Belief`, which says what to
probe next. Another failure, a compiler that cannot be obtained and a flag that a
version does not know are skips: they never say on which side of the change a revision
is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from triage.bisect.belief import Belief, Tally
from triage.bisect.line import COME_AND_GO, Line
from triage.bisect.result import BisectKind, Side, Transition
from triage.execution.compare import Match, any_failure, verdict_of, verdict_on_passing
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Outcome, Verdict

_MOST_PROBES = 400  # of a line whose probes contradict themselves
_UNLIKELY = 1e-4  # of all chances: not a suspect any more


@dataclass(frozen=True)
class FoundPair:
    """The two candidates of a line between which a search found the change."""

    before: int
    after: int
    change: Transition
    older: NoAnswer | None = None
    """Why the failure may be older than the pair."""


@dataclass(frozen=True)
class Search:
    """A search for the change between two candidates of a line."""

    line: Line
    first: int
    last: int
    kind: BisectKind
    verdict: Callable[[Outcome], Verdict]
    failure: Failure | None = None
    """Known when both ends are verified."""
    fixed: Transition | None = None
    """The fix of the failure, if it is already known."""
    stated: Mapping[int, Side | None] = field(default_factory=dict)
    """What a person says of candidates."""

    @property
    def good_end(self) -> int:
        return self.kind.in_order(self.first, self.last)[0]

    @property
    def bad_end(self) -> int:
        return self.kind.in_order(self.first, self.last)[1]

    def for_failure(
        self, failure: Failure, judge: Callable[..., Verdict] = verdict_of
    ) -> Search:
        """Return the search for one failure; what another one says, `judge` decides."""
        search = replace(self, failure=failure)
        return replace(search, verdict=partial(judge, match=search.match))

    @property
    def match(self) -> Match:
        """Recognises the failure, or any before it is known."""
        if self.failure is None:
            return any_failure
        return self.line.request.match_for(self.failure)

    def side(self, outcome: Outcome) -> Side | None:
        return self.kind.side(self.verdict(outcome))

    def run(self) -> FoundPair:
        """Probe until the answer is final, or no probe can help."""
        line = self.line
        announced = ""
        while True:
            belief = self.belief()
            text = self._progress_text(belief)
            if text != announced:
                line.request.engine.progress.note(text)
                announced = text
            chosen = belief.next_probes(line.request.engine.jobs, self.seconds())
            if not chosen or line.stopped or len(line.log) >= _MOST_PROBES:
                return self.result(belief)
            line.probe({self.first + index: chosen[index] for index in chosen})

    def verified(self) -> Search | NoAnswer:
        """Probe both ends. Return the search for the failure of the bad one, or why
        there is none.

        An end whose first probe has the wrong state may still be one, if all later
        probes have the right one.
        """
        line = self.line
        ends = {self.first: Side.OLD, self.last: Side.NEW}
        line.probe({index: 1 for index in ends if not line.probes[index]})
        for index, side in ends.items():
            if not self._has_side(index, side):
                return self.problem_of(index)
        failure = line.outcome(self.bad_end).failure
        assert failure is not None
        case = line.request.case
        note = line.request.engine.progress.note
        headline = f"{failure.failure_class}: {failure.headline}"
        note(f"{case.name}: bisecting {headline}")
        return replace(self, failure=failure)

    def _has_side(self, index: int, side: Side) -> bool:
        if self.side(self.line.outcome(index)) is side:
            return True
        if isinstance(self.line.outcome(index), NoAnswer):
            return False
        for times in (1, 2):
            self.line.probe({index: times})
            sides = {
                self.side(outcome) for outcome in self.line.outcomes(index)[-times:]
            }
            if sides != {side}:
                return False
        return True

    def problem_of(self, index: int) -> NoAnswer:
        """Return why a candidate cannot be this end of the search."""
        line = self.line
        outcome = line.outcome(index)
        name = line.name(index)
        if isinstance(outcome, NoAnswer):
            why = f"{name} cannot be tested: {outcome.reason}"
            return NoAnswer(outcome.cause, why)
        if outcome.flaky or len(set(map(type, line.outcomes(index)))) > 1:
            why = f"{name} is flaky: repeated probes disagree"
            return NoAnswer(Cause.NOISE, why)
        state, wanted, end = "compiles", "fail", "--bad"
        if outcome.failure:
            state, wanted, end = "fails", "compile", "--good"
        why = f"expected {name} to {wanted}, but it {state}"
        first, last = line.outcomes(self.first), line.outcomes(self.last)
        if first and last and {*map(type, first + last)} == {type(outcome)}:
            names = f"{line.name(self.first)} and {line.name(self.last)}"
            why = f"it {state} at both ends, {names}"
        if outcome.failure:
            why += f": {outcome.failure.headline}"
        why += f"; pass {end} with a revision that {wanted}s"
        return NoAnswer(Cause.NOT_FOUND, why)

    # What the probes say

    @cached_property
    def weights(self) -> list[float]:
        weights = self.line.weights(self.clues)
        return weights[self.first : self.last + 1]

    @cached_property
    def clues(self) -> Sequence[Failure]:
        """What the bad end shows: this failure, and others in the same output."""
        assert self.failure is not None
        failures = [self.failure]
        for outcome in self.line.outcomes(self.bad_end)[-1:]:
            if isinstance(outcome, Failed) and outcome.failure == self.failure:
                failures += outcome.others
        return failures

    def seconds(self) -> list[float]:
        return self.line.seconds()[self.first : self.last + 1]

    def belief(self) -> Belief:
        tallies = {}
        for index in range(self.first, self.last + 1):
            sides = Counter(map(self.side, self.line.outcomes(index)))
            if index in self.stated:
                sides = Counter([self.stated[index]])
            if sides:
                tally = Tally(sides[Side.OLD], sides[Side.NEW], sides[None])
                tallies[index - self.first] = tally
        closed = {
            index - self.first
            for index in range(self.first, self.last + 1)
            if self.line.candidates[index].untestable
        }
        again = 1 if self._is_steady() else self.line.request.repeats
        return Belief(
            self.weights, tallies, self.kind.failing_side, closed, again=again
        )

    def _is_steady(self) -> bool:
        """Whether the failure is of a kind that does not come and go: a message and an
        exit status, and the same in each run of the bad end.
        """
        failure = self.failure
        if failure is None or failure.family in COME_AND_GO:
            return False
        if failure.stage not in (Stage.IMPORT, Stage.COMPILE):
            return False
        outcomes = self.line.outcomes(self.bad_end)
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        return len({failure.signature for failure in failures}) < 2

    def result(self, belief: Belief) -> FoundPair:
        """Return what the probes so far say."""
        chances: Sequence[float] = belief.chances
        older = belief.older_failure
        low, high = belief.likeliest_pair if belief.is_resolved else belief.bounds
        text = None
        if belief.is_resolved and older is not None:
            tally = belief.tally(older)
            name = self.line.name(self.first + older)
            text = f"{name} shows the same failure in {belief.failures(older)} of "
            text += f"{tally.tested} runs: "
            if high - low > 1:
                text += "the failure may be older."
            else:
                changed = self.line.name(self.first + high)
                text += f"{changed} only changed how often it occurs."
                low, high = (0, older) if older <= low else (older, belief.last)
                chances = belief.weights
        inside = range(low + 1, high + 1)
        least = 0.0
        if belief.is_doubtful and not belief.is_resolved:
            least = _UNLIKELY
        suspects = {
            self.first + index: chances[index]
            for index in inside
            if chances[index] > least
        }
        before = self.first + low
        after = self.first + high
        is_stated = bool(self.stated.keys() & {before, after})
        confirmed = belief.is_confirmed and not is_stated
        change = Transition(
            self.line.revision(before),
            self.line.revision(after),
            self._failure_of(self.kind.in_order(before, after)[1]),
            confirmed and self.line.fork not in suspects,
            self.line.suspects(suspects, self.clues),
        )
        return FoundPair(
            before, after, change, NoAnswer(Cause.NOISE, text) if text else None
        )

    def _failure_of(self, failing: int) -> Failure:
        """Return this failure, or another one if a candidate only has that."""
        assert self.failure is not None
        outcomes = self.line.outcomes(failing)
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        verdicts = [verdict_of(outcome, self.match) for outcome in outcomes]
        if failures and Verdict.BAD not in verdicts:
            return failures[-1]
        return self.failure

    def _progress_text(self, belief: Belief) -> str:
        """Say how many suspects are left, and which is the likeliest."""
        chances = belief.chances
        best = max(range(len(chances)), key=chances.__getitem__)
        likeliest = self.line.change(self.first + best)
        name = f"{likeliest.name} {likeliest.subject or ''}".rstrip()
        count = sum(chance > 0 for chance in chances)
        if count == 1:
            return f"1 suspect left: {name}"
        return f"{count} suspects left; most likely: {name}"


def whole_search(line: Line) -> Search:
    """Return the search between the oldest and the newest candidate for the change from
    passing to failing in any way, or back.
    """
    judge = verdict_on_passing if line.is_of_commits else verdict_of
    verdict = partial(judge, match=any_failure)
    return Search(line, 0, len(line) - 1, line.request.kind, verdict)
