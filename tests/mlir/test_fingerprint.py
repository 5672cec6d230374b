"""Fingerprints: which changes of a program they ignore and which they detect."""

from __future__ import annotations

import random

import pytest

from tests.mlir.printed_ir import Op, changes, invented, printed, program, read
from triage.mlir.ir_reader import PrintedModule

SIZES = (
    Op("t.constant", results=("f32",)),
    Op("t.add", ("index", "index"), ("index",)),
)


def module_of(body: tuple[Op, ...], dice: random.Random | None = None) -> PrintedModule:
    return read(printed(program(body), dice))


@pytest.mark.parametrize("seed", range(20))
def test_only_operations_types_and_nesting_count(seed: int) -> None:
    dice = random.Random(seed)
    first, *others = body = invented(dice)
    plain = module_of(body)
    for same in (module_of(body, dice), module_of((*SIZES, *body))):
        assert plain.functions["main"] == same.functions["main"]
        assert plain.whole.same_as(same.whole)
    for change in changes(first):
        assert not module_of((change, *others)).whole.same_as(plain.whole)
