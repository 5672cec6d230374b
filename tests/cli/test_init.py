"""`triage init`: from a checkout, and from a built wheel in a fresh environment."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage


@pytest.mark.real
def test_each_printed_command_works_as_typed(shared_home: Path, triage: Triage) -> None:
    written = triage("init", "my recipes")
    lines = [shlex.split(line) for line in written.stdout.splitlines() if "triage " in line]
    assert len(lines) == 4
    printed = [triage(*words[1:]) for words in lines]
    assert [done.returncode for done in printed] == [1, 0, 0, 0], printed
    why, run, bisect, new = (done.stdout for done in printed)
    assert "undeclared-device" in why
    assert "5 passed, 1 xfail" in run
    assert "introduced by IREE 3.1.0" in bisect
    assert new == "mine.yaml\n"


def test_the_written_folder_validates_and_is_never_overwritten(home: Path, triage: Triage, tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    done = triage("init", folder, "--all", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["recipes"] == sorted(path.name for path in (ROOT / "recipes").glob("*.yaml"))
    checked = json.loads(triage("recipe", "validate", folder, "--format", "json").stdout)
    assert checked["problems"] == []
    assert not list(folder.rglob("__pycache__"))
    (folder / "cuda-matmul-f32.yaml").write_text("mine")
    again = triage("init", folder)
    assert (again.returncode, again.stdout) == (2, "")
    assert (folder / "cuda-matmul-f32.yaml").read_text() == "mine"


@pytest.mark.slow
def test_an_installed_wheel_brings_the_examples(home: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "uv", "build", "--wheel", "--out-dir", tmp_path, ROOT], check=True, capture_output=True
    )
    [wheel] = tmp_path.glob("*.whl")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "uv", "venv", environment, "--python", sys.executable], check=True)
    install = [sys.executable, "-m", "uv", "pip", "install", "--python", environment / "bin" / "python", wheel]
    subprocess.run(install, check=True)
    program = environment / "bin" / "triage"
    for words in (["init", "recipes"], ["init", "--all", "every"], ["recipe", "validate", "recipes", "every"]):
        done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
