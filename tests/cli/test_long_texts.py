"""A long pasted text is read in linear time, whatever it repeats, and the program and
the command line in it are found.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.conftest import Triage

MANY = 50_000
WIDE = 60_000  # characters of one line
PROGRAM = "func.func @first(%a: tensor<8xf32>) -> tensor<8xf32> {\n  return %a : tensor<8xf32>\n}\n"
COMMAND = "iree-compile m.mlir --iree-hal-target-backends=llvm-cpu --iree-opt-data-tiling=false\n"
KERNEL = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef copy(x, n: tl.constexpr):\n    tl.store(x, n)\n\n\n"
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


@pytest.fixture
def made(
    triage: Triage, home: Path, workplace: Path, in_time: None
) -> Callable[..., Path]:
    """Makes a recipe from a text, which ends with this exit code."""

    def make(text: str, code: int = 0) -> Path:
        (workplace / "issue.md").write_text(text)
        done = triage("recipe", "new", "found.yaml", "--from-text", "issue.md")
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return workplace / "found.yaml"

    return make


@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_becomes_a_recipe(made: Callable[..., Path], name: str) -> None:
    recipe = made(f"{TEXTS[name]}\n```mlir\n{PROGRAM}```\n{COMMAND}")
    flags = yaml.safe_load(recipe.read_text())["flags"]
    assert flags == ["--iree-opt-data-tiling=false"]
    assert recipe.with_suffix(".mlir").read_text() == PROGRAM


@pytest.mark.parametrize(
    ("host", "code"), [(f"{'b + ' * 900}c\n", 0), (f"{'-' * MANY}1\n", 2)]
)
def test_a_long_kernel_becomes_a_recipe_or_is_refused(
    made: Callable[..., Path], host: str, code: int
) -> None:
    recipe = made(f"```python\n{KERNEL}a = {host}```\n", code)
    assert recipe.exists() == (code == 0)
