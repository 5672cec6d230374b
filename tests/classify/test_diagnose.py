"""Diagnose runs: a failed run always has a failure, a successful one never has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.classify.samples import ASSERTION, TRANSLATION
from triage.classify import Diagnosis, diagnose, packaged_rules
from triage.model.execution import NO_PASS, Captured, Ending, Execution, PassName


def ran(
    stderr: str = "",
    *,
    exit_code: int | None = 1,
    ending: Ending = Ending.EXITED,
    signal: int | None = None,
    stdout: str = "",
) -> Execution:
    return Execution(
        argv=("iree-compile",),
        ending=ending,
        exit_code=exit_code if ending is Ending.EXITED else None,
        signal=signal,
        seconds=61.5,
        cpu_seconds=60.0,
        peak_rss_mb=4096.0,
        stdout=Captured(stdout),
        stderr=Captured(stderr),
    )


def diagnosed(execution: Execution, failing_pass: PassName | None = None) -> Diagnosis:
    return diagnose(execution, packaged_rules(), failing_pass)


def test_a_successful_run_has_only_warnings() -> None:
    assert diagnosed(ran(exit_code=0)) == diagnosed(ran("all fine\n", exit_code=0))
    warned = diagnosed(
        ran("d.mlir:2:7: error: 'flow.tensor.transfer' op references a promised device that was not declared: "
            "#hal.device.promise<@__device_7>\n", exit_code=0)
    )  # fmt: skip
    assert warned.failures == ()
    assert [failure.signature for failure in warned.warnings] == [
        "undeclared-device:__device_7"
    ]
    remarked = diagnosed(ran("m.mlir:1:1: remark: clone to consumers pass failed to reach a fixed point after 32 iterations; "
                            "ambiguous affinity may be present\n", exit_code=0))  # fmt: skip
    assert [failure.failure_class for failure in remarked.warnings] == [
        "clone-to-consumers-non-convergence"
    ]


@pytest.mark.parametrize(
    "stderr, name, expected",
    [
        ("", "MaterializeHomogeneousEncodingsPass", "affinity-non-convergence"),
        (TRANSLATION, "FoldMemRefAliasOpsPass", "fold-memref-alias"),
        ("", "SomePass", "silent-failure"),
        (TRANSLATION, "SomePass", "translation-failed"),
        ("m.mlir:1:1: error: too purple\n", "SomePass", "unknown"),
    ],
)
def test_the_failing_pass_identifies_an_unexplained_failure(
    stderr: str, name: str, expected: str
) -> None:
    first = diagnosed(ran(stderr))
    assert first.needs_pass
    assert first.failures
    second = diagnosed(ran(stderr), PassName(name))
    assert not second.needs_pass
    assert second.failures[0].failure_class == expected
    assert second.failures[0].failing_pass == name


@pytest.mark.parametrize(
    "execution, expected",
    [
        (ran(ending=Ending.TIMED_OUT), "timeout"),
        (ran(ending=Ending.OVER_MEMORY), "out-of-memory"),
        (ran(ending=Ending.OVER_OUTPUT), "runaway-output"),
        (ran(ending=Ending.SIGNALLED, signal=11), "segfault:SIGSEGV"),
        (ran(ending=Ending.SIGNALLED, signal=9), "out-of-memory"),
        (ran(exit_code=134), "abort:SIGABRT"),
        (
            ran(ASSERTION, ending=Ending.SIGNALLED, signal=6),
            'assertion:detail::isPresent(Val) && "dyn_cast on a non-existent value" X',
        ),
        (ran(TRANSLATION, ending=Ending.SIGNALLED, signal=8), "segfault:SIGFPE"),
        (ran(stdout="RuntimeError: PassManager::run failed\n"), "pass-failed"),
    ],
)
def test_how_a_process_ended(execution: Execution, expected: str) -> None:
    diagnosis = diagnosed(execution)
    assert (
        diagnosis.failures[0].signature == expected
        or diagnosis.failures[0].failure_class == expected
    )
    assert diagnosis.warnings == ()


@given(
    text=st.text(max_size=200),
    ending=st.sampled_from(Ending),
    code=st.integers(0, 255),
    number=st.integers(1, 31),
)
def test_a_failed_run_always_has_a_failure(
    text: str, ending: Ending, code: int, number: int
) -> None:
    execution = ran(
        text,
        ending=ending,
        exit_code=code,
        signal=number if ending is Ending.SIGNALLED else None,
    )
    diagnosis = diagnosed(execution)
    assert bool(diagnosis.failures) is not execution.ok
    for failure in diagnosis.failures:
        assert (
            failure.signature == failure.failure_class
            or failure.signature.startswith(f"{failure.failure_class}:")
        )


PROTOC = "tmp/m/edition.proto: This file uses editions, but --experimental_editions has not been enabled.\n"


@pytest.mark.parametrize(
    ("output", "failure_class", "headline"),
    [
        (PROTOC, "unknown", PROTOC.strip()),
        (
            "Reading m.x\nm.x:3:7: y is undefined\n",
            "unknown",
            "m.x:3:7: y is undefined",
        ),
        (
            "ImportError: libz.so.1 is not there\n",
            "import-error",
            "ImportError: libz.so.1 is not there",
        ),
    ],
)
@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_the_fallback_takes_the_most_informative_line(
    output: str, failure_class: str, headline: str, stream: str
) -> None:
    (failure,) = diagnosed(ran(**{stream: output})).failures
    assert (failure.failure_class, failure.headline) == (failure_class, headline)


@pytest.mark.parametrize(
    "output",
    [
        "m.mlir:1:1: warning: this may be slow\nfunc.func @not_an_error() {\n^\n",
        '%0 = "missing"() : () -> i32\n',
    ],
)
def test_remarks_and_printed_ir_are_not_messages(output: str) -> None:
    (failure,) = diagnosed(ran(output)).failures
    assert (failure.failure_class, failure.headline) == (
        "silent-failure",
        "failed without a message",
    )


def test_a_traceback_on_stdout_says_more_than_a_banner_on_stderr() -> None:
    banner = "t.py:5: error: INTERNAL ERROR -- Please try using the main branch:\nversion: 0.990\n"
    trace = (
        "Traceback (most recent call last):\n"
        '  File "checker/semanal.py", line 6310, in accept\n'
        '  File "checker/typeops.py", line 200, in is_singleton\n'
        "AssertionError: must not be unpacked\n"
    )
    run = Execution(
        ("checker",),
        Ending.EXITED,
        2,
        None,
        0.1,
        0.1,
        1.0,
        Captured(trace),
        Captured(banner),
    )
    [failure] = diagnose(run, packaged_rules()).failures
    assert (
        failure.signature
        == "python-exception:AssertionError must not be unpacked typeops.is_singleton"
    )


MADE = "m.mlir:5:10: error: expected type of operand #0 to be a pointer\n"


@pytest.mark.parametrize(
    ("failing_pass", "expected", "asks"),
    [
        (None, "parse-error", True),
        (NO_PASS, "parse-error", False),
        (PassName("SomePass"), "verifier", False),
    ],
)
def test_a_message_about_what_a_pass_made_is_not_an_input_error(
    failing_pass: PassName | None, expected: str, asks: bool
) -> None:
    diagnosis = diagnosed(ran(MADE), failing_pass)
    assert (diagnosis.failures[0].failure_class, diagnosis.needs_pass) == (
        expected,
        asks,
    )
