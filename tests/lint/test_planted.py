"""Planted faults are found at their line; healthy programs have no errors and warnings.
Graph and search of the limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT, Triage
from tests.lint.conftest import Read
from tests.lint.programs import (
    ANYWHERE,
    FAULTS,
    Planted,
    hip,
    inserted,
    replaced,
    sharded,
)
from tests.real.statuses import read_statuses
from triage.compilers.iree.lint import findings
from triage.compilers.iree.lint_program import LintProgram
from triage.compilers.parts import LintFinding, Severity
from triage.lint.check import smallest_working


def alarms(program: LintProgram) -> list[LintFinding]:
    found = findings(program)
    return [one for one in found if one.severity is not Severity.ADVICE]


@pytest.mark.parametrize(
    ("rule", "severity", "plant"),
    [(*rule, plant) for rule, plants in FAULTS.items() for plant in plants],
)
def test_a_planted_fault_is_found_at_its_line(
    read: Read, rule: str, severity: str, plant: Callable[[int], Planted]
) -> None:
    text, options, line = plant(4)
    program = read(text, options, "rocm")
    found = [
        one for one in findings(program) if (one.rule, one.severity) == (rule, severity)
    ]
    lines = [one.position.line if one.position else None for one in found]
    assert lines
    assert line == ANYWHERE or line in lines
    # A fault causes no other errors and warnings.
    assert not {one.rule for one in alarms(program)} - {rule}


@pytest.mark.parametrize("reference", ["promise", "affinity"])
@pytest.mark.parametrize("chain", ["none", "kv-cache", "updates"])
def test_a_healthy_program_has_no_errors_and_no_warnings(
    read: Read, reference: str, chain: str
) -> None:
    words = ("--layers", "2", "--reference", reference, "--chain", chain)
    assert not alarms(read(sharded(4, *words, "--length", "3"), hip(4), "rocm"))


def test_no_false_alarm_on_the_recipes_that_compile(home: Path, triage: Triage) -> None:
    """Recipes that the newest release compiles have no alarms."""
    done = triage("lint", ROOT / "recipes", "--format", "json")
    answer = json.loads(done.stdout)
    healthy = {name for name, states in read_statuses().items() if states[-1] == "P"}
    looked_at = {one["case"] for one in answer["cases"]}
    assert len(healthy & looked_at) >= 25
    alarms = {
        (one["case"], one["rule"])
        for one in answer["findings"]
        if one["severity"] != "advice"
    }
    assert not {one for one in alarms if one[0] in healthy}
    assert {case for case, rule in alarms if rule == "undeclared-device"} == {
        "sharded-llama-undeclared-device",
        "affinity-symbol-undeclared",
    }


def test_a_global_places_its_loads(read: Read) -> None:
    text = sharded(2, "--layers", "1")
    kind = "tensor<64x64xf32>"
    weight = f"util.global private @weight {{stream.affinity = #hal.device.promise<@__device_0>}} = dense<0.5> : {kind}\n"
    planted, line = inserted(
        text, "%inner_0_1 =", f"  %weight = util.global.load @weight : {kind}"
    )
    planted = replaced(planted, "ins(%x_0_1, %up_0_1 ", "ins(%x_0_1, %weight ")
    found = findings(read(weight + planted, hip(2), "rocm"))
    assert [
        one.position.line
        for one in found
        if one.rule == "mixed-devices" and one.position
    ] == [line + 2]


def test_devices_and_transfers_are_in_the_flowchart(home: Path, triage: Triage) -> None:
    done = triage("lint", ROOT / "recipes" / "sharded-llama.yaml", "--graph")
    first, *lines = done.stdout.splitlines()
    assert first == "flowchart TD"
    assert any("@__device_1" in line for line in lines)
    assert any("==>" in line and "moved" in line for line in lines)


@given(truth=st.integers(1, 5000), guess=st.integers(1, 4999))
def test_the_smallest_is_found_from_any_guess(truth: int, guess: int) -> None:
    asked: list[int] = []

    def works(number: int) -> bool:
        asked.append(number)
        return number >= truth

    assert smallest_working(works, 0, 5000, guess) == truth
    assert len(set(asked)) == len(asked) <= 20
    assert all(0 < number < 5000 for number in asked)
