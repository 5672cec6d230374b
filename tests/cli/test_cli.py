"""The program as users call it: exit codes, streams, messages. The compiler is the
installed one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Asked, Triage

GOOD = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""

UNKNOWN_DEVICE = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = flow.tensor.transfer %a : tensor<4xf32> to #hal.device.promise<@missing>
  %1 = arith.addf %0, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
TRIAGE = [sys.executable, "-c", "from triage.cli import main; main()"]


def recipe(folder: Path, name: str, text: str, more: str = "") -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / f"{name}.mlir").write_text(text)
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\ninput: {name}.mlir\ntarget: {{backend: llvm-cpu}}\n{more}"
    )
    return path


@pytest.mark.parametrize(
    ("line", "place"),
    [("run {file}", "/proc/triage"), ("reduce {file} -t installed", "{file}")],
)
def test_an_unusable_home_is_an_environment_failure(
    triage: Triage, tmp_path: Path, place: str, line: str
) -> None:
    path = recipe(tmp_path, "good", GOOD)
    env = {**os.environ, "TRIAGE_HOME": place.format(file=path)}
    done = triage(*line.format(file=path).split(), env=env)
    assert done.returncode == 4
    assert "TRIAGE_HOME" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("mount", "message"), [("size=8m,ro", "read-only"), ("size=1m", "full")]
)
def test_a_read_only_or_full_disk(
    triage: Triage, tmp_path: Path, mount: str, message: str
) -> None:
    path = recipe(tmp_path, "good", GOOD)
    small = tmp_path / "small"
    small.mkdir()
    fill = "dd if=/dev/zero of=$0/fill bs=1k 2>/dev/null;" if message == "full" else ""
    script = f'mount -t tmpfs -o {mount} tmpfs "$0" && {fill} TRIAGE_HOME="$0/home" exec "$@"'
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, small]
    done = subprocess.run(
        [*words, *TRIAGE, "run", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('no such shape')", "exit status 1: no such shape"),
        ("pass", "printed nothing"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
    ],
)
def test_a_generator_that_fails_is_bad_input(
    home: Path, asked: Asked, tmp_path: Path, code: str, message: str
) -> None:
    (tmp_path / "gen.py").write_text(code)
    path = tmp_path / "gen.yaml"
    path.write_text(
        "name: gen\ninput: gen.py\ntarget: {backend: llvm-cpu}\nlimits: {timeout: 1s, memory: 200MiB}\n"
    )
    [result] = asked("run", path, code=2)["results"]
    assert result["status"] == "untestable"
    assert message in result["reason"]


def test_a_closed_pipe_is_not_an_error(triage_process: Triage) -> None:
    read, write = os.pipe()
    os.close(read)
    done = triage_process(
        "recipe", "schema", capture_output=False, stdout=write, stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stderr) == (0, "")
