"""Programs, command lines and pasted texts in the place of a recipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.fake_releases import install


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "model.mlir"
    path.write_text("// breaks-3\n")
    return path


@pytest.fixture
def built(tmp_path: Path) -> str:
    return f"path:{install(tmp_path / 'built', 5)}"


def case_of(triage: Triage, *words: object, **options: object) -> str:
    done = triage("run", "--format", "json", *words, **options)
    assert done.returncode == 1, done.stderr
    [result] = json.loads(done.stdout)["results"]
    assert result["failure"]["class"] == "shared-memory-overflow"
    return str(result["case"])


def test_a_program_is_compiled_without_a_recipe(triage: Triage, home: Path, program: Path, built: str) -> None:
    assert case_of(triage, program, "-t", built) == "model"
    assert case_of(triage, program, "-t", built, "--backend", "rocm", "--chip", "gfx942") == "model"
    assert not list(program.parent.glob("*.yaml"))


def test_the_recipe_of_a_program_can_be_kept(triage: Triage, home: Path, program: Path, built: str) -> None:
    kept = program.parent / "kept.yaml"
    assert case_of(triage, program, "-t", built, "--backend", "rocm", "--chip", "gfx942", "--save", kept) == "kept"
    assert "chip: gfx942" in kept.read_text()
    assert case_of(triage, kept, "-t", built) == "kept"
    assert triage("run", program, "-t", built, "--save", kept).returncode == 2  # never over a file


def test_a_pasted_issue_is_compiled(triage: Triage, home: Path, tmp_path: Path, built: str) -> None:
    program = "```mlir\nfunc.func @breaks() { // breaks-3\n  return\n}\n```\n"
    text = f"{program}\n```\niree-compile a.mlir --iree-hal-target-backends=llvm-cpu\n```\n"
    (tmp_path / "issue.md").write_text(text)
    assert case_of(triage, tmp_path / "issue.md", "-t", built) == "issue"
    assert case_of(triage, "-", "-t", built, input=text) == "stdin"


@pytest.mark.usefixtures("home")
def test_a_command_line_is_compiled(program: Path, built: str, triage_process: Triage) -> None:
    line = ("iree-compile", program, "--iree-hal-target-backends=llvm-cpu", "-o", "out.vmfb")
    assert case_of(triage_process, "-t", built, "--", *line) == "model"


def test_options_of_programs_are_refused_for_recipes(triage: Triage, tmp_path: Path) -> None:
    for words in (("a.yaml", "--backend", "rocm"), ("a.mlir", "b.mlir", "--save", "c.yaml"), ("missing.mlir",)):
        done = triage("run", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
