"""What the output and the end of a compile or a run say about the compiler."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from triage.classify import diagnose, packaged_rules
from triage.compilers.invocation import reported_facts
from triage.compilers.registry import family_named
from triage.execution.judge import compiler_rules, judge, judge_run
from triage.model.execution import Captured, Ending, Execution, Limits, Stage
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.processes.process import run

LOADING = "error while loading shared libraries:"
OLD_SYSTEM = "/lib/libc.so.6: version `GLIBC_2.99' not found"
NO_LIBRARY = f"{LOADING} libx.so: cannot open shared object file"
STATUS = 'Traceback (most recent call last):\n  File "/w/compile.py", line 9, in <module>\n    compile(program)\n{}: {}: too many tiles: 18'


def ended(stdout: str = "", stderr: str = "", code: int = 1) -> Execution:
    printed = {"stdout": Captured(stdout), "stderr": Captured(stderr)}
    argv = ("/opt/bin/iree-compile",)
    return Execution(argv, Ending.EXITED, code, **printed, disk_free=1 << 40)


@pytest.mark.parametrize("status", ["INTERNAL", "INVALID_ARGUMENT"])
@pytest.mark.parametrize(
    "exception",
    ["jaxlib.xla_extension.XlaRuntimeError", "jax.errors.JaxRuntimeError"],
)
def test_a_status_that_no_rule_explains_is_a_failure_of_the_compile(
    exception: str, status: str
) -> None:
    execution = ended(stderr=STATUS.format(exception, status))
    outcome = judge(execution, compiler_rules())
    assert isinstance(outcome, Failed)
    signature = f"compiler-status:{status} too many tiles: #"
    assert outcome.failure.signature == signature


@pytest.mark.parametrize(
    ("line", "signature"),
    [
        (
            "element at index 7 (0.25) does not match the expected (1)",
            "wrong-result:1",
        ),
        (
            "metadata is 3x4xf32; expected that the view matches f32 that cannot be read",
            "wrong-result:1 metadata",
        ),
    ],
)
def test_a_run_reports_a_wrong_result(line: str, signature: str) -> None:
    runner = family_named("xla").run
    assert runner
    execution = ended(f"[FAILED] result[1]: {line}")
    outcome = judge_run(execution, compiler_rules(), runner)
    assert isinstance(outcome, Failed)
    assert outcome.failure.stage is Stage.COMPARE
    assert outcome.failure.signature == signature
    assert outcome.failure.line is None


@pytest.mark.parametrize(
    ("stderr", "code", "is_loaded"),
    [
        ("m.mlir:1:1: error: No space left on device memory @gpu0", 1, True),
        (f"{LOADING} plugin.so: not registered", 1, True),
        (f"m.mlir:1:1: error: {LOADING} x: y", 127, True),
        (f"iree-compile: {LOADING} x.so: the plugin has no entry", 1, True),
        (f"/opt/bin/iree-compile: {NO_LIBRARY}", 127, False),
        (f"iree-compile: {OLD_SYSTEM} (required by iree-compile)", 1, False),
        (f"/bin/sh: {NO_LIBRARY}", 127, False),
    ],
)
def test_words_alone_do_not_make_a_failure_untestable(
    stderr: str, code: int, is_loaded: bool
) -> None:
    outcome = judge(ended(stderr=f"{stderr}\n", code=code), compiler_rules())
    if is_loaded:
        assert isinstance(outcome, Failed)
        assert outcome.failure.failure_class not in ("disk-full", "not-started")
    else:
        assert isinstance(outcome, NoAnswer)
        assert outcome.cause is Cause.TOOLCHAIN


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root may mount a file system")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize(
    "code",
    [
        "head -c 64M /dev/zero > out",
        "head -c 64M /dev/zero > out 2>/dev/null; echo 'error: cannot write' >&2; exit 1",
        "fallocate -l 64M out; rm -f out; exit 1",
    ],
)
def test_a_full_disk_is_no_failure_of_the_compiler(small_disk: Path, code: str) -> None:
    limits = Limits(timeout=60, output=1 << 30)
    execution = run(["sh", "-c", code], limits, small_disk, seal=None)
    outcome = judge(execution, compiler_rules())
    assert isinstance(outcome, NoAnswer)
    assert outcome.cause is Cause.ENVIRONMENT


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


@pytest.mark.parametrize("text", OUTPUTS, ids=range(len(OUTPUTS)))
def test_no_output_raises(text: str) -> None:
    assert diagnose(ended(stderr=text), packaged_rules()).failures
    assert diagnose(ended(stdout=text), packaged_rules()).failures


@pytest.mark.parametrize(
    "report",
    [
        "[" * 200_000,
        f'{{"metrics": {{"a": {DIGITS}}}}}',
        f'{{"metrics": {{"a": 1e999, "b": NaN, "c": -Infinity, "d": 1{"0" * 400}, "e": true}}}}',
        '{"metrics": [1]}',
        '{"stage": {}}',
        "3",
        '{"metrics": {"a": 1, "a": 1e999}}',
    ],
)
def test_a_report_of_another_shape_is_ignored(report: str) -> None:
    assert reported_facts(ended(f"triage: {report}\n")) == (None, {})
