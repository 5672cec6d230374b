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
    expected = f"{file}:4: {mistake!r} is not defined" if mistake else None
    assert said(file, program, headline) == expected


def test_syntax_that_the_release_refuses_too(tmp_path: Path) -> None:
    """Another Python may know the syntax of the program."""
    file = tmp_path / "script.py"
    text, headline = "total = 1 +\n", "invalid syntax (script.py, line 1)"
    assert said(file, text, headline) == f"{file}:1: invalid syntax"
    assert said(file, text, "wrong numbers") is None


def test_a_value_of_mlir(tmp_path: Path) -> None:
    file = tmp_path / "f.mlir"
    known = said(file, VALUE, UNDECLARED, f"{file}:2:14")
    assert known == f"{file}:2: %b is not defined"
    for position in (None, f"{file}:9:1", f"{file}:2:99"):
        assert said(file, VALUE, UNDECLARED, position) is None


def said(
    file: Path, text: str, headline: str, location: str | None = None
) -> str | None:
    """Write a program, and return the mistake that explains its failure."""
    file.write_text(text)
    program = Input(file, InputKind.OTHER)
    case = Case("case", "case", "", "triton", file, program, Target("cuda"))
    failure = Failure("x", "x", "x", headline, location=location)
    return own_mistake(case, Failed(failure))
