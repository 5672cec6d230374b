"""Planted faults are found at their line; healthy programs have no errors and warnings.
Graph and search of the limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT, Triage
from tests.real.statuses import read_statuses
from triage.compilers.base import LintFinding, Severity
from triage.compilers.iree.adapter import Iree
from triage.compilers.iree.lint import findings
from triage.compilers.iree.lint_program import LintProgram
from triage.execution.mlir_tools import Reader
from triage.lint.check import smallest_working
from triage.mlir import parse_module
from triage.model.revision import Capabilities, Revision, Toolchain

Findings = Callable[[str, int], list[LintFinding]]
GENERATOR = ROOT / "recipes" / "models" / "sharded_llama.py"
CACHE = "--layers 1 --chain kv-cache --length 2"
RESULT = "tensor<16x64xf32> {iree.abi.affinity = #hal.device.promise<@__device_3>}"
GLOBAL = "util.global private @weight {stream.affinity = #hal.device.promise<@__device_0>} = dense<0.5> : tensor<64x32xf32>"
LOADED = "  %weight = util.global.load @weight : tensor<64x32xf32>"
ARGUMENT = " {iree.abi.affinity = #hal.device.promise<@__device_3>},\n    %down_0_3:"


@cache
def sharded(words: str) -> str:
    """A program for four devices."""
    command = [sys.executable, str(GENERATOR), "--devices", "4", *words.split()]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def found(tmp_path: Path) -> Findings:
    """The findings in a text, read by the installed compiler, with flags that declare
    so many devices.
    """
    root = Path(sys.prefix)
    program = Iree().locate(root)
    assert program
    revision = Revision("installed")
    installed = Toolchain(
        "iree", revision, "", root, program, Capabilities(), reads=(root,)
    )
    tools = Iree().mlir_tools(installed)
    assert tools
    reader = Reader(tools, threading.Event())

    def of(text: str, devices: int) -> list[LintFinding]:
        path = tmp_path / "planted.mlir"
        path.write_text(text)
        generic = reader.generic_form(path, elide=True)
        assert generic, reader.parse_error(path)
        numbers = range(devices)
        flags = [f"--iree-hal-target-device=hip[{number}]" for number in numbers]
        return list(findings(LintProgram(parse_module(generic), flags, "rocm")))

    return of


@dataclass(frozen=True)
class Fault:
    """A healthy program with a fault."""

    rule: str
    words: str
    """Of the generator."""
    edits: dict[str, str] = field(default_factory=dict)
    """What replaces what."""
    mark: str = ""
    """What is in the line of the fault; nothing for any line."""
    devices: int = 4

    @property
    def severity(self) -> str:
        kinds = {"undeclared-device": "error", "long-chain": "advice"}
        return kinds.get(self.rule, "warning")


FAULTS = [
    Fault("undeclared-device", "--layers 1", mark="@__device_3>", devices=3),
    Fault(
        "undeclared-device",
        "--layers 1",
        {"#hal.device.promise<@__device_3>": "#hal.device.affinity<@spare, [0]>"},
        "@spare",
    ),
    Fault(
        "missing-affinity",
        "--layers 1",
        {ARGUMENT: ",\n    %down_0_3:"},
        "%up_0_3: ",
    ),
    Fault("missing-affinity", CACHE, {RESULT: "tensor<16x64xf32>"}, "  return "),
    Fault("mixed-devices", CACHE, {RESULT: RESULT.replace("3>", "0>")}, "  return "),
    Fault("mixed-devices", "--layers 1", {"(%x_0_3,": "(%x_0_0,"}, "%inner_0_3 = "),
    # a global places its loads
    Fault(
        "mixed-devices",
        "--layers 1",
        {
            "func.func @decode": f"{GLOBAL}\nfunc.func @decode",
            "  %inner_0_1 =": f"{LOADED}\n  %inner_0_1 =",
            "ins(%x_0_1, %up_0_1 ": "ins(%x_0_1, %weight ",
        },
        "%inner_0_1 =",
    ),
    *(
        Fault("long-chain", f"--layers 0 --chain {kind} --length 80")
        for kind in ("updates", "for", "while", "globals", "opaque")
    ),
]


def alarms(linted: list[LintFinding]) -> list[LintFinding]:
    return [one for one in linted if one.severity is not Severity.ADVICE]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_at_its_line(found: Findings, fault: Fault) -> None:
    text = sharded(fault.words)
    for old, new in fault.edits.items():
        assert old in text
        text = text.replace(old, new)
    linted = found(text, fault.devices)
    lines = [
        one.position.line if one.position else 0
        for one in linted
        if (one.rule, one.severity) == (fault.rule, fault.severity)
    ]
    assert lines
    marked = text[: text.index(fault.mark)].count("\n") + 1
    assert not fault.mark or marked in lines
    # a fault causes no other errors and warnings
    assert not {one.rule for one in alarms(linted)} - {fault.rule}


@pytest.mark.parametrize("reference", ["promise", "affinity"])
@pytest.mark.parametrize("chain", ["none", "kv-cache", "updates"])
def test_a_healthy_program_has_no_errors_and_no_warnings(
    found: Findings, reference: str, chain: str
) -> None:
    words = f"--layers 2 --reference {reference} --chain {chain} --length 3"
    assert not alarms(found(sharded(words), 4))


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
