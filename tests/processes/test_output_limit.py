"""What a run writes is limited, and a full disk is recognised by its free space."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from triage.classify import packaged_rules
from triage.execution.judge import judge
from triage.model.execution import Ending, Execution, Limits
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.processes.process import run

MIB = 1 << 20


def shell(
    code: str, folder: Path, output: int = 8 * MIB, **options: object
) -> Execution:
    return run(
        ["sh", "-c", code],
        Limits(timeout=60, output=output),
        folder,
        **options,
        seal=None,
    )


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


def test_too_much_output_is_a_failure_of_its_own(tmp_path: Path) -> None:
    outcome = judge(
        shell("echo 'error: x' >&2; dd if=/dev/zero of=out bs=1M count=64", tmp_path),
        packaged_rules(),
    )
    assert isinstance(outcome, Failed)
    assert outcome.failure.failure_class == "runaway-output"


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
    outcome = judge(shell(code, small_disk, output=1 << 30), packaged_rules())
    assert isinstance(outcome, NoAnswer)
    assert outcome.cause is Cause.ENVIRONMENT


def ended(
    stderr: str, code: int = 1, argv: str = "/opt/bin/iree-compile", *, folder: Path
) -> Execution:
    script = f"printf '%s\\n' \"$MESSAGE\" >&2; exit {code}"
    execution = run(
        ["sh", "-c", script],
        Limits(timeout=60),
        folder,
        env={"MESSAGE": stderr},
        seal=None,
    )
    return Execution(
        **{
            **{name: getattr(execution, name) for name in execution.__slots__},
            "argv": (argv,),
        }
    )


@pytest.mark.parametrize(
    ("stderr", "code"),
    [
        ("m.mlir:1:1: error: No space left on device memory @gpu0", 1),
        ("error while loading shared libraries: plugin.so: not registered", 1),
        ("m.mlir:1:1: error: error while loading shared libraries: x: y", 127),
        (
            "iree-compile: error while loading shared libraries: x.so: the plugin has no entry",
            1,
        ),
    ],
)
def test_words_alone_do_not_make_a_failure_untestable(
    tmp_path: Path, stderr: str, code: int
) -> None:
    assert os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize > 1 << 30
    outcome = judge(ended(stderr, code, folder=tmp_path), packaged_rules())
    assert isinstance(outcome, Failed)
    assert outcome.failure.failure_class not in ("disk-full", "not-started")


@pytest.mark.parametrize(
    ("stderr", "code"),
    [
        (
            "/opt/bin/iree-compile: error while loading shared libraries: libx.so: cannot open shared object file",
            127,
        ),
        (
            "iree-compile: /lib/libc.so.6: version `GLIBC_2.99' not found (required by iree-compile)",
            1,
        ),
        (
            "/bin/sh: error while loading shared libraries: libx.so: cannot open shared object file",
            127,
        ),
    ],
)
def test_a_compiler_that_cannot_be_loaded_is_untestable(
    tmp_path: Path, stderr: str, code: int
) -> None:
    outcome = judge(ended(stderr, code, folder=tmp_path), packaged_rules())
    assert isinstance(outcome, NoAnswer)
    assert outcome.cause is Cause.TOOLCHAIN
