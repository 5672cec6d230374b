"""Passes over Python return valid programs that are not larger, whatever the failure
is; and in which form a Python program of a `command:` compiler is reduced.
"""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT, Triage
from tests.fake_releases import command_recipe, install
from tests.recipes.loading import load_recipes
from tests.reduce.made import CASE, FakeTest, lucky, needs, reduced
from triage.compilers.kernel import kernel_of
from triage.model.case import Case
from triage.reduce.problem import Program, UnreadableError
from triage.reduce.python import (
    PythonProgram,
    parameter_names,
    parse_program,
    python_form,
    unbound_names,
)

KERNELS = [
    load_recipes([ROOT / "recipes" / f"triton-{name}.yaml"])[-1]
    for name in ("delta-rule", "matmul", "softmax")
]


@settings(max_examples=3, deadline=None)
@given(luck=st.integers(0, 255))
@pytest.mark.parametrize("case", [CASE, *KERNELS], ids=lambda case: case.name)
def test_every_pass_keeps_kernel_and_specialisation_consistent(
    case: Case, luck: int
) -> None:
    # a program that nobody wrote for this test
    path = Path(ast.__file__).parent / "bisect.py"
    if case in KERNELS:
        path = case.input.path
    form = python_form(case, Path("unread"))
    steps = (*form.passes, *form.final_passes)
    program = PythonProgram(case, parse_program(path.read_bytes()))
    small = reduced(program, lucky(luck, 90), steps)
    assert isinstance(small, PythonProgram)
    function = small.kernel
    kernel = kernel_of(small.case)
    assert (function is None) == (kernel is None) == (case is CASE)
    if function and kernel:
        names = set(parameter_names(function))
        assert names == {*kernel.signature, *kernel.constexprs}
        assert set(kernel.hints) <= set(kernel.signature)


def test_code_that_python_rejects_is_invalid() -> None:
    for text in ("break\n", f"def f(a):\n    return a{' + a' * 5000}\n"):
        with pytest.raises(UnreadableError, match="cannot parse it"):
            parse_program(text.encode())
    assert PythonProgram(CASE, ast.Module([ast.Return(None)], [])).canonical is None


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
    signature["steps"] = "i32"
    spec = replace(kernel, kernel="rule", signature=signature, constexprs={}, hints={})
    case, test = replace(KERNELS[0], spec=spec), needs(b"for step in range(")
    program = PythonProgram(case, parse_program(LOOP), unbound_names(LOOP))
    form = python_form(case, Path("unread"))
    steps = (*form.passes, *form.passes, *form.final_passes)
    small = reduced(program, test, steps)
    assert small.content.decode() == (
        "def rule(k_ptr):\n    for step in range(0, 2):\n        acc = k_ptr\n"
    )


CALLS = b"""def scaled(value, factor=2):
    larger = value * factor
    return larger
def kernel(x):
    y = scaled(load(x), factor=3)
    return store(y)
"""


def test_a_function_that_is_called_moves_into_its_caller() -> None:
    def stores_nine(candidate: Program) -> bool:
        stored: list[object] = []
        names = {"load": lambda x: x + 1, "store": stored.append}
        with suppress(Exception):
            exec(candidate.content, names)
            exec("kernel(2)", names)
        return stored == [9]

    program = PythonProgram(CASE, parse_program(CALLS), unbound_names(CALLS))
    form = python_form(CASE, Path("unread"))
    small = reduced(program, FakeTest(stores_nine), (*form.passes, *form.passes))
    assert small.content.decode().count("def ") == 1


MORE = "\n".join(f"x{number} = {number}" for number in range(12))
FAILS = "fail('breaks-3')"


@pytest.mark.parametrize(
    ("program", "unit", "left"),
    [
        (
            f"{MORE}\nclass A:\n    def f(self):\n        return __class__, {FAILS}\n{MORE}",
            "statement",
            3,
        ),
        (f"{MORE}\n{FAILS}\n__annotations__\nnot_bound\n{MORE}", "statement", 3),
        (f"def f(:\n{FAILS}\n", "line", 1),
        (f"# {FAILS}\nx = 1\n", "line", 1),
    ],
)
def test_what_python_compiles_is_reduced_by_statements_other_text_by_lines(
    triage: Triage, home: Path, tmp_path: Path, program: str, unit: str, left: int
) -> None:
    path = command_recipe(tmp_path, "case", "")
    (tmp_path / "case.py").write_text(program)
    path.write_text(path.read_text().replace("case.txt", "case.py"))
    built = install(tmp_path / "built", 5)
    words = ("-t", f"path:{built}", "--out", tmp_path / "out", "--format", "json")
    done = triage("reduce", path, *words)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["unit"] == unit
    assert answer["operations"]["after"] <= left
