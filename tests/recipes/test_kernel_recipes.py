"""What a recipe says of a Triton kernel."""

from __future__ import annotations

import pytest

from triage.compilers.base import KernelSpec

TEXT = """name: a
compiler: triton
input: models/make.py
signature: {x_ptr: "*fp16:16", n: i32, y_ptr: "*fp32"}
constexprs: {BLOCK: 64, eps: 1e-5, fast: true, kind: tl.float16, other: none, mode: ieee}
hints: {y_ptr: {divisibility: 8, pointer_range: 32}}
options: {num_warps: "${num_warps}", num_stages: 3}
target: {backend: cuda, chip: sm_90}
matrix: {num_warps: [4, 8]}
"""


def test_a_kernel_is_specialised_as_it_is_written(loaded) -> None:
    cases = loaded(TEXT)
    assert [case.name for case in cases] == ["a[num_warps=4]", "a[num_warps=8]"]
    assert cases[1].spec == KernelSpec(
        name=None,
        signature={"x_ptr": "*fp16", "n": "i32", "y_ptr": "*fp32"},
        constexprs={
            "BLOCK": 64,
            "eps": 1e-5,
            "fast": True,
            "kind": "tl.float16",
            "other": None,
            "mode": "ieee",
        },
        hints={
            "y_ptr": {"divisibility": 8, "pointer_range": 32},
            "x_ptr": {"divisibility": 16},
        },
        options={"num_warps": 8, "num_stages": 3},
    )
    assert cases[0].compiler == "triton"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("n: i32", "n: int", '"int"'),
        ("hints: {y_ptr", "hints: {z_ptr", '"z_ptr"'),
        ("chip: sm_90", "chip: sm_90, devices: 2", "one device"),
        ("matrix:", 'flags: ["-O3"]\nmatrix:', "`options`"),
        ("compiler: triton\n", "", '"signature"'),
    ],
)
def test_mistakes(told, old: str, new: str, message: str) -> None:
    problems = told(TEXT.replace(old, new))
    assert any(message in problem for problem in problems), problems
