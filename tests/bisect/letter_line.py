"""A line of places without git, and a bench whose compiler is a string of letters, which may lie."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.bisect.history_of import outcome
from triage.bisect.belief import Floats
from triage.bisect.prior_clues import Clues
from triage.bisect.result import CommitNote
from triage.execution.runner import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Measured, Probe
from triage.model.progress import Silent
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef


@dataclass
class LetterLine:
    """`price`: of each place in seconds, `weight`: how suspicious it is; `shut`: places known to have no compiler."""

    price: Sequence[float]
    weight: Sequence[float]
    shut: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.price)

    def place(self, index: int) -> ToolchainRef:
        return ToolchainRef("iree", self.revision(index))

    def case(self, index: int, case: Case) -> Case:
        return case

    def revision(self, index: int) -> Revision:
        return Revision(f"c{index}", f"{index:040x}")

    def closed(self) -> Mapping[int, str]:
        return dict.fromkeys(self.shut, "the artifact has expired")

    def prices(self) -> Floats:
        return np.array([float("inf") if index in self.shut else price for index, price in enumerate(self.price)])

    def weights(self, clues: Clues) -> Floats:
        return np.array(self.weight)

    def notes(self, indices: Sequence[int], clues: Clues) -> Mapping[str, CommitNote]:
        return {}


def plain_line(places: int) -> LetterLine:
    return LetterLine([1.0] * places, [1.0] * places)


@dataclass
class LetterBench:
    """`false_good`, `false_bad`: how often a probe lies, each direction; the first look at an end never does, for a lie there
    ends the bisect before it begins.
    """

    letters: str
    jobs: int = 1
    false_good: float = 0.0
    false_bad: float = 0.0
    seed: int = 0
    asked: list[int] = field(default_factory=list)
    progress = Silent()

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in jobs:
            index = int(job.place.revision.name[1:])
            letter = self.letters[index]
            if index not in (0, len(self.letters) - 1) or job.fresh:
                lies = self._random.random() < (self.false_good if letter == "F" else self.false_bad)
                letter = {"P": "F", "F": "P"}.get(letter, letter) if lies else letter
            self.asked.append(index)
            yield Probe(job.case, job.place.revision, None, outcome(letter), Measured(seconds=0.1), cached=False)
