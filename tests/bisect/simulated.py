"""Simulated histories: compilers whose probes are flaky, with holes, second regressions, wrong priors and ends that lie.

No process is started. As with real probes, a result is cached: only a fresh probe can differ from the one before it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.bisect.letters import LetterRange, LetterRegistry, case_named, outcome
from triage.bisect.plan import BisectRequest, bisect_between
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.bisect.search import BisectSearch, run_search
from triage.execution.runner import ProbeJob
from triage.model.outcome import Measured, Probe
from triage.model.progress import Silent

# Histories by the rate of wrong probes, 21,600 in all 36 cells: where wrong answers are rarest, the fewest are needed.
RUNS = {0.0: 200, 0.01: 300, 0.05: 500, 0.2: 1400}
JOBS = (1, 4)
_LIES = ("old end flaky", "new end flaky", "swapped", "old end wrong", "new end wrong")
_OWN_RATE = 0.3  # of an end that lies, whatever the rate of the others


class Trouble(StrEnum):
    """What makes a history hard, besides probes that are flaky."""

    NONE = "one change"
    HOLES = "holes"
    SECOND = "second regression"
    PRIOR = "wrong prior"
    ENDS = "lying ends"


@dataclass(frozen=True)
class History:
    """A range and its truth. `letters`: the state of each candidate; `rates`: how often its probe shows the other state."""

    letters: str
    rates: tuple[float, ...]
    weights: tuple[float, ...]
    kind: BisectKind
    jobs: int
    commits: bool
    ends_named: bool

    def is_true(self, answer: Bisection) -> bool:
        """Whether the case changed between the two revisions that the answer names."""
        assert answer.before is not None
        assert answer.after is not None
        old, new = ("P", "F") if self.kind is BisectKind.REGRESSION else ("F", "P")
        return (self.letters[_index(answer.before.name)], self.letters[_index(answer.after.name)]) == (old, new)


def history(seed: int, *, commits: bool, jobs: int, trouble: Trouble, rate: float) -> History:
    """Make the history of a seed: 8 to 240 commits or 6 to 24 releases."""
    randomly = random.Random(f"{seed} {commits} {jobs} {trouble} {rate}")
    size = round(8 * 30 ** randomly.random()) if commits else randomly.randint(6, 24)
    kind = randomly.choice(list(BisectKind))
    culprit = randomly.randrange(1, size)
    old, new = ("P", "F") if kind is BisectKind.REGRESSION else ("F", "P")
    letters = [old if index < culprit else new for index in range(size)]
    rates = [rate] * size
    weights = [1.0] * size
    if commits:
        weights = [randomly.gammavariate(0.3, 1) + 1e-3 for _ in range(size)]
    if trouble is Trouble.HOLES:
        for _ in range(randomly.randint(1, 1 + size // 8)):
            first = randomly.randrange(1, size)
            for index in range(first, min(size - 1, first + randomly.choice((1, 1, 2, 5)))):
                letters[index] = "U"
        letters[0], letters[-1] = old, new
    elif trouble is Trouble.SECOND and culprit >= 3:
        broke, fixed = sorted(randomly.sample(range(1, culprit), 2))
        letters[broke:fixed] = [new] * (fixed - broke)
    elif trouble is Trouble.PRIOR:
        weights[culprit] = min(weights) / 30
        weights[max(1, culprit - randomly.randint(1, 4))] = sum(weights)
    elif trouble is Trouble.ENDS:
        letters, rates = _lying_ends(letters, rates, randomly.choice(_LIES))
    named = commits or trouble is Trouble.ENDS or randomly.random() < 0.5
    return History("".join(letters), tuple(rates), tuple(weights), kind, jobs, commits, named)


def _lying_ends(letters: list[str], rates: list[float], lie: str) -> tuple[list[str], list[float]]:
    """The states and the rates of wrong probes of a history whose ends lie."""
    old, new = letters[0], letters[-1]
    match lie:
        case "old end flaky":
            return letters, [max(rates[0], _OWN_RATE), *rates[1:]]
        case "new end flaky":
            return letters, [*rates[:-1], max(rates[-1], _OWN_RATE)]
        case "swapped":
            return letters[::-1], rates
        case "old end wrong":
            return [new] * len(letters), rates
        case _:
            return [old] * len(letters), rates


@dataclass
class FlakyRunner:
    """Stands where a ProbeRunner stands. `asked`: the index of each probe that was not cached."""

    history: History
    seed: int
    asked: list[int] = field(default_factory=list)
    progress = Silent()

    def __post_init__(self) -> None:
        self.jobs = self.history.jobs
        self.registry = LetterRegistry(len(self.history.letters))
        self._random = random.Random(self.seed)
        self._cached: dict[int, str] = {}

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in jobs:
            index = _index(job.ref.revision.name)
            cached = not job.fresh and index in self._cached
            if not cached:
                self.asked.append(index)
                letter = self.history.letters[index]
                is_wrong = self._random.random() < self.history.rates[index]
                self._cached[index] = {"P": "F", "F": "P"}.get(letter, letter) if is_wrong else letter
            yield Probe(job.case, job.ref.revision, None, outcome(self._cached[index]), Measured(seconds=1.0), cached=cached)


@dataclass
class Tally:
    """The answers of many histories. confirmed: of them, `wrong` name a pair between which nothing changed."""

    runs: int = 0
    confirmed: int = 0
    wrong: int = 0
    suspects: int = 0
    inconclusive: int = 0
    probes: int = 0
    most_probes: int = 0
    rounds: int = 0

    def add(self, history: History, answer: Bisection, probes: int) -> None:
        """Count one answer."""
        self.runs += 1
        self.probes += probes
        self.most_probes = max(self.most_probes, probes)
        self.rounds += answer.rounds
        self.confirmed += answer.confirmed
        self.wrong += answer.confirmed and not history.is_true(answer)
        self.suspects += answer.answer is Answer.SUSPECTS and not answer.confirmed
        self.inconclusive += answer.answer is Answer.INCONCLUSIVE


def simulate(history: History, seed: int) -> tuple[Bisection, int]:
    """Search a history; return the answer and the number of probes."""
    runner = FlakyRunner(history, seed)
    case = case_named("case")
    size = len(history.letters)
    if history.commits:
        line = LetterRange([1.0] * size, history.weights)
        answer = run_search(BisectSearch(runner, case, line, kind=history.kind))
    else:
        ends = ("1.0.0", f"1.{size - 1}.0") if history.ends_named else (None, None)
        answer = bisect_between(BisectRequest(runner, case, kind=history.kind), *ends)  # type: ignore[arg-type]
    return answer, len(runner.asked)


def tally(runs: int, *, commits: bool, jobs: Sequence[int], trouble: Trouble, rate: float, first: int = 0) -> Tally:
    """Search `runs` histories of one kind, an equal part with each number of jobs."""
    total = Tally()
    for seed in range(first, first + runs):
        world = history(seed, commits=commits, jobs=jobs[seed % len(jobs)], trouble=trouble, rate=rate)
        total.add(world, *simulate(world, seed))
    return total


def troubles(*, commits: bool) -> list[Trouble]:
    """The troubles that histories of commits or of releases can have: releases have no prior."""
    return [trouble for trouble in Trouble if commits or trouble is not Trouble.PRIOR]


def _index(name: str) -> int:
    return int(name[1:]) if name.startswith("c") else int(name.split(".")[1])
