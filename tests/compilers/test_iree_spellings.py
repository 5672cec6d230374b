"""Spellings of IREE's IR that mean the same in two releases."""

from __future__ import annotations

import pytest

from tests.mlir.printed_ir import Op, printed, program, read
from triage.compilers.iree.adapter import Iree
from triage.compilers.parts import IrPrinter

TENSOR = "tensor<8x16xf32>"
PART = "tensor<4x4xf32>"
BODY = (Op("arith.addf", ("f32", "f32"), ("f32",)), Op("linalg.yield", ("f32",)))


def part(*sizes: str) -> Op:
    return Op("tensor.extract_slice", (TENSOR, *sizes), (PART,))


def generic(name: str, **attributes: str) -> Op:
    return Op(name, (TENSOR, TENSOR), (TENSOR,), (BODY,), attributes)


def same(one: Op, other: Op) -> bool:
    passes = Iree().passes
    assert isinstance(passes, IrPrinter)
    left, right = (
        read(printed(program((op,))), passes.vocabulary) for op in (one, other)
    )
    return left.whole.same_as(right.whole) and left.whole.same_operations(right.whole)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (part("index", "index"), part()),
        (generic("linalg.matmul"), generic("linalg.generic")),
        (
            generic(
                "linalg.generic",
                lowering_config="{kind = #iree_gpu.mma_layout<WMMA_F32_16x16x16_F16>}",
            ),
            generic(
                "linalg.generic",
                lowering_config="{kind = #iree_gpu.mma_layout<WMMAR3_F32_16x16x16_F16>}",
            ),
        ),
    ],
)
def test_spellings_of_one_thing_are_equal(old: Op, new: Op) -> None:
    assert same(old, new)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (part(), Op("tensor.extract_slice", (TENSOR,), ("tensor<4x8xf32>",))),
        (
            generic("linalg.generic", lowering_config="{reduction = [0, 4]}"),
            generic("linalg.generic", lowering_config="{reduction = [0, 8]}"),
        ),
    ],
)
def test_different_things_stay_different(one: Op, other: Op) -> None:
    assert not same(one, other)
