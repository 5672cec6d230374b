"""In which form a Python program of a `command:` compiler is reduced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.fake_releases import command_recipe, install
from tests.programs import write_program

MORE = "\n".join(f"x{number} = {number}" for number in range(12))
FAILS = "fail('breaks-3')"


@pytest.mark.parametrize(
    "program",
    [
        f"class A:\n    def f(self):\n        return __class__, {FAILS}\n",
        f"{FAILS}\n__annotations__\nnot_bound\n",
    ],
)
def test_a_program_that_python_compiles_is_reduced_by_statements(
    triage: Triage, home: Path, tmp_path: Path, program: str
) -> None:
    answer = reduced(triage, tmp_path, f"{MORE}\n{program}{MORE}\n")
    assert answer["unit"] == "statement"
    assert answer["operations"]["after"] <= 3


@pytest.mark.parametrize("program", [f"def f(:\n{FAILS}\n", f"# {FAILS}\nx = 1\n"])
def test_another_program_is_reduced_by_lines(
    triage: Triage, home: Path, tmp_path: Path, program: str
) -> None:
    assert reduced(triage, tmp_path, program)["unit"] == "line"


def reduced(triage: Triage, folder: Path, program: str) -> Any:
    path = command_recipe(folder, "case", "")
    (folder / "case.py").write_text(program)
    path.write_text(path.read_text().replace("case.txt", "case.py"))
    built = install(folder / "built", 5)
    words = ("-t", f"path:{built}", "--out", folder / "out", "--format", "json")
    done = triage("reduce", path, *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_program_that_needs_another_file_is_refused_for_it(
    triage: Triage, home: Path, tmp_path: Path
) -> None:
    text = 'cat "$(dirname "$1")/words.txt" || exit 0; echo "error: bad" >&2; exit 1'
    write_program(tmp_path / "tc" / "run.sh", f"#!/bin/sh\n{text}\n")
    (tmp_path / "words.txt").write_text("words\n")
    (tmp_path / "case.txt").write_text("include words.txt\n")
    (tmp_path / "case.yaml").write_text(
        "name: case\ncompiler: command\ninput: case.txt\n"
        'command: ["{toolchain}/run.sh", "{input}"]\n'
    )
    done = triage("reduce", tmp_path / "case.yaml", "-t", f"path:{tmp_path / 'tc'}")
    assert done.returncode != 0
    assert "it needs words.txt; only programs of one file are reduced" in done.stdout
