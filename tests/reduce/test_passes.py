"""Passes return valid programs that are not larger, whatever the failure is."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx.parser import parse_model

from tests.conftest import ROOT, Asked
from tests.fake_releases import command_recipe, install
from tests.mlir.conftest import Readers, readers  # noqa: F401 - a fixture
from tests.recipes.loading import load_recipes
from tests.reduce.made import CASE, OVERFLOW, FakeTest, lucky, needs, reduced
from triage.compilers.base import kernel_of
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.model.case import Case, Flag
from triage.reduce.mlir import (
    bypass_operations,
    inline_functions,
    mlir_form,
    shrink_dimensions,
)
from triage.reduce.mlir_program import MlirProgram
from triage.reduce.onnx import OnnxProgram, drop_nodes, free_initializers
from triage.reduce.problem import Form, Pass, Program, UnreadableError
from triage.reduce.python import (
    PythonProgram,
    parameter_names,
    parse_program,
    python_form,
    unbound_names,
)
from triage.reduce.text import text_form

UNREAD = Path("unread")


def steps_of(form: Form) -> list[Pass]:
    return [*form.first_passes, *form.passes, *form.passes, *form.final_passes]


# Text


def test_a_text_is_reduced_to_the_tokens_and_flags_that_fail(tmp_path: Path) -> None:
    path = tmp_path / "query.sql"
    path.write_text(
        "-- a comment\nif\n x\n y\n x\n y\nSELECT a, (b + 1), foo::INT FROM (t, u);\nDROP TABLE t;\n"
    )

    def fails(candidate: Program) -> bool:
        # the block of `if` is there as a whole or not at all
        is_cast = re.search(
            rb"\A(?=(?s:.*)SELECT.*::INT.*;)([^ixy]|if(\n x\n y){2})*\Z",
            candidate.content,
        )
        return bool(is_cast) and Flag("--needed") in candidate.case.flags

    case = replace(CASE, flags=(Flag("--a"), Flag("--needed"), Flag("--b")))
    form = text_form(case, path)
    [program] = form.programs
    small = reduced(program, FakeTest(fails), steps_of(form))
    assert small.content == b"SELECT::INT;\n"
    assert small.case.flags == (Flag("--needed"),)


# ONNX


def chain(length: int) -> OnnxProgram:
    """A chain of nodes that each add a constant, with an output after every third."""
    numbers = range(length)
    nodes = "\n".join(f"v{n + 1} = Add (v{n}, c{n})" for n in numbers)
    constants = ", ".join(f"float[4] c{n} = {{{n}, {n}, {n}, {n}}}" for n in numbers)
    outputs = ", ".join(f"float[4] v{n}" for n in range(length, 0, -3))
    head = '<ir_version: 8, opset_import: ["" : 18]>'
    graph = f"chain (float[4] v0) => ({outputs}) <{constants}> {{\n{nodes}\n}}"
    return OnnxProgram(CASE, parse_model(f"{head}\n{graph}"))


@settings(max_examples=20)
@given(length=st.integers(1, 12), luck=st.integers(0, 255))
def test_passes_over_onnx(length: int, luck: int) -> None:
    reduced(chain(length), lucky(luck, 110), (drop_nodes, free_initializers))


def test_one_node_is_left_without_constants() -> None:
    small = reduced(chain(9), needs(b"v4"), (drop_nodes, free_initializers))
    assert isinstance(small, OnnxProgram)
    graph = small.model.graph
    assert graph.node
    assert small.size == len(graph.output) == 1


# MLIR


class FakeReader(Reader):
    """Refuses programs with an array that begins with 1."""

    def __init__(self) -> None:
        pass

    def generic_if_valid(self, text: str) -> str | None:
        return None if "array<i64: 1," in text else text


SLICE = """"builtin.module"() ({
  "func.func"() <{function_type = (tensor<64x96xf32>) -> tensor<32xf32>, sym_name = "f"}> ({
  ^bb0(%a: tensor<64x96xf32>):
    %0 = "tensor.extract_slice"(%a) <{static_offsets = array<i64: 32, 0>, static_sizes = array<i64: 32, 1>, static_strides = array<i64: 64>, x = array<i64: 0, 3, 64, -9223372036854775808>}> : (tensor<64x96xf32>) -> tensor<32xf32>
    "func.return"(%0) : (tensor<32xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""
IDLE = """"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "f"}> ({
  ^bb0(%a: tensor<4xf32>):
    %0 = "x.generic"(%a) ({
    ^bb1(%b: f32):
      %1 = "x.loop"(%b) : (f32) -> f32
      %2 = "x.add"(%b) : (f32) -> f32
      "x.yield"(%2) : (f32) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


@pytest.mark.parametrize(
    ("text", "step", "fails", "left", "gone"),
    [
        # offsets and sizes shrink with the types
        (
            SLICE,
            shrink_dimensions,
            b".",
            "static_offsets = array<i64: 2, 0>; static_sizes = array<i64: 2, 1>; "
            "static_strides = array<i64: 64>; "
            "x = array<i64: 0, 3, 4, -9223372036854775808>; "
            "(tensor<4x6xf32>) -> tensor<2xf32>; -> (tensor<2xf32>)",
            "64x",
        ),
        # what is too small is halved half as often
        (
            SLICE,
            shrink_dimensions,
            rb"^(?!.*<4x)",
            "(tensor<16x24xf32>) -> tensor<8xf32>",
            "64x",
        ),
        # what fails stays though nothing uses it
        (IDLE, bypass_operations, b"x.loop", "x.loop", "x.add"),
    ],
)
def test_a_pass_over_mlir_leaves_only_what_fails(
    text: str, step: Pass, fails: bytes, left: str, gone: str
) -> None:
    program = MlirProgram(CASE, parse_module(text), [FakeReader()])
    pattern = re.compile(fails, re.DOTALL)
    test = FakeTest(lambda candidate: pattern.search(candidate.content))
    small = reduced(program, test, [step]).content.decode()
    for part in left.split("; "):
        assert part in small
    assert gone not in small


def document(reader: Reader, text: str) -> MlirProgram:
    generic = reader.generic_if_valid(text)
    assert generic is not None
    return MlirProgram(CASE, parse_module(generic), [reader])


@pytest.mark.real
@settings(
    max_examples=5,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(luck=st.integers(0, 255), line=st.integers(0, 20))
@pytest.mark.parametrize("name", ["paged_gather", "masked_mean", "prefill_decode"])
def test_passes_over_mlir(
    readers: Readers,  # noqa: F811
    name: str,
    luck: int,
    line: int,
) -> None:
    text = (ROOT / "recipes" / "models" / f"{name}.mlir").read_text()
    reader = readers("3.3.0")
    failure = replace(OVERFLOW, location=f"input.mlir:{line}:1")
    form = mlir_form([reader], CASE, UNREAD, failure)
    reduced(document(reader, text), lucky(luck, 110), steps_of(form))


@pytest.mark.real
@pytest.mark.parametrize("release", ["2.9.0", "3.13.0"])
def test_calls_are_inlined_and_slices_shrink_with_the_sizes_that_they_repeat(
    readers: Readers,  # noqa: F811
    release: str,
) -> None:
    text = (ROOT / "tests" / "data" / "rotated_slices.mlir").read_text()
    program = document(readers(release), text)
    test = FakeTest(lambda case: not re.search(rb"[<x]1x", case.content))
    small = reduced(
        program, test, [inline_functions, shrink_dimensions]
    ).content.decode()
    assert "func.call" not in small
    assert max(map(int, re.findall(r"\d+(?=x)", small))) <= 64


# Python

KERNELS = [
    load_recipes([ROOT / "recipes" / f"triton-{name}.yaml"])[-1]
    for name in ("delta-rule", "matmul", "softmax")
]


def reduced_python(case: Case, content: bytes, test: FakeTest) -> PythonProgram:
    program = PythonProgram(case, parse_program(content), unbound_names(content))
    small = reduced(program, test, steps_of(python_form(case, UNREAD)))
    assert isinstance(small, PythonProgram)
    return small


@settings(max_examples=3)
@given(luck=st.integers(0, 255))
@pytest.mark.parametrize("case", [CASE, *KERNELS], ids=lambda case: case.name)
def test_passes_over_python_keep_kernel_and_specialisation_consistent(
    case: Case, luck: int
) -> None:
    # a program that nobody wrote for this test
    path = Path(ast.__file__).parent / "bisect.py"
    if case in KERNELS:
        path = case.input.path
    small = reduced_python(case, path.read_bytes(), lucky(luck, 90))
    function, kernel = small.kernel, kernel_of(small.case)
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
    case = replace(KERNELS[0], spec=spec)
    small = reduced_python(case, LOOP, needs(b"for step in range("))
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

    small = reduced_python(CASE, CALLS, FakeTest(stores_nine))
    assert small.content.count(b"def ") == 1


def test_keyword_arguments_are_dropped() -> None:
    small = reduced_python(CASE, b"load(1, mask=m, other=0)\n", needs(b"load("))
    assert small.content == b"load(1)\n"


MORE = "\n".join(f"x{number} = {number}" for number in range(12))
FAILS = "fail('breaks-3')"
CLASS = f"class A:\n    def f(self):\n        return __class__, {FAILS}"


@pytest.mark.parametrize(
    ("program", "unit", "left"),
    [
        (f"{MORE}\n{CLASS}\n{MORE}", "statement", 3),
        (f"{MORE}\n{FAILS}\n__annotations__\nnot_bound\n{MORE}", "statement", 3),
        (f"def f(:\n{FAILS}\n", "line", 1),
        (f"# {FAILS}\nx = 1\n", "line", 1),
    ],
)
def test_what_python_compiles_is_reduced_by_statements_other_text_by_lines(
    asked: Asked, home: Path, tmp_path: Path, program: str, unit: str, left: int
) -> None:
    path = command_recipe(tmp_path, "case", "")
    (tmp_path / "case.py").write_text(program)
    path.write_text(path.read_text().replace("case.txt", "case.py"))
    built = install(tmp_path / "built", 5)
    answer = asked("reduce", path, "-t", f"path:{built}", "--out", tmp_path / "out")
    assert answer["unit"] == unit
    assert answer["operations"]["after"] <= left
