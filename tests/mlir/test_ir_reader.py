"""Dumps are read as a stream, of any length and in any pieces. Which changes of a
program fingerprints ignore and which they detect.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mlir.printed_ir import WORDS, Op, changes, printed, program, read
from triage.mlir.fingerprint import DumpReader, IrDump, PrintedModule
from triage.model.execution import PassName

SMALL = program((Op("t.add", ("f32",), ("f32",)),))
LARGE = program(
    (
        Op("t.add", ("f32",), ("f32",)),
        Op("t.loop", regions=((Op("t.store", ("f32",)),),)),
    )
)


def dumps_of(data: bytes, cuts: list[int] | None = None) -> list[IrDump]:
    found: list[IrDump] = []
    reader = DumpReader(WORDS, found.append)
    ends = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    for start, end in pairwise(ends):
        reader.feed(data[start:end])
    return found


def dump(name: str, op: Op, tail: str = "") -> str:
    return f"// -----// IR Dump After {name}{tail} //----- //\n#map = affine_map<(d0) -> (d0)>\n{printed(op)}\n\n"


TEXT = (
    "in.mlir:1:1: warning: something\n"
    + dump("FirstPass (t-first)", SMALL)
    + dump("mlir::t::SecondPass (t-second)", LARGE)
    + 'in.mlir:2:1: error: it failed\nin.mlir:2:1: note: see current operation: %0 = "t.add"(%1) : (f32) -> f32\n'
    + dump("(anonymous namespace)::LastPass Failed (t-last)", SMALL)
    # headers of newer releases
    + dump("CSEPass: cse{max-iterations=10 top-down=true}", SMALL)
    + dump("TilePass Failed: t-tile{} ('t.func' operation: @f)", SMALL)
).encode()


@given(st.lists(st.integers(0, 10**6), max_size=12))
def test_each_dump_is_reported_with_its_pass_wherever_the_stream_is_cut(
    cuts: list[int],
) -> None:
    found = dumps_of(TEXT, cuts)
    assert [(dump.index, dump.after, dump.failed) for dump in found] == [
        (0, PassName("FirstPass", "t-first"), False),
        (1, PassName("SecondPass", "t-second"), False),
        (2, PassName("LastPass", "t-last"), True),
        (3, PassName("CSEPass", "cse"), False),
        (4, PassName("TilePass", "t-tile"), True),
    ]
    assert found[0].module.whole == found[2].module.whole != found[1].module.whole


def test_a_long_line_keeps_its_name_and_types() -> None:
    constant = f'dense<"0x{"AB" * (1 << 20)}">'
    ops = [
        Op("t.add", ("f32",), ("tensor<4xf32>",), attributes=attributes)
        for attributes in ({"value": constant}, {})
    ]
    texts = [dump("FirstPass (t-first)", program((op,))) for op in ops]
    [long], [plain] = [dumps_of(text.encode()) for text in texts]
    assert long.module == plain.module


SIZES = (
    Op("t.constant", results=("f32",)),
    Op("t.add", ("index", "index"), ("index",)),
)
ATTRIBUTES = {"a": "1 : i64", "map": '"x, {y}"', "text": "[1, 2]"}
FIRST = Op(
    "t.loop",
    ("tensor<4x?xf16>", "memref<8x8xf32, #shared>"),
    ("!new.tensor<readonly:tensor<4xf32>>",),
    ((Op("t.store", ("f32",)), Op("t.add", ("f32",), ("f32",))), ()),
    ATTRIBUTES,
)
BODY = (FIRST, Op("t.mul", ("f32", "f32"), ("vector<4xf32>",), (), ATTRIBUTES))


def module_of(body: tuple[Op, ...], dice: random.Random | None = None) -> PrintedModule:
    return read(printed(program(body), dice))


@pytest.mark.parametrize("seed", range(8))
def test_only_operations_types_and_nesting_count(seed: int) -> None:
    plain = module_of(BODY)
    for same in (module_of(BODY, random.Random(seed)), module_of((*SIZES, *BODY))):
        assert plain.functions["main"] == same.functions["main"]
        assert plain.whole.same_as(same.whole)
    for change in changes(FIRST):
        assert not module_of((change, *BODY[1:])).whole.same_as(plain.whole)
