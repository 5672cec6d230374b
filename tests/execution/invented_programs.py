"""Programs whose times are invented: a true time, noise, interruptions, and a machine
that slows down meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from triage.model.outcome import NoAnswer
from triage.model.revision import Revision


@dataclass
class Machine:
    """Adds noise to all programs that run on it. drift: change of all times from the
    first to the hundredth run; outliers: share of the runs that other work makes up to
    four times as long.
    """

    seed: int
    noise: float = 0.03
    drift: float = 0.0
    outliers: float = 0.0
    runs: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def seconds(self, true: float) -> float:
        self.runs += 1
        true *= 1 + self.drift * min(self.runs, 100) / 100
        if self.random.random() < self.outliers:
            true *= 1 + 3 * self.random.random()
        return true * self.random.lognormvariate(0, self.noise)


@dataclass(eq=False)
class InventedProgram:
    """Stands where a `TimedProgram` stands."""

    machine: Machine
    true: float = 0.01
    bytes: int = 100
    dispatches: int | None = 1
    toolchain: Revision | None = None
    label: str = "main"

    def sample(self) -> float | NoAnswer:
        return self.machine.seconds(self.true)
