"""Dumps are read as a stream, of any length and in any pieces. Which changes of a
program fingerprints ignore and which they detect.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mlir.printed_ir import WORDS, Op, printed, program, read
from triage.mlir.fingerprint import DumpReader, IrDump, PrintedModule

ADD = Op("t.add", ("f32",), ("f32",))
STORE = Op("t.store", ("f32",))
SMALL, LARGE = program(ADD), program(ADD, Op("t.loop", regions=((STORE,),)))


def dump(name: str, op: Op) -> str:
    return f"// -----// IR Dump After {name} //----- //\n#map = affine_map<(d0) -> (d0)>\n{printed(op)}\n\n"


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


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_each_dump_is_reported_with_its_pass_wherever_the_stream_is_cut(
    cuts: list[int],
) -> None:
    dumps: list[IrDump] = []
    reader = DumpReader(WORDS, dumps.append)
    for start, end in pairwise([0, *sorted(cuts), len(TEXT)]):
        reader.feed(TEXT[start:end])
    assert [
        f"{dump.index} {dump.after.name} {dump.after.argument} {dump.failed}"
        for dump in dumps
    ] == [
        "0 FirstPass t-first False",
        "1 SecondPass t-second False",
        "2 LastPass t-last True",
        "3 CSEPass cse False",
        "4 TilePass t-tile True",
    ]
    first, second, last, *_ = (dump.module.whole for dump in dumps)
    assert first == last != second


def test_a_long_line_keeps_its_name_and_types() -> None:
    plain = Op("t.add", ("f32",), ("tensor<4xf32>",))
    long = replace(plain, attributes={"value": f'dense<"0x{"AB" * (1 << 20)}">'})
    assert read(printed(program(long))) == read(printed(program(plain)))


INERT = Op("t.constant", results=("f32",))
SIZES = Op("t.add", ("index", "index"), ("index",))
ATTRIBUTES = {"a": "1 : i64", "map": '"x, {y}"', "text": "[1, 2]"}
LOOP = Op(
    "t.loop",
    ("tensor<4x?xf16>", "memref<8x8xf32, #shared>"),
    ("!new.tensor<readonly:tensor<4xf32>>",),
    ((STORE, ADD), ()),
    ATTRIBUTES,
)
PRODUCT = Op("t.mul", ("f32", "f32"), ("vector<4xf32>",), (), ATTRIBUTES)


@pytest.mark.parametrize("seed", range(8))
def test_only_operations_types_and_nesting_count(seed: int) -> None:
    def module(*body: Op, dice: random.Random | None = None) -> PrintedModule:
        return read(printed(program(*body), dice))

    plain = module(LOOP, PRODUCT)
    shuffled = module(LOOP, PRODUCT, dice=random.Random(seed))
    for same in (shuffled, module(INERT, SIZES, LOOP, PRODUCT)):
        assert plain.functions["main"] == same.functions["main"]
        assert plain.whole.same_as(same.whole)
    for other in (
        replace(LOOP, name="t.other"),
        replace(LOOP, results=(*LOOP.results, "i7")),
        replace(LOOP, operands=(*LOOP.operands, "i7")),
        replace(LOOP, regions=(*LOOP.regions, (INERT, ADD))),
    ):
        assert not module(other, PRODUCT).whole.same_as(plain.whole)
