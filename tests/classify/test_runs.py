"""A failed run always has a failure, a successful one never has: that of its output, of
its end, and of the pass that a second run names.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.classify.samples import read_table
from triage.classify import Diagnosis, RuleSet, diagnose, packaged_rules
from triage.classify.failure_site import failing_pass
from triage.execution.judge import compiler_rules
from triage.model.execution import Captured, Ending, Execution, PassName

RUNS = read_table("runs")


def diagnosed(
    ending: str = Ending.EXITED,
    code: int = 1,
    *,
    stderr: str = "",
    stdout: str = "",
    named: PassName | None = None,
    rules: RuleSet | None = None,
) -> Diagnosis:
    """Diagnose a run. `code` is its exit status or the number of its signal."""
    execution = Execution(
        ("iree-compile",),
        Ending(ending),
        exit_code=code if ending == Ending.EXITED else None,
        signal=code if ending == Ending.SIGNALLED else None,
        seconds=61.5,
        peak_rss_mb=4096.0,
        stdout=Captured(stdout),
        stderr=Captured(stderr),
    )
    return diagnose(execution, rules or packaged_rules(), named)


@pytest.mark.parametrize("run", RUNS, ids=[run["name"] for run in RUNS])
def test_a_run_has_the_failure_that_its_end_and_its_output_show(
    run: dict[str, Any],
) -> None:
    end = run.get("ending", Ending.EXITED), run.get("code", 1)
    streams = {name: run[name] for name in ("stderr", "stdout") if name in run}
    diagnosis = diagnosed(*end, **streams)
    if "pass" in run:
        assert diagnosis.needs_pass
        diagnosis = diagnosed(*end, **streams, named=PassName(run["pass"]))
    first, *others = diagnosis.failures
    assert len(others) == run.get("others", 0)
    assert {key: getattr(first, key) for key in run["shows"]} == run["shows"]
    assert diagnosis.needs_pass is run.get("asks", False)
    assert diagnosis.warnings == ()


def test_an_error_of_cython_is_the_message_below_its_header() -> None:
    text = (
        "Error compiling Cython file:\n---\n...\nx = 0L\n^\n---\n\n/w/a.pyx:5:10: No\n"
    )
    [failure] = diagnosed(stderr=text, rules=compiler_rules()).failures
    assert (failure.signature, failure.headline) == ("unknown:No", "a.pyx:5:10: No")


@pytest.mark.parametrize(
    ("stderr", "warnings"),
    [
        ("all fine\n", []),
        (
            "d.mlir:2:7: error: 'flow.tensor.transfer' op references a promised device that was not declared: #hal.device.promise<@__device_7>\n",
            ["undeclared-device:__device_7"],
        ),
        (
            "m.mlir:1:1: remark: clone to consumers pass failed to reach a fixed point after 32 iterations; ambiguous affinity may be present\n",
            ["clone-to-consumers-non-convergence"],
        ),
    ],
)
def test_a_successful_run_has_only_warnings(stderr: str, warnings: list[str]) -> None:
    diagnosis = diagnosed(code=0, stderr=stderr)
    assert diagnosis.failures == ()
    assert [failure.signature for failure in diagnosis.warnings] == warnings


@given(
    text=st.text(max_size=200),
    ending=st.sampled_from(Ending),
    code=st.integers(0, 255),
)
def test_a_failed_run_always_has_a_failure(text: str, ending: str, code: int) -> None:
    diagnosis = diagnosed(ending, code, stderr=text)
    is_ok = (ending, code) == (Ending.EXITED, 0)
    assert bool(diagnosis.failures) is not is_ok
    for failure in diagnosis.failures:
        assert failure.signature.partition(":")[0] == failure.failure_class


@pytest.mark.parametrize("line", read_table("passes"))
def test_a_line_names_the_pass_that_failed(line: list[str | None]) -> None:
    text, *words = line
    assert failing_pass(text) == (PassName(*words) if words else None)
