"""The life of each failure, and steps in measured times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.nights.documents import nights
from triage.nights.failures import failure_lives, new_failures
from triage.nights.history import NightsHistory, load_history
from triage.nights.steps import find_steps
from triage.nights.store import NightStore
from triage.report.stored_nights import stored_night


def history_of(tmp_path: Path, **histories: str) -> NightsHistory:
    store = NightStore(tmp_path)
    for record in nights(histories):
        store.add(stored_night(record, None, ""))
    return load_history(store)


def test_a_failure_is_open_while_a_case_has_it(tmp_path: Path) -> None:
    history = history_of(tmp_path, a="PFFF", b="PPFP", c="GGPP", d="PPPP")
    lives = {life.signature: life for life in failure_lives(history)}
    assert set(lives) == {"legalize:x", "segfault:x"}
    legalize, segfault = lives["legalize:x"], lives["segfault:x"]
    assert [history.cases[row] for row in legalize.open_cases] == ["a"]
    assert (legalize.first, legalize.since, legalize.fixed) == (1, 1, None)
    assert (segfault.open_cases, segfault.last, segfault.fixed) == ((), 1, 2)


def test_a_case_that_left_its_suite_is_not_open(tmp_path: Path) -> None:
    [life] = failure_lives(history_of(tmp_path, a="PF--", b="PPPP"))
    assert life.open_cases == ()
    assert life.fixed is None


def test_only_the_last_night_brings_new_failures(tmp_path: Path) -> None:
    history = history_of(tmp_path, new="PPPF", older="PPFF", known="PPPX", other="PPGF", always="FFFF")
    assert [history.cases[row] for row in new_failures(history)] == ["new"]


@pytest.mark.parametrize("at", [20, 60, 115])
def test_a_step_is_found_where_it_is(at: int) -> None:
    noise = np.random.default_rng(at)
    values = 10 * np.exp(noise.normal(0, 0.02, (2, 120)))
    values[0, at:] *= 1.2
    values[:, 5] = np.nan
    [step] = find_steps(values.astype(np.float32), 0.05)
    assert (step.row, step.before, step.at) == (0, at - 1, at)
    assert step.ratio == pytest.approx(1.2, rel=0.03)


def test_outliers_are_no_step() -> None:
    noise = np.random.default_rng(1)
    values = 10 * np.exp(noise.normal(0, 0.02, (20, 120)))
    values[:, 30] *= 3
    values[:, 77] *= 0.5
    assert list(find_steps(values, 0.05)) == []
    assert list(find_steps(np.full((1, 50), 2.0), 0.05)) == []
