"""Search a line for the revision that brought a change: probe both ends, halve what is
between them, and probe the pair again.

A search is a value: what the probes of its line prove is a `Belief`, which says what to
probe next. Another failure, a compiler that cannot be obtained and a flag that a
version does not know are skips: they never say on which side of the change a revision
is.

Where another failure stands between passing and failing, there are two changes: the one
from passing to failing in any way, which `git bisect run` names, and the one that
brought this failure. For a fix they are the one to passing, and the one with which this
failure went. This failure is searched first: if the revision next to it passes, there
is only one change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from textwrap import shorten

from triage.bisect.belief import Belief, Tally
from triage.bisect.line import COME_AND_GO, Line, class_or_status
from triage.bisect.result import Bisection, BisectKind, LoggedProbe, Transition
from triage.execution.compare import Match, any_failure, verdict_of, verdict_on_passing
from triage.execution.judge import result_of
from triage.model.execution import Stage
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Passed,
    Verdict,
)

_MOST_PROBES = 400  # of a line whose probes contradict themselves
_LONGEST = 200  # characters of a headline in a sentence
_OF_SCRIPT = 2  # repeats of a pair: a script may run a flaky test
_UNLIKELY = 1e-4  # of all chances: not a suspect any more


@dataclass(frozen=True)
class FoundPair:
    """The two candidates of a line between which a search found the change."""

    good: int
    bad: int
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
    stated_verdicts: Mapping[int, Verdict] = field(default_factory=dict)
    """What a person says of candidates."""

    @property
    def order(self) -> range:
        """The candidates from the good end to the bad one."""
        candidates = range(self.first, self.last + 1)
        if self.kind is BisectKind.FIX:
            return candidates[::-1]
        return candidates

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
            line.probe({self.order[index]: chosen[index] for index in chosen})

    def verify_ends(self) -> Search | NoAnswer:
        """Probe both ends. Return the search for the failure of the bad one, or why
        there is none.

        An end whose first probe has the wrong state may still be one, if all later
        probes have the right one.
        """
        line = self.line
        ends = {self.order[0]: Verdict.GOOD, self.order[-1]: Verdict.BAD}
        line.probe({index: 1 for index in sorted(ends) if not line.probes[index]})
        for index in sorted(ends):
            if not self._verify_end(index, ends[index]):
                return self.problem_of(index)
        failure = line.probed_outcome(self.order[-1]).failure
        assert failure is not None
        request = line.request
        headline = shorten(failure.headline, _LONGEST)
        text = f"{request.case.name}: bisecting {failure.failure_class}: {headline}"
        request.engine.progress.note(text)
        return replace(self, failure=failure)

    def _verify_end(self, index: int, wanted: Verdict) -> bool:
        """Probe an end, again if it has another verdict; return whether it has this
        one.
        """
        if self.verdict(self.line.probed_outcome(index)) is wanted:
            return True
        if isinstance(self.line.probed_outcome(index), NoAnswer):
            return False
        for times in (1, 2):
            self.line.probe({index: times})
            again = self.line.outcomes(index)[-times:]
            if {*map(self.verdict, again)} != {wanted}:
                return False
        return True

    def problem_of(self, index: int) -> NoAnswer:
        """Return why a candidate cannot be this end of the search."""
        line = self.line
        outcome = line.probed_outcome(index)
        name = line.name(index)
        if isinstance(outcome, NoAnswer):
            why = f"{name} cannot be tested: {outcome.reason}"
            return NoAnswer(outcome.cause, why)
        if outcome.flaky or len(set(map(type, line.outcomes(index)))) > 1:
            why = f"{name} is flaky: repeated probes disagree"
            return NoAnswer(Cause.NOISE, why)
        state = "compiles"
        wanted = "fail"
        end = "--bad"
        headline = ""
        if outcome.failure:
            state = "fails"
            wanted = "compile"
            end = "--good"
            headline = f": {shorten(outcome.failure.headline, _LONGEST)}"
        why = f"expected {name} to {wanted}, but it {state}"
        first = line.outcomes(self.first)
        last = line.outcomes(self.last)
        if first and last and len({*map(class_or_status, first + last)}) == 1:
            names = f"{line.name(self.first)} and {line.name(self.last)}"
            why = f"it {state} at both ends, {names}"
        why += f"{headline}; pass {end} with a revision that {wanted}s"
        return NoAnswer(Cause.NOT_FOUND, why)

    # What the probes say

    @cached_property
    def weights(self) -> list[float]:
        """How suspicious the failure makes each step."""
        assert self.failure is not None
        changes = self.line.changes(self.failure)
        newer = map(max, pairwise(self.order))
        return [1.0, *(changes[index - 1].probability for index in newer)]

    def belief(self) -> Belief:
        tallies = {}
        closed = []
        for position, index in enumerate(self.order):
            verdicts = list(map(self.verdict, self.line.outcomes(index)))
            if index in self.stated_verdicts:
                verdicts = [self.stated_verdicts[index]]
            if verdicts:
                tallies[position] = Tally(*map(verdicts.count, Verdict))
            if self.line.candidates[index].untestable:
                closed.append(position)
        return Belief(self.weights, tallies, closed, self._repeats())

    def seconds(self) -> list[float]:
        seconds = self.line.seconds()
        return [seconds[index] for index in self.order]

    def by_candidate(self, chances: Sequence[float]) -> dict[int, float]:
        """Return the chances of the steps of a belief by the candidate that brought the
        change, without those that are 0.
        """
        steps = zip(pairwise(self.order), chances[1:], strict=True)
        return {max(step): chance for step, chance in steps if chance}

    def _repeats(self) -> int:
        """How often a pair is probed again. A message and an exit status, the same in
        each run of the bad end, do not come and go, unless a script tests.
        """
        request = self.line.request
        failure = self.failure
        outcomes = self.line.outcomes(self.order[-1])
        signatures = {item.failure.signature for item in outcomes if item.failure}
        if (
            failure is None
            or failure.family in COME_AND_GO
            or failure.stage not in (Stage.IMPORT, Stage.COMPILE)
            or len(signatures) > 1
        ):
            return request.repeats
        return _OF_SCRIPT if request.case.script else 1

    def result(self, belief: Belief) -> FoundPair:
        """Return what the probes so far say."""
        line = self.line
        assert self.failure is not None
        chances: Sequence[float] = belief.chances
        older = belief.older_failure
        low, high = belief.likeliest_pair if belief.is_resolved else belief.bounds
        doubt = None
        if belief.is_resolved and older is not None:
            why = "the failure may be older."
            if high - low == 1:
                name = line.name(max(self.order[low], self.order[high]))
                why = f"{name} only changed how often it occurs."
                low = 0
                high = older
                chances = belief.weights
            tally = belief.tally(older)
            name = line.name(self.order[older])
            runs = f"{tally.bad} of {tally.tested} runs"
            doubt = NoAnswer(
                Cause.NOISE, f"{name} shows the same failure in {runs}: {why}"
            )
        smallest = 0.0
        if belief.is_doubtful and not belief.is_resolved:
            smallest = _UNLIKELY
        good = self.order[low]
        bad = self.order[high]
        before, after = sorted((good, bad))
        suspects = {
            index: chance
            for index, chance in self.by_candidate(chances).items()
            if before < index <= after and chance > smallest
        }
        stated = self.stated_verdicts.keys() & {good, bad}
        confirmed = belief.is_confirmed and not stated
        change = Transition(
            line.revision(before),
            line.revision(after),
            self._failure_shown_at(bad),
            confirmed and line.fork not in suspects,
            line.suspects(suspects, self.failure),
        )
        return FoundPair(good, bad, change, doubt)

    def _failure_shown_at(self, failing: int) -> Failure:
        """Return the failure that is searched for, or another one if a candidate only
        shows that.
        """
        assert self.failure is not None
        outcomes = self.line.outcomes(failing)
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        verdicts = [verdict_of(outcome, self.match) for outcome in outcomes]
        if failures and Verdict.BAD not in verdicts:
            return failures[-1]
        return self.failure

    def _progress_text(self, belief: Belief) -> str:
        """Say how many suspects are left, and which is the likeliest."""
        chances = self.by_candidate(belief.chances)
        likeliest = self.line.suspect_at(max(chances, key=chances.__getitem__))
        name = f"{likeliest.name} {likeliest.subject or ''}".rstrip()
        if len(chances) == 1:
            return f"1 suspect left: {name}"
        return f"{len(chances)} suspects left; most likely: {name}"


def whole_search(line: Line) -> Search:
    """Return the search between the oldest and the newest candidate for the change from
    passing to failing in any way, or back.
    """
    judge = verdict_on_passing if line.is_of_commits else verdict_of
    verdict = partial(judge, match=any_failure)
    return Search(line, 0, len(line) - 1, line.request.kind, verdict)


def find_changes(search: Search) -> Bisection:
    """Search where this failure came or went, and where the case broke or was fixed.

    The answer is about this failure; it is a culprit if both changes are. A number has
    one change, because another failure hides it.

    Args:
        search: For the change from passing to failing, or back.
    """
    passing = search.verify_ends()
    if isinstance(passing, NoAnswer):
        return conclude(search, passing)
    line = search.line
    failure = passing.failure
    assert failure is not None
    if failure.is_of_metric:
        passing = passing.for_failure(failure)
    if failure.is_of_metric or isinstance(
        line.probed_outcome(search.order[-1]), NoAnswer
    ):
        pair = passing.run()
        return conclude(passing, pair.older, broke=pair.change)
    presence = passing.for_failure(failure, verdict_on_presence)
    pair = presence.run()
    good = _nearest_pass(presence, pair)
    is_adjacent = abs(pair.good - pair.bad) == 1
    if good == pair.good and (is_adjacent or not pair.change.confirmed):
        return conclude(presence, pair.older, broke=pair.change)
    first, last = sorted((good, pair.bad))
    passing = replace(passing, first=first, last=last)
    broken = passing.run()
    if broken.change.failure == failure:
        return conclude(passing, broken.older, broke=broken.change)
    return conclude(presence, pair.older, broke=broken.change, changed=pair.change)


def find_change(search: Search, failure: Failure) -> Bisection:
    """Search where a failure came to a case that may fail in another way at the old
    end.
    """
    presence = search.for_failure(failure, verdict_on_presence).verify_ends()
    if isinstance(presence, NoAnswer):
        return conclude(search, presence)
    pair = presence.run()
    return conclude(presence, pair.older, changed=pair.change)


def verdict_on_presence(outcome: Outcome, match: Match) -> Verdict:
    """Return the verdict on a failure where another one is good."""
    verdict = verdict_of(outcome, match)
    if verdict is Verdict.SKIP and isinstance(outcome, Failed) and not outcome.flaky:
        return Verdict.GOOD
    return verdict


def _nearest_pass(search: Search, pair: FoundPair) -> int:
    """Return the revision that passes, nearest to the pair on its good side. One that
    shows this failure, too, is flaky; one that shows another failure does not pass.
    """
    for index in search.order[search.order.index(pair.good) : 0 : -1]:
        passed = [
            isinstance(outcome, Passed)
            for outcome in search.line.outcomes(index)
            if search.verdict(outcome) is not Verdict.BAD
        ]
        if passed and all(passed):
            return index
    return search.order[0]


def conclude(
    search: Search,
    unanswered: NoAnswer | None,
    broke: Transition | None = None,
    changed: Transition | None = None,
) -> Bisection:
    """Report what a search found, or why there is nothing to search, with all probes
    of its line.
    """
    line = search.line
    match = search.match
    results = [result_of(line.probes[index][-1]) for index in line.last_outcomes]
    others = [
        result
        for result in results
        if result.failure and not (result.untestable or match(result.failure))
    ]
    return Bisection(
        case=line.request.case.name,
        kind=search.kind,
        broke=broke,
        changed=changed,
        fixed=search.fixed,
        failure=search.failure,
        probes=len(line.log),
        rounds=line.rounds,
        cached=sum(probe.cached for _, probe in line.log),
        seconds=round(time.monotonic() - line.started, 1),
        log=tuple(_logged_probes(line, match)),
        untestable=tuple(result for result in results if result.untestable),
        other_failures=tuple(others),
        unanswered=line.stopped or unanswered,
    )


def _logged_probes(line: Line, match: Match) -> Iterator[LoggedProbe]:
    """Yield the probes of the line, in order, with their verdicts."""
    for index, probe in line.log:
        revision = line.revision(index)
        failure = probe.outcome.failure
        yield LoggedProbe(
            revision.name,
            revision.commit,
            verdict_of(probe.outcome, match),
            failure.signature if failure else None,
            probe.outcome.reason,
            probe.cached,
            round(probe.measured.seconds, 3),
        )
