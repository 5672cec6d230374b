"""No output of a compiler raises, and a defect that one case brings out does not end
the others.
"""

from __future__ import annotations

import pytest

from triage.classify import diagnose, packaged_rules
from triage.compilers.invocation import reported_facts
from triage.model.execution import Captured, Ending, Execution

DIGITS = "9" * 5000
OUTPUTS = [
    f"x.mlir:{DIGITS}:1: error: boom",
    f"x.mlir:1:{DIGITS}: error: 'a.b' op boom",
    f"#{DIGITS} 0x00007f12 mlir::Foo::bar() Foo.cpp:0:0",
    f"{DIGITS} libX.so 0x00007f1234 mlir::Foo::bar() + 63",
    f"line 3: {DIGITS} Segmentation fault (core dumped)",
    "Command exited with code ²",
    f"Process completed with exit code {DIGITS}",
    "\x00\x1b[31merror: \ud800 boom\x00",
    "(" * 20_000 + "error: " + "<" * 20_000,
    "loc(" * 5000 + ": error: boom",
    "x.mlir:1:1: error: " + "boom " * 2_000_000,
]


def execution(stdout: str = "", stderr: str = "") -> Execution:
    printed = {"stdout": Captured(stdout), "stderr": Captured(stderr)}
    return Execution(("c",), Ending.EXITED, 1, **printed)


@pytest.mark.parametrize("text", OUTPUTS, ids=range(len(OUTPUTS)))
def test_no_output_raises(text: str) -> None:
    assert diagnose(execution(stderr=text), packaged_rules()).failures
    assert diagnose(execution(stdout=text), packaged_rules()).failures


@pytest.mark.parametrize(
    "report",
    [
        "[" * 200_000,
        '{"metrics": {"a": ' + DIGITS + "}}",
        '{"metrics": {"a": 1e999, "b": NaN, "c": -Infinity, "d": 1'
        + "0" * 400
        + ', "e": true}}',
        '{"metrics": [1]}',
        '{"stage": {}}',
        "3",
        '{"metrics": {"a": 1, "a": 1e999}}',
    ],
)
def test_a_report_of_another_shape_is_ignored(report: str) -> None:
    facts = reported_facts(execution(stdout=f"triage: {report}\n"))
    assert facts.phase is None
    assert facts.metrics == {}
