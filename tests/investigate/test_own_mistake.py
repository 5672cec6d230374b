"""A program that no release can compile is told from one that a release breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.investigate.own_mistake import own_mistake
from triage.model.case import Case, Input, InputKind, Target
from triage.model.outcome import Failed, Failure

KERNEL = "import tl\n\ndef kernel(n):\n    return n * {}\n"
VALUE = "func.func @f() {\n  return %a, %b : i1, i1\n}\n"
UNDECLARED = "use of undeclared SSA value name"


@pytest.mark.parametrize(
    ("program", "headline", "mistake"),
    [
        (KERNEL.format("blokc"), "NameError('blokc is not defined')", "blokc"),
        (KERNEL.format("n"), "NameError: name 'blokc' is not defined", None),
        (KERNEL.format("n"), "No module named 'numpy'", None),
        (KERNEL.format("n"), "No module named 'tl.math'", None),
        (KERNEL.format("n"), "PassManager::run failed", None),
        (KERNEL.format("n"), "cannot import name 'a' from 'other'", None),
        ("(" * 300 + ")" * 300, "NameError: name 'n' is not defined", None),
        ("from tl import *\nblokc()\n", "name 'blokc' is not defined", None),
    ],
)
def test_python(
    program: str, headline: str, mistake: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(program)
    said = f"{file}:4: {mistake!r} is not defined" if mistake else None
    assert own_mistake(case_of(file), failed(headline)) == said


def test_syntax_that_the_release_refuses_too(tmp_path: Path) -> None:
    """Another Python may know the syntax of the program."""
    file = tmp_path / "script.py"
    file.write_text("total = 1 +\n")
    said = own_mistake(case_of(file), failed("invalid syntax (script.py, line 1)"))
    assert said == f"{file}:1: invalid syntax"
    assert own_mistake(case_of(file), failed("wrong numbers")) is None


def test_a_value_of_mlir(tmp_path: Path) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(VALUE)
    outcome = failed(UNDECLARED, f"{file}:2:14")
    assert own_mistake(case_of(file), outcome) == f"{file}:2: %b is not defined"
    for position in (None, f"{file}:9:1", f"{file}:2:99"):
        assert own_mistake(case_of(file), failed(UNDECLARED, position)) is None


def case_of(file: Path) -> Case:
    program = Input(file, InputKind.OTHER)
    return Case("case", "case", "", "triton", file, program, Target("cuda"))


def failed(headline: str, location: str | None = None) -> Failed:
    return Failed(Failure("x", "x", "x", headline, location=location))
