"""Planted faults are found at their line; healthy programs have no errors and warnings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT, Asked, Triage
from tests.real.statuses import read_statuses
from triage.compilers.base import Severity
from triage.lint.check import smallest_working

Findings = list[dict[str, Any]]
Lint = Callable[..., Findings]
GENERATOR = ROOT / "recipes" / "models" / "sharded_llama.py"
FAULTS = yaml.safe_load((ROOT / "tests" / "data" / "planted_faults.yaml").read_text())


@cache
def sharded(words: str) -> str:
    """A program for four devices."""
    command = [sys.executable, str(GENERATOR), "--devices", "4", *words.split()]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def alarms(findings: Findings) -> set[tuple[str, str]]:
    return {
        (finding["case"], finding["rule"])
        for finding in findings
        if finding["severity"] != "advice"
    }


@pytest.fixture
def lint(shared_home: Path, workplace: Path, triage: Triage) -> Lint:
    """Lints a program with flags that declare so many devices."""

    def findings(text: str, devices: int = 4) -> Findings:
        (workplace / "p.mlir").write_text(text)
        flags = [f"--iree-hal-target-device=hip[{number}]" for number in range(devices)]
        target = {"backend": "rocm"}
        recipe = {"name": "p", "input": "p.mlir", "target": target, "flags": flags}
        (workplace / "p.yaml").write_text(yaml.safe_dump(recipe))
        done = triage("lint", "p.yaml", "--format", "json")
        answer: Findings = json.loads(done.stdout)["findings"]
        severities = [finding["severity"] for finding in answer]
        assert done.returncode == ("error" in severities)
        assert severities == sorted(severities, key=list(Severity).index)
        return answer

    return findings


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_at_its_line_and_no_other_is_reported(
    lint: Lint, fault: dict[str, Any]
) -> None:
    text = sharded(fault["words"])
    for old, new in fault.get("edits", {}).items():
        assert old in text
        text = text.replace(old, new)
    findings = lint(text, fault.get("devices", 4))
    assert alarms(findings) <= {("p", fault.get("rule"))}
    places = [
        finding["location"]
        for finding in findings
        if finding["rule"] == fault.get("rule")
        and finding["severity"] == fault["severity"]
    ]
    assert bool(places) == ("rule" in fault)
    if "mark" in fault:
        line = text[: text.index(fault["mark"])].count("\n") + 1
        assert line in [int(place.split(":")[1]) for place in places]


def test_no_false_alarm_on_the_recipes_that_compile(home: Path, asked: Asked) -> None:
    """Recipes that the newest release compiles have no alarms."""
    answer = asked("lint", ROOT / "recipes", code=2)  # one is no valid program
    healthy = {name for name, states in read_statuses().items() if states[-1] == "P"}
    linted = {case["case"] for case in answer["cases"]}
    assert len(healthy & linted) >= 25
    found = alarms(answer["findings"])
    assert not healthy & {case for case, _ in found}
    assert {case for case, rule in found if rule == "undeclared-device"} == {
        "sharded-llama-undeclared-device",
        "affinity-symbol-undeclared",
    }


def test_devices_and_transfers_are_in_the_flowchart(home: Path, triage: Triage) -> None:
    done = triage("lint", ROOT / "recipes" / "sharded-llama.yaml", "--graph")
    assert done.stdout.startswith("flowchart TD\n")
    assert "@__device_1" in done.stdout
    assert "moved" in done.stdout


@given(truth=st.integers(1, 5000), guess=st.integers(1, 4999))
def test_the_smallest_is_found_from_any_guess(truth: int, guess: int) -> None:
    asked: list[int] = []

    def works(number: int) -> bool:
        asked.append(number)
        return number >= truth

    assert smallest_working(works, 0, 5000, guess) == truth
    assert len(set(asked)) == len(asked) <= 20
    assert all(0 < number < 5000 for number in asked)
