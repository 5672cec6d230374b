"""A recipe of the family `command` with a compiler of a few lines, and what a run of it
answers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.programs import write_program
from triage.compilers.registry import load_cases
from triage.execution.engine import open_engine

RECIPE = """name: mine
compiler: command
command: ["{toolchain}/bin/cc", "{input}", "{output}", "ARGUMENT"]
input: program.txt
"""


@dataclass
class Workshop:
    """`program.txt` is the input, `built` has the compiler."""

    folder: Path
    triage: Triage

    @property
    def built(self) -> Path:
        return self.folder / "built"

    @property
    def recipe(self) -> Path:
        return self.folder / "mine.yaml"

    def write_compiler(self, script: str) -> None:
        """Write a shell script; its arguments are the input and the output."""
        write_program(self.built / "bin" / "cc", f"#!/bin/sh\n{script}\n")

    def write_recipe(self, more: str = "", argument: str = "") -> None:
        text = RECIPE.replace("ARGUMENT", argument)
        self.recipe.write_text(f"{text}{more}\n")

    def run(self, toolchain: Path | None = None, *words: str) -> dict[str, Any]:
        """Run the recipe, and return its result."""
        rev = f"path:{toolchain or self.built}"
        done = self.triage("run", self.recipe, "-t", rev, "--format", "json", *words)
        [result] = json.loads(done.stdout)["results"]
        assert isinstance(result, dict)
        return result


@pytest.fixture
def workshop(tmp_path: Path, home: Path, triage: Triage) -> Workshop:
    """One with an empty home."""
    workshop = Workshop(tmp_path, triage)
    (tmp_path / "program.txt").write_text("a program with weights.bin\n")
    workshop.write_recipe()
    return workshop


def generated_input(recipe: Path) -> Path:
    """Return the program that a generator makes for a recipe. No toolchain is needed.
    Raises NoTask if there is none.
    """
    no_toolchain: Any = None
    [case] = load_cases([recipe])
    with open_engine([case]) as engine:
        return engine.inputs.prepare(case, no_toolchain).path
