"""Search a range for the candidate that brought a change.

The key insight: the loop holds no logic of its own. What the probes so far prove is a
value, `Belief`; it also says which candidates to probe next. The loop probes them,
adds what they showed, and asks again, until nothing is left to ask:

    begin   probe both ends; each must be what the search takes it for
    next_candidates   those that the belief asks for, several at once
    probe_candidates  an outcome becomes good, bad or skip for one failure
    answer  a culprit if the belief proves one, otherwise suspects, or why not

Another failure, a compiler that cannot be obtained and a flag that a version does not
know are skips: they never say on which side of the change a candidate is. A culprit
needs the pair around it probed again, fresh and here, as often as the confidence asks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.bisect.answer import answer
from triage.bisect.belief import Belief, FailureSides, next_probes, next_round
from triage.bisect.candidates import BisectRange, Candidate, CommitCandidates
from triage.bisect.pass_evidence import pass_evidence
from triage.bisect.prior import Clues, PassEvidence
from triage.bisect.request import BisectRequest
from triage.bisect.result import (
    Answer,
    Bisection,
    BisectKind,
    Side,
    Transition,
    hint_if_unexpected,
)
from triage.execution.match import Match, any_failure, verdict_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    Measured,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
    Verdict,
)

_LEAST_SECONDS = 0.05  # of a compile that has not been measured yet
_MOST_FLAKY_PROBES = 400  # of a range whose probes contradict themselves
_WORTH_COMPARING = 8  # candidates; fewer need three probes at most
# factor by which a compile slows down when it prints its IR; comparing two may save one
# probe
_SLOWER = 6.0
_END_REPEATS = 3  # probes that must be right after a first one that was wrong at an end
# compilers that cannot be obtained for the same reason before the search gives up
_SAME_ERRORS = 5
# what differs between equal errors of two commits
_OF_A_COMMIT = re.compile(r"[0-9a-f]{7,40}|/\S+|\d+")


@dataclass(slots=True)
class Effort:
    """The cost of a search so far, the searches of its parts included."""

    probes: int = 0
    rounds: int = 0
    cached: int = 0
    """Probes that the result cache answered."""
    log: list[tuple[Candidate, Probe]] = field(default_factory=list)
    """The probes in order."""
    started: float = field(default_factory=time.monotonic)
    longest_compile: float = _LEAST_SECONDS
    """Seconds of the longest compile, and at least `_LEAST_SECONDS`."""


@dataclass(slots=True)
class BisectSearch:
    """A search in progress: what was probed and what follows from it."""

    request: BisectRequest
    range: BisectRange
    judge: Callable[[Outcome, Match], Verdict] = verdict_of
    belief: Belief | None = None
    """Set when both ends are verified."""
    failure: Failure | None = None
    evidence: PassEvidence | None = None
    fixed: Transition | None = None
    stopped: NoAnswer | None = None
    """Why the search cannot go on."""
    effort: Effort = field(default_factory=Effort)
    announced: str = ""
    """The last line of progress."""

    @property
    def last(self) -> int:
        return len(self.range.candidates) - 1

    @property
    def failing_side(self) -> Side:
        """The side of the failure."""
        return self.request.kind.failing_side

    @property
    def failing_end(self) -> int:
        if self.failing_side is Side.NEW:
            return self.last
        return 0

    @property
    def current_belief(self) -> Belief:
        """The belief of a search that has begun."""
        assert self.belief is not None
        return self.belief

    @property
    def is_resolved(self) -> bool:
        """Whether the leading suspects are likely enough, with a probe on each side of
        them.
        """
        return self.current_belief.is_resolved(self.request.confidence)

    @property
    def seconds(self) -> list[float]:
        """What a probe of each candidate costs."""
        return [
            candidate.seconds + self.effort.longest_compile
            for candidate in self.range.candidates
        ]

    @property
    def match(self) -> Match:
        """Recognises the failure; any failure until it is known."""
        if self.failure is None:
            return any_failure
        return self.request.match(self.failure)

    @property
    def clues(self) -> Clues:
        """What the failure, the case and the passes say about the culprit."""
        assert self.failure is not None
        noticed = (
            self.request.kind is BisectKind.REGRESSION
            and not self.range.candidates[-1].ref.is_release
        )
        failures = [self.failure]
        for outcome in self.range.candidates[self.failing_end].outcomes[-1:]:
            if isinstance(outcome, Failed) and outcome.failure == self.failure:
                failures += outcome.others
        return Clues.of(
            failures,
            self.request.case.target.backend,
            self.evidence,
            noticed=noticed,
        )

    def name(self, index: int) -> str:
        return self.range.candidates[index].revision.name

    def outcome(self, index: int) -> Outcome:
        """Return the last outcome of a candidate, which is probed first if it never
        was.
        """
        candidate = self.range.candidates[index]
        if not candidate.outcomes:
            self.probe_candidates({index: 1})
        return candidate.outcomes[-1]

    def verdict(self, outcome: Outcome) -> Verdict:
        return self.judge(outcome, self.match)

    def side(self, outcome: Outcome) -> Side | None:
        """Return the side of the change that an outcome shows; None if it is
        skipped.
        """
        return self.request.kind.side(self.verdict(outcome))

    # Begin

    def begin(self) -> bool:
        """Verify both ends and weigh the candidates between them; False if the search
        cannot begin (see `stopped`).
        """
        ends = (0, self.last)
        self.probe_unprobed(ends)
        for index, side in zip(ends, Side, strict=True):
            problem = self._verify_end(index, side)
            if problem is not None:
                self.stopped = self.reason_if_alike(*ends) or problem
                return False
        self.stopped = None  # of a candidate that is not an end
        failure = self.outcome(self.failing_end).failure
        assert failure is not None
        request, note = self.request, self.request.engine.progress.note
        note(
            f"{request.case.name}: bisecting {failure.failure_class}: "
            f"{failure.headline}"
        )
        hint = hint_if_unexpected(request.case, failure)
        if hint is not None:
            note(hint)
        if self.evidence is None and self._is_worth_comparing():
            good, bad = (
                self.range.candidates[index].ref
                for index in (self.last - self.failing_end, self.failing_end)
            )
            self.evidence = pass_evidence(
                request.engine, request.case, good, bad, request.repository
            )
        self.weigh(failure)
        return True

    def weigh(self, failure: Failure) -> None:
        """Start the belief anew from the outcomes of all candidates."""
        self.failure = failure
        belief = Belief.from_weights(self.range.weights(self.clues), self.range.closed)
        for index, candidate in enumerate(self.range.candidates):
            for outcome in candidate.outcomes:
                belief = belief.observe((index, self.side(outcome)))
        self.belief = belief

    def end_problem(self, index: int, side: Side) -> NoAnswer | None:
        """Return why a candidate cannot be this end of the range, by its last outcome;
        None if it can.
        """
        name = self.name(index)
        failing = self.request.kind.failing_side
        match self.outcome(index):
            case NoAnswer() as outcome:
                is_bad = self.verdict(outcome) is Verdict.BAD
                if is_bad and side is failing:
                    return None
                return cannot_test(name, outcome)
            case Failed(flaky=True):
                return _flaky_end(name)
            case Failed(failure=failure) if side is not failing:
                if side is Side.OLD:
                    older = "an older"
                else:
                    older = "a newer"
                return NoAnswer(
                    Cause.NOT_FOUND,
                    f"expected {name} to compile, but it fails: {failure.headline}; "
                    f"pass --good with {older} revision",
                )
            case Passed() if side is failing:
                return NoAnswer(
                    Cause.NOT_FOUND,
                    f"expected {name} to fail, but it compiles; pass --bad with a "
                    "revision that fails",
                )
        return None

    def reason_if_alike(self, old: int, new: int) -> NoAnswer | None:
        """Return why nothing is between two candidates if both compile or both fail
        each time, else None.
        """
        names = f"{self.name(old)} and {self.name(new)}"
        before, after = (self.range.candidates[index].outcomes for index in (old, new))
        if all(isinstance(outcome, Passed) for outcome in (*before, *after)):
            return NoAnswer(
                Cause.NOT_FOUND,
                f"it compiles at both ends, {names}; pass --bad with a revision that "
                "fails",
            )
        if all(
            isinstance(outcome, Failed) and not outcome.flaky
            for outcome in (*before, *after)
        ):
            headlines = dict.fromkeys(
                outcomes[-1].failure.headline
                for outcomes in (before, after)
                if outcomes[-1].failure
            )
            return NoAnswer(
                Cause.NOT_FOUND,
                f"it fails at both ends, {names}: {' and '.join(headlines)}; pass "
                "--good with a revision that compiles",
            )
        return None

    def _verify_end(self, index: int, side: Side) -> NoAnswer | None:
        """Return why a candidate cannot be this end of the range, or None.

        A first probe with the wrong state may itself be wrong: the candidate is probed
        again, and is an end if `_END_REPEATS` further probes have the right state.
        """
        problem = self.end_problem(index, side)
        if problem is None or isinstance(self.outcome(index), NoAnswer):
            return problem
        for repeat in range(_END_REPEATS):
            self.probe_candidates({index: 1})
            problem = self.end_problem(index, side)
            if problem is None:
                continue
            was_right = repeat > 0
            if was_right and not isinstance(self.outcome(index), NoAnswer):
                return _flaky_end(self.name(index))
            return problem
        return None

    def _is_worth_comparing(self) -> bool:
        """Return whether comparing passes costs less than the probes that it may save:
        it compiles twice, and slowly.
        """
        compile_seconds = self.effort.longest_compile
        seconds = sorted(
            one.seconds for one in self.range.candidates if one.untestable is None
        )
        probe = seconds[len(seconds) // 2] + compile_seconds
        return (
            self.request.attribute
            and isinstance(self.range, CommitCandidates)
            and self.last >= _WORTH_COMPARING
            and probe >= _SLOWER * 2 * compile_seconds
        )

    # Probe

    def separating_probes(self) -> tuple[int, ...]:
        return next_probes(self.current_belief, self.seconds, self.request.engine.jobs)

    def stop_if_too_flaky(self) -> None:
        """Stop if an end comes and goes too often to distinguish both states."""
        if not self.is_resolved or self.stopped is not None:
            return
        end = FailureSides(self.current_belief, self.failing_side).end_too_flaky()
        if end is not None:
            self.stopped = _flaky_end(self.name(end))

    def next_candidates(self) -> Mapping[int, int]:
        """Return the candidates to probe next, and how often; empty if the answer is
        final, the search stopped, or no probe can help any more.
        """
        if self.stopped is not None or self.effort.probes >= _MOST_FLAKY_PROBES:
            return {}
        return next_round(
            self.current_belief,
            self.seconds,
            [candidate.seconds_again for candidate in self.range.candidates],
            self.request.engine.jobs,
            self.failing_side,
            self.request.confidence,
        )

    def probe_unprobed(self, indices: Iterable[int]) -> None:
        """Probe those candidates once that never were."""
        candidates = self.range.candidates
        unprobed = [index for index in indices if not candidates[index].outcomes]
        self.probe_candidates(dict.fromkeys(unprobed, 1))

    def probe_candidates(self, counts: Mapping[int, int]) -> None:
        """Probe candidates at once, each `counts[index]` times, and add the outcomes to
        the belief.

        Only a first probe may come from the result cache. Of candidates that share
        compiler and input, the first one is probed; the others find its result in the
        cache when they are asked for again. Sets `stopped` if no compiler can be
        obtained.
        """
        asked: dict[tuple[Path, str], int] = {}
        jobs: list[ProbeJob] = []
        for index, times in counts.items():
            candidate = self.range.candidates[index]
            case: Case | NoAnswer = self.request.case
            if candidate.case_of:
                case = candidate.case_of()
            if isinstance(case, NoAnswer):
                self._add_probe(index, self.without_run(candidate, case))
                continue
            key = (case.source, candidate.ref.revision.name)
            if asked.setdefault(key, index) != index:
                continue
            for number in range(times):
                is_repeat = number > 0 or bool(candidate.outcomes)
                jobs.append(ProbeJob(case, candidate.ref, fresh=is_repeat))
        if not jobs:
            return
        self.effort.rounds += 1
        what = f"bisect {self.request.case.name}"
        for probe in self.request.engine.probe_all(jobs, what):
            self._count_probe(asked[probe.case.source, probe.revision.name], probe)
        self._stop_without_compilers()

    def _count_probe(self, index: int, probe: Probe) -> None:
        """Add a probe that was made to the effort and the belief; stop if the
        environment fails.
        """
        outcome, effort = probe.outcome, self.effort
        effort.probes += 1
        if probe.cached:
            effort.cached += 1
        effort.longest_compile = max(effort.longest_compile, probe.measured.seconds)
        candidate = self.range.candidates[index]
        if candidate.revision.commit is None:
            candidate.revision = probe.revision
        effort.log.append((candidate, probe))
        self._add_probe(index, probe)
        has_failed = isinstance(outcome, NoAnswer) and not probe.measured.seconds
        if has_failed and outcome.cause is Cause.ENVIRONMENT:
            why = f"{probe.revision.name}: {outcome.reason}"
            self.stopped = NoAnswer(Cause.ENVIRONMENT, why)

    def _stop_without_compilers(self) -> None:
        """Stop if all candidates between the ends have no compiler for one reason."""
        inside = [
            candidate.outcomes[-1]
            for candidate in self.range.candidates[1:-1]
            if candidate.outcomes
        ]
        errors = [
            one.reason
            for one in inside
            if isinstance(one, NoAnswer) and one.cause is Cause.TOOLCHAIN
        ]
        if len(inside) != len(errors) or len(errors) < _SAME_ERRORS:
            return
        if len({_OF_A_COMMIT.sub("", error) for error in errors}) == 1:
            self.stopped = NoAnswer(
                Cause.ENVIRONMENT,
                f"no compiler could be obtained between both ends: {errors[-1]}",
            )

    def without_run(self, candidate: Candidate, why: NoAnswer) -> Probe:
        """Return a probe, not made, of a candidate that has no compiler or no case."""
        case = self.request.case
        return Probe(case, candidate.revision, None, why, Measured(), cached=False)

    def _add_probe(self, index: int, probe: Probe) -> None:
        candidate = self.range.candidates[index]
        candidate.probes.append(probe)
        if self.belief is not None:
            self.belief = self.belief.observe((index, self.side(probe.outcome)))

    def tell(self) -> None:
        """Print one line of progress if it changed."""
        (index, chance), *others = self.current_belief.suspects()
        likeliest = self.range.change(index)
        name = f"{likeliest.name} {likeliest.subject or ''}".rstrip()
        if others:
            steps = self.current_belief.steps
            line = (
                f"{1 + len(others)} suspects left, about {steps} "
                f"step{'' if steps == 1 else 's'}"
            )
            if chance > others[0][1]:
                line += f"; most likely ({chance:.0%}): {name}"
        else:
            line = f"1 suspect left: {name}"
        if line != self.announced:
            self.announced = line
            self.request.engine.progress.note(line)

    def part(self, first: int, last: int) -> BisectSearch:
        """Return a search between two of the candidates, with what is known of them.
        Probes count for the whole.
        """
        return replace(
            self, range=self.range.part(first, last), belief=None, failure=None
        )


def run_search(search: BisectSearch) -> Bisection:
    """Run a search to its end."""
    if search.belief is None and not search.begin():
        return answer(search)
    search.tell()
    while True:
        search.stop_if_too_flaky()
        chosen = search.next_candidates()
        if not chosen:
            break
        search.probe_candidates(chosen)
        search.tell()
    found = answer(search)
    if found.status is not Answer.CULPRIT:
        return found
    # A commit of the old end's branch is the culprit, but the new end has its original,
    # or merged it. That end has the new state all the same, so that a later commit
    # brought the change, unless the original does not have the old state.
    start = search.range.original(search.current_belief.leading_block.last)
    if start is None or start == search.last:
        return found
    names = (search.name(index) for index in (0, start, search.last))
    search.request.engine.progress.note(
        "{} has the change of {}, which {} contains: searching from there".format(
            *names
        )
    )
    further = run_search(search.part(start, search.last))
    if further.status is not Answer.INCONCLUSIVE:
        return further
    return replace(
        found,
        probes=further.probes,
        rounds=further.rounds,
        cached=further.cached,
        log=further.log,
    )


def cannot_test(name: str, outcome: NoAnswer) -> NoAnswer:
    """Return why a search that needs a revision has no answer."""
    return NoAnswer(outcome.cause, f"{name} cannot be tested: {outcome.reason}")


def _flaky_end(name: str) -> NoAnswer:
    return NoAnswer(Cause.NOISE, f"{name} is flaky: repeated probes disagree")
