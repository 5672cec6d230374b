"""Programs, command lines and folders in the place of a recipe."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Asked, Triage
from tests.fake_releases import install

UV = Path(sys.executable).with_name("uv")
PROGRAM = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"


@pytest.fixture
def built(tmp_path: Path, home: Path) -> tuple[str, str]:
    """A compiler that fails for programs with `breaks-3`."""
    return "-t", f"path:{install(tmp_path / 'built', 5)}"


def test_a_command_line_is_compiled(
    workplace: Path, built: tuple[str, str], triage_process: Triage
) -> None:
    (workplace / "model.mlir").write_text("// breaks-3\n")
    line = "iree-compile model.mlir --iree-hal-target-backends=llvm-cpu -o out.vmfb"
    done = triage_process("run", *built, "--", *line.split())
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("case")
    assert "model  failed  shared-memory-overflow" in done.stdout


@pytest.mark.usefixtures("home")
def test_the_written_folder_validates_and_is_never_overwritten(
    asked: Asked, triage: Triage, tmp_path: Path
) -> None:
    folder = tmp_path / "recipes"
    asked("init", folder)
    names = {path.name for path in (ROOT / "recipes").glob("*.yaml")}
    assert {path.name for path in folder.glob("*.yaml")} == names
    assert asked("recipe", "validate", folder)["problems"] == []
    assert not list(folder.rglob("__pycache__"))
    (folder / "cuda-matmul-f32.yaml").write_text("mine")
    again = triage("init", folder)
    assert (again.returncode, again.stdout) == (2, "")
    assert (folder / "cuda-matmul-f32.yaml").read_text() == "mine"


@pytest.mark.slow
def test_an_installed_wheel_brings_the_examples(home: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    python = environment / "bin" / "python"

    def run(*words: object) -> None:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    run(UV, "build", "--wheel", "--out-dir", tmp_path, ROOT)
    run(UV, "venv", environment, "--python", sys.executable)
    run(UV, "pip", "install", "--python", python, *tmp_path.glob("*.whl"))
    run(environment / "bin" / "triage", "init", "recipes")
    run(environment / "bin" / "triage", "recipe", "validate", "recipes")


def test_requests_that_differ_have_recipes_of_their_own(
    triage: Triage, workplace: Path, built: tuple[str, str]
) -> None:
    (workplace / "add.mlir").write_text(PROGRAM)
    text = f"```mlir\n{PROGRAM}```\n"
    written = set()
    for line, stdin in (
        ("add.mlir", ""),
        ("add.mlir --backend rocm --chip gfx942", ""),
        ("add.mlir --backend rocm --chip gfx1100", ""),
        ("-", text),
        ("-", text.replace("4xf32", "8xf32")),
    ):
        done = triage("run", *line.split(), *built, input=stdin)
        written |= set(re.findall("^recipe: (.+)", done.stderr, re.MULTILINE))
    assert len(written) == 5
