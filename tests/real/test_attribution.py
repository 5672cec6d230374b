"""The pass where released compilers diverge, on recipes whose change is known from the
compiler's history.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage

pytestmark = pytest.mark.real


@pytest.fixture
def attributed(triage: Triage, shared_home: Path) -> Any:
    def call(recipe: str | Path, good: str, bad: str, *words: str) -> dict[str, Any]:
        path = recipe if isinstance(recipe, Path) else ROOT / f"recipes/{recipe}.yaml"
        command = (
            "attribute",
            path,
            "--good",
            good,
            "--bad",
            bad,
            "--format",
            "json",
            *words,
        )
        done = triage(*command)
        assert done.returncode == 0, done.stderr
        attribution = json.loads(done.stdout)
        assert isinstance(attribution, dict)
        return attribution

    return call


def test_equal_ir_up_to_the_pass_that_fails(attributed: Any) -> None:
    attribution = attributed("sharded-updates-short", "3.1.0", "3.2.0")
    assert attribution["status"] == "failing-pass"
    assert attribution["suspect_passes"] == ["ScheduleExecutionPass"]
    assert attribution["first_phase"] is None


def test_runs_that_cannot_be_compared_are_inconclusive(
    triage: Triage, shared_home: Path
) -> None:
    recipe = ROOT / "recipes/sharded-updates-short.yaml"
    both = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.3.0")
    assert both.returncode == 3
    assert "same failure" in both.stdout
    swapped = triage("attribute", recipe, "--good", "3.2.0", "--bad", "3.1.0")
    assert swapped.returncode == 3
    assert "--good" in swapped.stdout
