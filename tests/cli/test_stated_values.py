"""What a kernel's file states is never changed, and two runs of one command give one
answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Triage
from triage.compilers.recipe_input import RecipeRequest
from triage.compilers.triton.kernel_recipe import TritonRecipes
from triage.model.execution import Captured, Ending, Execution
from triage.recipes.family import RecipeStart

CONFIG = '@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=8, num_stages=4)], key=["K"])\n'
KERNEL = f"""import triton
import triton.language as tl


{CONFIG}@triton.jit
def product(a_ptr, b_ptr, out_ptr, K, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for at in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows * K + at + columns).to(tl.float32)
        b = tl.load(b_ptr + (at + rows) * K + columns).to(tl.float32)
        total += tl.dot(a, b)
    tl.store(out_ptr + rows * K + columns, total)
"""


def compile_with(
    fits: dict[str, object], tried: list[RecipeStart]
) -> Callable[[RecipeStart], Execution]:
    """A compiler that passes only with these options and sizes."""

    def compile_(start: RecipeStart) -> Execution:
        tried.append(start)
        keys = start.keys
        values = {**keys["signature"], **keys["constexprs"], **keys["options"]}  # type: ignore[dict-item]
        ok = all(values.get(name) == value for name, value in fits.items())
        stages = Captured('triage: {"stage": "ttir"}\ntriage: {"stage": "ttgir"}\n')
        return Execution(
            (),
            Ending.EXITED,
            0 if ok else 1,
            None,
            0.0,
            0.0,
            0.0,
            stages,
            Captured("failed"),
        )

    return compile_


@pytest.mark.parametrize(
    "fits", [{"num_stages": 1}, {"BLOCK": 16}, {"a_ptr": "*fp32:16"}]
)
def test_what_a_file_states_is_never_changed(
    tmp_path: Path, fits: dict[str, object]
) -> None:
    launch = (
        'product[(1,)](torch.empty(8, dtype=torch.float16, device="cuda"), K=128)\n'
    )
    (tmp_path / "attention.py").write_text(
        f"import torch\n{KERNEL}\n\ndef main():\n    {launch}"
    )
    request = RecipeRequest(tmp_path / "a.yaml", None, None, None, None)
    start = TritonRecipes().from_source(request, tmp_path / "attention.py")
    assert start is not None
    tried: list[RecipeStart] = []
    better = TritonRecipes().improve(start, compile_with(fits, tried))
    for each in (better, *tried):
        assert each.keys["options"] == {"num_warps": 8, "num_stages": 4}
        assert each.keys["constexprs"] == {"BLOCK": 128}
        assert each.keys["signature"]["a_ptr"] == "*fp16:16"  # type: ignore[index]


def test_a_changed_guess_is_listed(tmp_path: Path) -> None:
    (tmp_path / "attention.py").write_text(KERNEL.replace(CONFIG, ""))
    request = RecipeRequest(tmp_path / "a.yaml", None, None, None, None)
    start = TritonRecipes().from_source(request, tmp_path / "attention.py")
    assert start is not None
    better = TritonRecipes().improve(
        start, compile_with({"num_stages": 1, "BLOCK": 16}, [])
    )
    assert (better.keys["options"], better.keys["constexprs"]) == (
        {"num_warps": 4, "num_stages": 1},
        {"BLOCK": 16},
    )
    assert [
        name
        for name in ("BLOCK", "num_stages")
        if any(f"Guessed {name}:" in note for note in better.notes)
    ] == [
        "BLOCK",
        "num_stages",
    ]


@pytest.mark.real
@pytest.mark.core
def test_a_guess_that_was_corrected_stays_corrected(
    shared_home: Path, installed: Callable[[str], Path], triage: Triage, workplace: Path
) -> None:
    installed("triton:3.2.0")
    text = KERNEL.replace(
        '@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=8, num_stages=4)], key=["K"])\n',
        "",
    )
    (workplace / "attention.py").write_text(
        text.replace(', input_precision="WRONG"', "").replace(
            ".to(tl.float32)", ".to(tl.int8)"
        )
    )
    first = triage(
        "run", "attention.py:product", "-t", "triton:3.2.0", "--format", "json"
    )
    [path] = (shared_home / "programs").glob("*/attention.yaml")
    recipe = path.read_text()
    second = triage(
        "run", "attention.py:product", "-t", "triton:3.2.0", "--format", "json"
    )
    assert path.read_text() == recipe
    assert [line for line in first.stderr.splitlines() if "Guessed" in line] == [
        line for line in second.stderr.splitlines() if "Guessed" in line
    ]
    assert (first.returncode, json.loads(first.stdout)["results"][0]["failure"]) == (
        second.returncode,
        json.loads(second.stdout)["results"][0]["failure"],
    )
