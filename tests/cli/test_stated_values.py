"""What a kernel's file states is what its recipe says."""

from __future__ import annotations

from pathlib import Path

from triage.compilers.recipe_input import RecipeRequest
from triage.compilers.triton.kernel_recipe import TritonRecipes

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


def test_what_a_file_states_is_in_the_recipe(tmp_path: Path) -> None:
    launch = (
        'product[(1,)](torch.empty(8, dtype=torch.float16, device="cuda"), K=128)\n'
    )
    (tmp_path / "attention.py").write_text(
        f"import torch\n{KERNEL}\n\ndef main():\n    {launch}"
    )
    request = RecipeRequest(tmp_path / "a.yaml", None, None, None, None)
    path = tmp_path / "attention.py"
    start = TritonRecipes().from_program(request, path, path.read_text())
    assert start is not None
    assert start.keys["options"] == {"num_warps": 8, "num_stages": 4}
    assert start.keys["constexprs"] == {"BLOCK": 128}
    assert start.keys["signature"]["a_ptr"] == "*fp16:16"  # type: ignore[index]
