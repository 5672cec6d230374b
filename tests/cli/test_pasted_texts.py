"""Pasted texts become recipes: issues as people write them, numbered, cut, long, and
with the versions of other programs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import FromText
from tests.conftest import Asked
from triage.compilers.recipe_start import reported_revisions

Refused = Callable[..., str]
FIRST = "func.func @first(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n"


SENTENCES = {
    "IREE compiler version 3.3.0 @ abc": ["3.3.0"],
    "broken somewhere between 3.1.0 and 3.3.0": ["3.1.0", "3.3.0"],
    "IREE 3.1.0, 3.2.0 and Python 3.11.2": ["3.1.0", "3.2.0"],
    "| iree-compile | 3.1.0 | 2.6.0 |": ["3.1.0"],
    "iree-base-compiler==3.4.0rc20250312, but iree-base-compiler 3.2.0 is fine": [
        "nightly:2025-03-12",
        "3.2.0",
    ],
    "It worked in version 3.2.0 and fails since 3.3.0": ["3.2.0", "3.3.0"],
    "## Version information\n\n3.3.0\n": ["3.3.0"],
    # versions of models and of other programs
    "IREE stops when it compiles Llama 3.1 8B": [],
    "CMake version: version 3.31.4": [],
    "IREE built with clang 17.0.6": [],
}


@pytest.mark.parametrize("text", SENTENCES)
def test_versions_are_those_of_the_compiler(text: str) -> None:
    assert reported_revisions(text, "iree") == SENTENCES[text]


KERNEL = """import triton
import triton.language as tl

@triton.jit
def copy(x, n: tl.constexpr):
    tl.store(x, n)
"""
MODEL = """import onnx
import onnxruntime
from onnx import helper

value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
node = helper.make_node("Relu", ["x"], ["y"])
model = helper.make_model(helper.make_graph([node], "relu", [value], [result]))
print(onnxruntime.InferenceSession(model))
"""


@pytest.mark.parametrize("mark", [": ", "\t"])
@pytest.mark.parametrize("program", [FIRST, KERNEL])
def test_a_numbered_listing_is_a_program(
    from_text: FromText, mark: str, program: str
) -> None:
    numbered = "".join(
        f"{number:3}{mark}{line}"
        for number, line in enumerate(program.splitlines(keepends=True), 7)
    )
    made = from_text(f"It fails:\n\n```\n{numbered}```\n")
    assert made.program.split() == program.split()


@pytest.mark.real
@pytest.mark.core
def test_python_that_makes_a_model_is_imported_and_compiled(
    shared_home: Path, asked: Asked
) -> None:
    text = f"IREE 3.3.0\n\n```python\n{MODEL}```\n"
    [result] = asked("run", "-", "-t", "3.3.0", input=text)["results"]
    assert result["status"] == "passed"


MANY = 20_000
WIDE = 60_000  # characters of one line
TEXTS = {
    "fences of many lengths": "".join(
        "`" * (4 + number % 50) + " text\n" for number in range(MANY)
    ),
    "functions that end at once": "func.func\ntext\n" * MANY,
    "wide lines": "\n".join(
        piece * (WIDE // len(piece))
        for piece in (",", "/", ":a/", ";", "<p ", "%", "func ", "~", '"\\"')
    ),
    "blanks in a call": f"iree-compile a{' ' * WIDE}b --c\n" * 3,
}


@pytest.mark.usefixtures("in_time")
@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_becomes_a_recipe_in_linear_time(
    from_text: FromText, name: str
) -> None:
    line = "iree-compile m.mlir --iree-hal-target-backends=llvm-cpu --iree-opt-data-tiling=false\n"
    made = from_text(f"{TEXTS[name]}\n```mlir\n{FIRST}```\n{line}")
    assert made.values["flags"] == ["--iree-opt-data-tiling=false"]
    assert made.program == FIRST


@pytest.mark.usefixtures("in_time")
def test_a_long_kernel_becomes_a_recipe_or_is_refused(
    from_text: FromText, refused: Refused
) -> None:
    from_text(f"```python\n{KERNEL}a = {'b + ' * 900}c\n```\n")
    refused(f"```python\n{KERNEL}a = {'-' * MANY}1\n```\n")
