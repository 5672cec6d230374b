"""Search a simulated history, whose probes may be wrong.

No process is started. As with real probes, a result is cached: only a fresh probe can differ from the one before it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.bisect.letters import LetterRange, LetterRegistry, case_named, outcome
from triage.bisect.plan import BisectRequest, bisect_between
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import BisectSearch, run_search
from triage.execution.scheduler import ProbeJob
from triage.model.outcome import Measured, Probe
from triage.model.progress import Progress


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


@dataclass
class FlakyRunner:
    """Stands where an Engine stands. `asked`: the index of each probe that was not cached."""

    history: History
    seed: int
    asked: list[int] = field(default_factory=list)
    progress = Progress()

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


def _index(name: str) -> int:
    return int(name[1:]) if name.startswith("c") else int(name.split(".")[1])
