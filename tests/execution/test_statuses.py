"""What the status of a compiler that ends with an exception says about the compiler."""

from dataclasses import replace

import pytest

from triage.classify import packaged_rules
from triage.compilers.invocation import mismatch_line
from triage.compilers.registry import family_named
from triage.execution.judge import judge, judge_run
from triage.model.execution import Captured, Ending, Execution, Stage
from triage.model.outcome import Cause, Failed, NoAnswer

TRACEBACK = 'Traceback (most recent call last):\n  File "/w/compile.py", line 9, in <module>\n    compile(program)\n'


def compiled(message: str) -> Execution:
    return Execution(
        ("c",),
        Ending.EXITED,
        1,
        None,
        1.0,
        1.0,
        100.0,
        Captured(),
        Captured(f"{TRACEBACK}{message}\n"),
    )


@pytest.mark.parametrize(
    "exception",
    [
        "jaxlib.xla_extension.XlaRuntimeError",
        "jaxlib._jax.XlaRuntimeError",
        "jax.errors.JaxRuntimeError",
    ],
)
@pytest.mark.parametrize(
    "status",
    ["INTERNAL", "FAILED_PRECONDITION", "DEADLINE_EXCEEDED", "INVALID_ARGUMENT"],
)
def test_a_status_that_no_rule_explains_is_a_failure_of_the_compile(
    exception: str, status: str
) -> None:
    outcome = judge(
        compiled(f"{exception}: {status}: too many tiles: 18"), packaged_rules()
    )
    assert isinstance(outcome, Failed)
    assert outcome.failure.signature == f"compiler-status:{status} too many tiles: #"


@pytest.mark.parametrize(
    "message",
    [
        "jaxlib._jax.JaxRuntimeError: UNKNOWN: -:2:8: error: unregistered operation 'stablehlo.new' found in dialect",
        "jaxlib._jax.JaxRuntimeError: UNKNOWN: -:2:8: error: rank must be between 1 and 3, but got 4.\n"
        "-:2:8: error: 'stablehlo.fft' op failed to infer returned types\n"
        "<unknown>:0: error: Failed to parse using StableHLO v1.17.0, this could indicate forward incompatibility",
        "jaxlib.xla_extension.XlaRuntimeError: INVALID_ARGUMENT: Failed to upgrade versioned StableHLO.",
        "jax.errors.JaxRuntimeError: NOT_FOUND: No FFI handler registered for lapack_new_ffi on a platform Host",
    ],
)
def test_a_program_that_a_release_does_not_know_is_untestable(message: str) -> None:
    outcome = judge(compiled(message), packaged_rules())
    assert isinstance(outcome, NoAnswer)
    assert outcome.cause is Cause.INPUT


def test_an_operation_without_a_lowering_is_a_failure() -> None:
    message = "jaxlib._jax.JaxRuntimeError: UNKNOWN: -:2:8: error: 'stablehlo.dynamic_iota' op can't be translated to XLA HLO"
    outcome = judge(compiled(message), packaged_rules())
    assert isinstance(outcome, Failed)
    assert outcome.failure.failure_class == "unsupported-op"


@pytest.mark.parametrize(
    ("mismatch", "signature", "headline"),
    [
        (
            {"output": 1, "element": 7, "actual": "0.25", "expected": "1"},
            "wrong-result:1",
            "result 1, element 7 is 0.25, expected 1",
        ),
        (
            {"output": 0, "kind": "metadata", "actual": "3x4", "expected": "4"},
            "wrong-result:0 metadata",
            "result 0 is 3x4, expected 4",
        ),
    ],
)
def test_a_run_reports_a_wrong_result_as_a_line_of_json(
    mismatch: dict[str, str | int], signature: str, headline: str
) -> None:
    ran = replace(compiled(""), stdout=Captured(mismatch_line(**mismatch)))
    runner = family_named("xla").run
    assert runner
    outcome = judge_run(ran, packaged_rules(), runner, {})
    assert isinstance(outcome, Failed)
    assert outcome.failure.stage is Stage.COMPARE
    assert outcome.failure.signature == signature
    assert outcome.failure.headline == headline
