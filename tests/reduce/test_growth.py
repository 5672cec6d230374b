"""Reductions of a growth in compile time: which programs are slow enough, with times that vary."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.reduce.made import CASE
from tests.reduce.test_search import draft
from triage.execution.judge import Metric
from triage.model.case import Case
from triage.model.outcome import Compiled, Measured, Probe
from triage.model.revision import Revision, Toolchain
from triage.reduce.baseline import Baseline, metric_baseline
from triage.reduce.interestingness import GrowthOracle
from triage.reduce.result import Reduction

GOOD, BAD = (
    Toolchain("iree", Revision(name), name, Path(), Path(), None)  # type: ignore[arg-type]
    for name in ("1", "2")
)


class VaryingProber:
    """Compiles of the bad toolchain take `ratio` times as long as the others, on a machine that adds up to `noise`."""

    def __init__(self, ratio: float, noise: float) -> None:
        self.ratio, self.noise, self.dice, self.compiles = ratio, noise, random.Random(7), 0

    def trial(self, case: Case, toolchain: Toolchain, *_: object, **__: object) -> Probe:
        self.compiles += 1
        amount = self.ratio if toolchain is BAD else 1.0
        seconds = amount * (1 + self.dice.random() * self.noise)
        measured = Measured(seconds, cpu_seconds=seconds, metrics={"artifact_bytes": 100 * amount})
        return Probe(case, toolchain.revision, "1", Compiled(), measured, cached=False)


def start_of(prober: Any, metric: Metric = Metric.CPU_SECONDS) -> Baseline | Reduction:
    return metric_baseline(prober, CASE, BAD, GOOD, metric)


def accepts(folder: Path, ratio: float, noise: float) -> tuple[bool, int]:
    """Whether a draft of this ratio is slow enough where the original takes four times as long, and how many compiles tell."""
    start = start_of(VaryingProber(4.0, 0.0))
    assert isinstance(start, Baseline)
    prober: Any = VaryingProber(ratio, noise)
    answer = GrowthOracle(prober, folder, BAD, GOOD, start).fails(draft(["a"]), threading.Event())
    return answer, prober.compiles


@pytest.mark.parametrize(("ratio", "slow"), [(1.0, False), (1.8, False), (2.3, True), (5.0, True)])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_draft_keeps_half_of_the_growth(tmp_path: Path, ratio: float, noise: float, slow: bool) -> None:
    answer, compiles = accepts(tmp_path, ratio, noise)
    assert answer is slow
    assert compiles == (2 if ratio in (1.0, 5.0) else 16)


@pytest.mark.parametrize(
    ("ratio", "noise", "enough"), [(1.0, 0.5, False), (1.25, 0.5, False), (1.25, 0.02, True), (3.0, 0.5, True)]
)
def test_a_growth_within_the_noise_is_too_little(ratio: float, noise: float, enough: bool) -> None:
    assert isinstance(start_of(VaryingProber(ratio, noise)), Baseline) is enough
