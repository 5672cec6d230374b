"""Passes over Python return valid programs that are not larger, whatever the failure
is.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.recipes.loading import load_recipes
from tests.reduce.made import LuckyTest
from tests.reduce.test_search import CASE
from triage.compilers.base import kernel_of
from triage.model.case import Case
from triage.reduce.frontends.python import open_calls, python_frontend
from triage.reduce.frontends.python_program import (
    PythonProgram,
    kernel_function,
    parameter_names,
    parse_program,
    undefined_reads,
)
from triage.reduce.program import ReducedCase

KERNELS = [
    case
    for path in sorted((ROOT / "recipes").glob("triton-*.yaml"))
    for case in load_recipes([path])
    if case.matrix == () or case.matrix[0][1] == "8"
]


def run_all(case: Case, document: PythonProgram, luck: int) -> ReducedCase:
    test, frontend = LuckyTest(luck, share=90), python_frontend(case)
    made = ReducedCase(document, case)
    for step in (*frontend.passes, *frontend.final_passes):
        before, made = made, step(made, test)
        assert made.program.content_if_valid() is not None, step
        # An opened loop's variable gets its first value, which is one statement for
        # another.
        assert made.program.size <= before.program.size, step
    return made


@settings(max_examples=5, deadline=None)
@given(luck=st.integers(0, 255))
@pytest.mark.parametrize("name", ["bisect.py", "textwrap.py"])
def test_every_pass_returns_a_valid_program(name: str, luck: int) -> None:
    """Programs that nobody wrote for this test: modules of Python's library."""
    tree = parse_program((Path(ast.__file__).parent / name).read_bytes())
    assert tree is not None
    run_all(CASE, PythonProgram(tree), luck)


@settings(max_examples=3, deadline=None)
@given(luck=st.integers(0, 255))
@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_every_pass_keeps_kernel_and_specialisation_consistent(
    case: Case, luck: int
) -> None:
    tree = parse_program(case.input.path.read_bytes())
    assert tree is not None
    made = run_all(case, PythonProgram(tree), luck)
    function, how = kernel_function(made), kernel_of(made.case)
    assert function is not None
    assert how is not None
    assert set(parameter_names(function)) == {*how.signature, *how.constexprs}
    assert set(how.hints) <= set(how.signature)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    return g()\ndef g():\n    pass\n", []),
        ("def f():\n    print(x)\n", ["print(x)"]),
        ("def f():\n    x = 1\nprint(x)\n", ["print(x)"]),
        ("x = [y for y in range(3)]\nz = lambda a: a + x\nprint(b := 2, b)\n", []),
        ("for i in n:\n    print(i)\n", ["for i in n:\n    print(i)"]),
        ("from os import *\nprint(path)\n", []),
        (
            "def f(a):\n    def g():\n        return a + h\n    h = 1\n    return g\n",
            [],
        ),
        ("match 3:\n    case int() as n:\n        print(n)\n", []),
        ("try:\n    pass\nexcept ValueError as error:\n    print(error)\n", []),
        ("del u\n", ["del u"]),
    ],
)
def test_reads_of_undefined_names_are_found(text: str, found: list[str]) -> None:
    assert [ast.unparse(one) for one in undefined_reads(ast.parse(text))] == found


def test_calls_of_a_helper_are_opened() -> None:
    tree = parse_program(
        b"def add(a, b):\n    c = a + b\n    return c * 2\n\n\ndef f(x):\n    print(add(x, b=1))\n"
    )
    assert tree is not None
    opened = open_calls(ReducedCase(PythonProgram(tree), CASE), LuckyTest(0, share=256))
    assert opened.program.content == b"def f(x):\n    c = x + 1\n    print(c * 2)\n"


def test_code_that_python_rejects_is_invalid() -> None:
    assert parse_program(b"break\n") is None
    # too deep to follow
    assert parse_program(f"def f(a):\n    return a{' + a' * 5000}\n".encode()) is None
    assert PythonProgram(ast.Module([ast.Return(None)], [])).content_if_valid() is None
