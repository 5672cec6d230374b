"""A failing text is never called green, and a green one never failing, where no rule
knows the form of its messages.
"""

from __future__ import annotations

import io

import pytest

from triage.classify import ClassifiedLog, LogStatus, classify_log, packaged_rules


def classified(text: str) -> ClassifiedLog:
    return classify_log(io.BytesIO(text.encode()), packaged_rules())


@pytest.mark.parametrize(
    "line",
    [
        "ERROR the gizmo is off",
        "[ ERROR ] the gizmo is off",
        "CRITICAL: the gizmo is off",
        "2026-01-02 10:00:00 [FATAL] the gizmo is off",
        "gizmo - ERROR - it is off",
        'time=2 level=fatal msg="the gizmo is off"',
        "tool terminated by signal 9",
        "exit status 3",
        "tool exited with code 7",
        "Test gizmo FAILED",
        "Error, please report the gizmo",
        "`./gizmo.bin: Syntax error when reading it.`",
    ],
)
@pytest.mark.parametrize("steps", [30, 1000])
def test_a_failure_is_never_called_green(line: str, steps: int) -> None:
    padding = "".join(f"step {number} of the pipeline\n" for number in range(steps))
    log = classified(f"{padding}{line}\n{padding}")
    assert log.status is not LogStatus.NO_FAILURES
    if not log.failures:
        assert log.likeliest[0].line == steps + 1
        assert len(log.likeliest) <= 3


@pytest.mark.parametrize(
    "line",
    [
        "INTERNAL: the gizmo is off",
        "196/196 [===] loss: 0.58Error: the gizmo is off",
        "This indicates a bug in the gizmo",
        "npm ERR! gizmo",
        "Traceback (most recent call last):",
        "compilation terminated.",
        "2 errors generated.",
        "1 failed, 3 passed in 2.1s",
        "3 passed in 1.9s\n1 failed in 2.1s",
        "` Failed to turn the gizmo: off`",
        "/opt/gizmo: unknown part name 'wheel'",
        "-- Configuring incomplete, errors occurred!",
        "returncode=-11",
        "exit 1",
        "Timed out after 600 s",
        "Permission denied",
    ],
)
def test_a_log_that_ends_with_a_failure_is_never_called_green(line: str) -> None:
    for steps in (0, 30, 1000):
        padding = "".join(f"step {number} of the pipeline\n" for number in range(steps))
        assert classified(f"{padding}{line}\n").status is not LogStatus.NO_FAILURES


def test_a_failure_in_the_end_of_a_large_log_is_not_missed() -> None:
    lines = "".join(f"compiled unit {number}\n" for number in range(40_000))
    log = classified(f"{lines}x.cc: the frobnicator could not turn\nstopping now\n")
    assert log.status is LogStatus.NO_FAILURES  # the word is not where a message begins
    log = classified(f"{lines}x.cc: could not turn the frobnicator\n")
    assert log.status is LogStatus.UNRECOGNISED


@pytest.mark.parametrize(
    "text",
    [
        "12 passed, 0 failed\n",
        "test_wrong_flag XFAIL (LLVM ERROR: Cannot select) [ 55%]\n",
        "2026-01-02 03:04:05.6: E xla/cuda_fft.cc:485] Unable to register cuFFT factory\n",
        "a1f3c90 Fix crash: failed to legalize operation 'a.b'\n",
        "// CHECK: error: failed to legalize operation 'a.b'\n",
        "download failed: timed out, retrying in 5 s\nSuccessfully installed a-1.0\n",
        "Compilation failures                  0\n",
    ],
)
def test_words_of_failures_in_a_green_log_raise_no_alarm(text: str) -> None:
    assert classified(text).status is LogStatus.NO_FAILURES
    padded = "".join(f"step {number}\n" for number in range(20))
    assert classified(padded + text).status is LogStatus.NO_FAILURES


def test_a_quotation_and_the_prefixes_of_other_programs_do_not_matter() -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/home/a/train.py", line 5, in <module>',
        "    run()",
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
        "AssertionError: Device mps not supported",
    )
    plain = classified("\n".join(lines)).failures[0].signature
    for prefix in (
        "> ",
        "(EngineCore_DP0 pid=221) ERROR 09-12 10:11:12 [core.py:396] ",
        "trainer-1  | ",
        "2026-02-02T10:11:12.123456789Z stderr F ",
        "Mar  1 10:11:12 node7 train[412]: ",
        "> > [rank0]: ",
    ):
        text = "\n".join(prefix + line for line in lines)
        assert classified(text).failures[0].signature == plain, prefix


@pytest.mark.parametrize(
    ("begin", "passed", "failed"),
    [
        (
            "[ RUN      ] Op.Verifies",
            "[       OK ] Op.Verifies",
            "[  FAILED  ] Op.Verifies",
        ),
        (
            "=== RUN   TestLower",
            "--- PASS: TestLower (0.00s)",
            "--- FAIL: TestLower (0.00s)",
        ),
    ],
)
def test_what_a_passed_test_printed_is_no_failure(
    begin: str, passed: str, failed: str
) -> None:
    error = "error: 'test.op' op requires attribute 'x'"
    assert classified(f"{begin}\n{error}\n{passed} (1 ms)\n").status == "no failures"
    for text in (
        f"{begin}\n{error}\n{failed} (1 ms)\n",
        f"{begin}\n{error}\n",
        f"{begin}\n{passed}\n{error}\n",
    ):
        names = [failure.failure_class for failure in classified(text).failures]
        assert "verifier" in names
