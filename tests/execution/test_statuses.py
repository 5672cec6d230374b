"""What the status of a compiler that ends with an exception says about the compiler."""

from dataclasses import replace

import pytest

from triage.compilers.registry import family_named
from triage.execution.judge import compiler_rules, judge, judge_run
from triage.model.execution import Captured, Ending, Execution, Stage
from triage.model.outcome import Failed

TRACEBACK = 'Traceback (most recent call last):\n  File "/w/compile.py", line 9, in <module>\n    compile(program)\n'


def compiled(message: str) -> Execution:
    printed = Captured(f"{TRACEBACK}{message}\n")
    return Execution(("c",), Ending.EXITED, 1, stderr=printed)


def test_a_status_that_no_rule_explains_is_a_failure_of_the_compile() -> None:
    for exception in (
        "jaxlib.xla_extension.XlaRuntimeError",
        "jax.errors.JaxRuntimeError",
    ):
        for status in ("INTERNAL", "INVALID_ARGUMENT"):
            message = f"{exception}: {status}: too many tiles: 18"
            outcome = judge(compiled(message), compiler_rules())
            assert isinstance(outcome, Failed)
            signature = f"compiler-status:{status} too many tiles: #"
            assert outcome.failure.signature == signature


@pytest.mark.parametrize(
    ("line", "signature", "headline"),
    [
        (
            "element at index 7 (0.25) does not match the expected (1)",
            "wrong-result:1",
            "result 1, element 7 is 0.25, expected 1",
        ),
        (
            "metadata is 3x4xf32; expected that the view matches f32 that cannot be read",
            "wrong-result:1 metadata",
            "result 1 is 3x4xf32, expected f32 that cannot be read",
        ),
    ],
)
def test_a_run_reports_a_wrong_result(line: str, signature: str, headline: str) -> None:
    printed = Captured(f"[FAILED] result[1]: {line}")
    runner = family_named("xla").run
    assert runner
    ran = replace(compiled(""), stdout=printed, stderr=Captured())
    outcome = judge_run(ran, compiler_rules(), runner)
    assert isinstance(outcome, Failed)
    assert outcome.failure.stage is Stage.COMPARE
    assert outcome.failure.signature == signature
    assert outcome.failure.headline == headline
    assert outcome.failure.line is None
