"""What a run writes is limited, and a full disk is recognised by its free space."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from triage.execution.judge import compiler_rules, judge
from triage.model.execution import Captured, Ending, Execution, Limits
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.processes.process import run

MIB = 1 << 20


def shell(code: str, folder: Path, output: int = 8 * MIB) -> Execution:
    limits = Limits(timeout=60, output=output)
    return run(["sh", "-c", code], limits, folder, seal=None)


@pytest.mark.parametrize(
    "code",
    [
        "exec cat /dev/zero > out",
        "for n in 1 2 3 4; do head -c 3M /dev/zero > $n; done; sleep 300",
        "mkdir $TMPDIR/deep; for n in 1 2 3 4; do head -c 3M /dev/zero > $TMPDIR/deep/$n; done",
    ],
)
def test_one_file_many_files_and_temporary_files_are_over_the_limit(
    tmp_path: Path, code: str
) -> None:
    assert shell(code, tmp_path).ending is Ending.OVER_OUTPUT


def test_less_than_the_limit_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(bytes(32 * MIB))
    assert shell("head -c 6M /dev/zero > out", tmp_path).ok


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder],
        check=False,
        capture_output=True,
    ).returncode:
        pytest.skip("only root may mount a file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize(
    "code",
    [
        "head -c 64M /dev/zero > out",
        "head -c 64M /dev/zero > out 2>/dev/null; echo 'error: cannot write' >&2; exit 1",
        "fallocate -l 64M out; rm -f out; exit 1",
    ],
)
def test_a_full_disk_is_no_failure_of_the_compiler(small_disk: Path, code: str) -> None:
    outcome = judge(shell(code, small_disk, output=1 << 30), compiler_rules())
    assert isinstance(outcome, NoAnswer)
    assert outcome.cause is Cause.ENVIRONMENT


LOADING = "error while loading shared libraries:"
OLD_SYSTEM = "/lib/libc.so.6: version `GLIBC_2.99' not found"
NO_LIBRARY = f"{LOADING} libx.so: cannot open shared object file"


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
    said = Captured(f"{stderr}\n")
    argv = ("/opt/bin/iree-compile",)
    ended = Execution(argv, Ending.EXITED, code, stderr=said, disk_free=1 << 40)
    outcome = judge(ended, compiler_rules())
    if is_loaded:
        assert isinstance(outcome, Failed)
        assert outcome.failure.failure_class not in ("disk-full", "not-started")
    else:
        assert isinstance(outcome, NoAnswer)
        assert outcome.cause is Cause.TOOLCHAIN
