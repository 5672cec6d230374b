"""Passes over Python return valid programs that are not larger, whatever the failure
is.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.recipes.loading import load_recipes
from tests.reduce.made import CASE, lucky, needs
from triage.compilers.base import kernel_of
from triage.model.case import Case
from triage.reduce.frontends.python import (
    PythonProgram,
    drop_statements,
    kernel_in,
    parameter_names,
    parse_program,
    python_form,
    unbound_names,
)
from triage.reduce.problem import ReducedCase, ReductionProblem, UnreadableError

KERNELS = [
    load_recipes([ROOT / "recipes" / f"triton-{name}.yaml"])[-1]
    for name in ("delta-rule", "matmul", "softmax")
]


def run_all(case: Case, document: PythonProgram, luck: int) -> ReducedCase:
    form = python_form(case, Path("unread"))
    problem = ReductionProblem(ReducedCase(document, case), lucky(luck, 90))
    for step in (*form.passes, *form.final_passes):
        before = problem.current.program.size
        step(problem)
        assert problem.current.program.canonical is not None, step
        # An opened loop's variable gets its first value, which is one statement for
        # another.
        assert problem.current.program.size <= before, step
    return problem.current


@settings(max_examples=5, deadline=None)
@given(luck=st.integers(0, 255))
def test_every_pass_returns_a_valid_program(luck: int) -> None:
    """A program that nobody wrote for this test."""
    tree = parse_program((Path(ast.__file__).parent / "bisect.py").read_bytes())
    run_all(CASE, PythonProgram(tree), luck)


@settings(max_examples=3, deadline=None)
@given(luck=st.integers(0, 255))
@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_every_pass_keeps_kernel_and_specialisation_consistent(
    case: Case, luck: int
) -> None:
    tree = parse_program(case.input.path.read_bytes())
    made = run_all(case, PythonProgram(tree), luck)
    assert isinstance(made.program, PythonProgram)
    function, how = kernel_in(made.program.tree, made.case), kernel_of(made.case)
    assert function is not None
    assert how is not None
    assert set(parameter_names(function)) == {*how.signature, *how.constexprs}
    assert set(how.hints) <= set(how.signature)


def test_code_that_python_rejects_is_invalid() -> None:
    for text, why in (
        ("break\n", "cannot parse it"),
        (f"def f(a):\n    return a{' + a' * 5000}\n", "cannot parse it"),
    ):
        with pytest.raises(UnreadableError, match=why):
            parse_program(text.encode())
    assert PythonProgram(ast.Module([ast.Return(None)], [])).canonical is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        # a name that is bound elsewhere, or by what runs the program
        (
            "from os import *\nx = path\nfail(path)\n",
            "from os import *\nfail(path)\n",
        ),
        ("print(added)\nx = 1\nfail(x)\n", "x = 1\nfail(x)\n"),
        (
            "def f():\n    global x\n    x = 1\n\n\nf()\nfail(x)\n",
            "def f():\n    global x\n    x = 1\nfail(x)\n",
        ),
    ],
)
def test_names_of_any_kind_are_reduced_as_python(
    tmp_path: Path, text: str, left: str
) -> None:
    """The failure needs all words of the last line. Names that the original does not
    bind may stay unbound, others may not.
    """
    path = tmp_path / "input.py"
    path.write_text(text)
    [program] = python_form(CASE, path).open()
    needed = left.splitlines()[-1].strip().encode()
    problem = ReductionProblem(ReducedCase(program, CASE), needs(needed))
    drop_statements(problem)
    assert problem.current.program.content.decode() == left


LOOP = b"""def rule(k_ptr, v_ptr, state_ptr, steps):
    acc = tl.zeros((16, 16), tl.float32)
    for step in range(0, steps):
        acc += tl.dot(tl.load(k_ptr + step), tl.load(v_ptr))
    tl.store(state_ptr, acc)
"""


def test_a_loop_that_stays_needs_no_argument_and_no_sum() -> None:
    kernel = kernel_of(KERNELS[0])
    assert kernel
    signature = dict.fromkeys(("k_ptr", "v_ptr", "state_ptr"), "*bf16")
    spec = replace(
        kernel,
        name="rule",
        constexprs={},
        hints={},
        signature={**signature, "steps": "i32"},
    )
    case = replace(KERNELS[0], spec=spec)
    form = python_form(case, Path("unread"))
    program = PythonProgram(parse_program(LOOP), unbound_names(LOOP))
    test = needs(b"for step in range(")
    problem = ReductionProblem(ReducedCase(program, case), test)
    for step in (*form.passes, *form.passes, *form.final_passes):
        step(problem)
    assert problem.current.program.content.decode() == (
        "def rule(k_ptr):\n    for step in range(0, 2):\n        acc = k_ptr\n"
    )
