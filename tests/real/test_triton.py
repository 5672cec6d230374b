"""Kernels on two releases of Triton, which keeps the download small. The slow tests use
all releases.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Asked

pytestmark = pytest.mark.real


def write_recipe(folder: Path, source: str, **keys: str) -> Path:
    """Write a kernel and a recipe for it; return the recipe."""
    (folder / "k.py").write_text(source)
    fields = {
        "signature": '{x_ptr: "*fp32:16"}',
        "target": "{backend: cuda, chip: sm_90}",
    } | keys
    (folder / "own.yaml").write_text(
        "name: own\ncompiler: triton\ninput: k.py\n"
        + "".join(f"{k}: {v}\n" for k, v in fields.items())
    )
    return folder / "own.yaml"


KERNEL = """import triton
import triton.language as tl

@triton.jit
def k(x_ptr):
    tl.store(x_ptr + tl.arange(0, 64), 1.0)
"""


WITH_EPS = """import triton
import triton.language as tl

@triton.jit
def k(x_ptr, EPS: tl.constexpr, BLOCK: tl.constexpr):
    x = x_ptr + tl.arange(0, BLOCK)
    tl.store(x, 1.0 / tl.sqrt(tl.load(x) + EPS))
"""


@pytest.mark.core
def test_variants_keep_the_types_of_constants(asked: Asked, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, WITH_EPS, constexprs='{EPS: "${EPS}", BLOCK: 64}')
    more = "matrix: {EPS: [1e-5, 0.25], num_warps: [4, 8]}\n"
    more += 'options: {num_warps: "${num_warps}"}\n'
    recipe.write_text(recipe.read_text() + more)
    answer = asked("variants", recipe, "-t", "3.2.0", code=3)
    assert [(row["values"], row["status"]) for row in answer["results"]] == [
        ({"EPS": eps, "num_warps": warps}, "passed")
        for eps in ("1e-5", "0.25")
        for warps in ("4", "8")
    ]


@pytest.mark.core
def test_a_compile_stops_after_the_phase(asked: Asked, tmp_path: Path) -> None:
    done = {}
    for phase in ("ttgir", "ptx"):
        [done[phase]] = asked(
            "run",
            write_recipe(tmp_path, KERNEL, phase=phase),
            "-t",
            "3.2.0",
            code=0,
        )["results"]
    assert done["ttgir"]["metrics"].keys() == {"artifact_bytes"}
    assert done["ptx"]["metrics"].keys() == {"artifact_bytes", "shared_bytes"}


@pytest.mark.core
@pytest.mark.parametrize(
    ("change", "keys", "code", "keyword"),
    [
        (("1.0", "tl.no_such_thing(1)"), {}, 3, "no_such_thing"),
        (("1.0", "1.0"), {"options": "{no_such_option: 1}"}, 3, "no_such_option"),
        (("1.0", "1.0"), {"signature": '{y_ptr: "*fp32"}'}, 2, "y_ptr"),
        (("1.0", "1.0"), {"kernel": "other"}, 2, "other"),
        (
            ("1.0", "1.0"),
            {"constexprs": "{x_ptr: tl.float7}", "signature": "{}"},
            3,
            "tl.float7",
        ),
    ],
)
def test_missing_features_and_wrong_recipes_are_untestable(
    asked: Asked,
    tmp_path: Path,
    change: tuple[str, str],
    keys: dict[str, str],
    code: int,
    keyword: str,
) -> None:
    [result] = asked(
        "run",
        write_recipe(tmp_path, KERNEL.replace(*change), **keys),
        "-t",
        "3.2.0",
        code=code,
    )["results"]
    assert result["status"] == "untestable"
    assert keyword in result["reason"]
