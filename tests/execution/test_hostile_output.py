"""No output of a compiler raises, and a defect that one case brings out does not end the others."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from triage.classify import classify_log, diagnose, packaged_rules
from triage.classify.stack_dump import signal_name
from triage.compilers.base import pep440
from triage.compilers.invocation import reported_facts
from triage.compilers.iree.runner import IreeRunner
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.execution import Captured, Ending, Execution
from triage.model.outcome import Cause, Untestable

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
    return Execution(("c",), Ending.EXITED, 1, None, 1.0, 1.0, 1.0, Captured(stdout), Captured(stderr))


@pytest.mark.parametrize("text", OUTPUTS, ids=range(len(OUTPUTS)))
def test_no_output_raises(text: str) -> None:
    assert diagnose(execution(stderr=text), packaged_rules()).failures
    assert diagnose(execution(stdout=text), packaged_rules()).failures


@pytest.mark.parametrize("text", ["²", "-", "--1", DIGITS, "٣", ""])
def test_a_status_that_is_no_number_names_no_signal(text: str) -> None:
    assert signal_name(text) is None


def test_a_million_lines_and_invalid_utf8_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x\n" * 1_000_000 + b"\xff\xfe\xc3(\x80 error: boom\n")
    with log.open("rb") as stream:
        assert classify_log(stream, packaged_rules()) is not None


@pytest.mark.parametrize(
    "report",
    [
        "[" * 200_000,
        '{"metrics": {"a": ' + DIGITS + "}}",
        '{"metrics": {"a": 1e999, "b": NaN, "c": -Infinity, "d": 1' + "0" * 400 + ', "e": true}}',
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


def test_a_reported_name_can_be_stored_and_the_number_of_metrics_is_limited() -> None:
    numbers = {"\ud800": 1, **{f"n{number}": number for number in range(5000)}}
    facts = reported_facts(execution(stdout=f"triage: {json.dumps({'stage': chr(0xD800), 'metrics': numbers})}"))
    json.dumps([facts.phase, dict(facts.metrics)], ensure_ascii=False).encode()
    assert len(facts.metrics) <= 1000


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "{" * 200_000, '{"benchmarks": [1]}', '{"benchmarks": [{"run_type": "iteration"}]}']
)
def test_a_benchmark_report_of_another_shape_has_no_times(text: str) -> None:
    assert IreeRunner().seconds(text) == []


def test_a_version_of_thousands_of_digits_is_none() -> None:
    assert pep440(DIGITS) is None


def test_an_error_in_one_case_is_an_untestable_outcome_of_that_case() -> None:
    notes: list[str] = []

    class Prober:
        def probe(self, case: Any, toolchain: Any, **_: Any) -> Any:
            raise ZeroDivisionError(case.name)

    runner = ProbeRunner.__new__(ProbeRunner)
    runner.prober, runner.threshold = Prober(), None  # type: ignore[assignment]
    runner.progress = SimpleNamespace(error=notes.append)  # type: ignore[assignment]
    runner.stop = threading.Event()
    case, revision = SimpleNamespace(name="one"), SimpleNamespace(name="1.0")
    job = ProbeJob(case, SimpleNamespace(revision=revision))  # type: ignore[arg-type]
    probe = runner._probe(job, SimpleNamespace(revision=revision, version=None))  # type: ignore[arg-type]
    assert isinstance(probe.outcome, Untestable)
    assert probe.outcome.cause is Cause.INTERNAL
    assert "ZeroDivisionError" in probe.outcome.reason
    assert notes
