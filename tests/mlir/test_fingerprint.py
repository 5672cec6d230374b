"""Fingerprints: which changes of a program they ignore and which they detect."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mlir.printed_ir import BODIES, WORDS, Op, changed, printed, program, read
from triage.mlir.fingerprint import Fingerprint


@settings(max_examples=50)
@given(BODIES, st.integers(0, 2**32))
def test_names_order_attributes_and_locations_are_ignored(body: tuple[Op, ...], seed: int) -> None:
    plain, shuffled = read(printed(program(body))), read(printed(program(body), random.Random(seed)))
    assert plain.functions["main"] == shuffled.functions["main"]
    assert plain.whole.same_as(shuffled.whole)


@settings(max_examples=50)
@given(BODIES, st.integers(0, 2**16), st.data())
def test_another_operation_type_or_nesting_is_detected(body: tuple[Op, ...], change: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body) - 1))
    other = (*body[:at], changed(body[at], change), *body[at + 1 :])
    assert not read(printed(program(body))).whole.same_as(read(printed(program(other))).whole)


@settings(max_examples=50)
@given(BODIES)
def test_constants_and_size_arithmetic_are_ignored(body: tuple[Op, ...]) -> None:
    sizes = (Op("t.constant", results=("f32",)), Op("t.add", ("index", "index"), ("index",)))
    assert read(printed(program(body))).functions == read(printed(program((*sizes, *body)))).functions


def test_an_operation_in_another_region_is_detected() -> None:
    inner, loop = Op("t.add", ("f32",), ("f32",)), Op("t.loop", regions=((Op("t.store"),),))
    outside = program((inner, loop))
    inside = program((replace(loop, regions=((Op("t.store"), inner),)),))
    apart = program((replace(loop, regions=((Op("t.store"),), (inner,))),))
    texts = [read(printed(one)).whole.digest for one in (outside, inside, apart)]
    assert len(set(texts)) == 3


DETAILED = replace(
    WORDS,
    detailed=True,
    constants=frozenset({"t.constant"}),
    bookkeeping=re.compile(r"\((?:(?:index|i1)(?:, )?)*\) -> (?:index|i1)"),
)


def _details(*ops: Op) -> Fingerprint:
    return read(printed(program(ops)), DETAILED).functions["main"]


@pytest.mark.parametrize("operation", ["t.constant", "t.compare"])
def test_details_contain_constants_and_attributes(operation: str) -> None:
    first, second = (_details(Op(operation, (), ("f32",), attributes={"value": text})) for text in ("1.0", "2.0"))
    assert first.digest == second.digest
    assert first.choice_differences(second) == ((f"{operation}.value", "1.0", "2.0"),)


def test_details_contain_computations_of_single_bits() -> None:
    first, second = (_details(Op(name, ("i1", "i1"), ("i1",))) for name in ("t.and", "t.or"))
    assert first.choice_differences(second) == (("operation (i1, i1) -> i1", "t.and", "t.or"),)


def _config(text: str) -> Op:
    return Op("t.add", ("f32",), ("f32",), attributes={"note": '"x"', "config": f"#t.config<{{{text}}}>"})


def test_choices_count_where_both_make_them() -> None:
    small, large = _config("tiles = [[4, 8], [1]], kind = Fused"), _config("tiles = [[8, 8], [1]], kind = Fused")
    more = _config("tiles = [[4, 8], [1]], kind = Fused, prefetch = true")
    here, there, extended = (read(printed(program((one,)))).whole for one in (small, large, more))
    assert here.digest == there.digest
    assert not here.same_as(there)
    assert here.choice_differences(there) == (("config.tiles", "[[4, 8], [1]]", "[[8, 8], [1]]"),)
    assert here.same_as(extended)
    assert extended.same_as(here)


def test_choices_in_two_forms_are_compared_by_their_numbers() -> None:
    old, new = _config("tiles = [[4, 8], [0, 0], [1, 2]]"), _config("outer = [4, 8], inner = [1, 2]")
    other = _config("outer = [4, 8], inner = [2, 2]")
    here, renamed, changed = (read(printed(program((one,)))).whole for one in (old, new, other))
    assert here.same_as(renamed)
    assert here.choice_differences(changed) == (("config", "[1, 2] [4, 8]", "[2, 2] [4, 8]"),)
    assert changed.choice_differences(renamed) == (("config.inner", "[2, 2]", "[1, 2]"),)


def test_shared_memory_is_the_sum_of_allocations() -> None:
    body = (
        Op("t.alloc", results=("memref<8x8xf32, #shared>",)),
        Op("t.alloc", results=("memref<16xf16, #shared>",)),
        Op("t.alloc", results=("memref<512xf32>",)),
        Op("t.view", ("memref<8x8xf32, #shared>",), ("memref<4x8xf32, #shared>",)),
    )
    assert read(printed(program(body))).functions["main"].shared_bytes == 8 * 8 * 4 + 16 * 2


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("memref<8x8xf32, strided<[?, 1], offset: ?>, #shared>", True),
        ("memref<8x8xf32, affine_map<(d0, d1) -> (d1, d0)>, 3>", True),
        ("memref<8x4xf32>", False),
        ("memref<8x8xf16>", False),
        ("memref<8x8xcomplex<f32>>", False),
    ],
)
def test_the_outline_leaves_strides_and_address_spaces_out(other: str, same: bool) -> None:
    plain, changed_type = (read(printed(program((Op("t.view", (text, "f32")),)))).whole for text in ("memref<8x8xf32>", other))
    assert not plain.same_as(changed_type)
    assert plain.same_operations(changed_type)
    assert plain.same_outline(changed_type) == same


def test_a_dimension_without_bound_does_not_overflow() -> None:
    huge = Op("t.alloc", results=("memref<9223372036854775807x9223372036854775807xf32, #shared>",))
    assert read(printed(program((huge, huge)))).functions["main"].shared_bytes == 2**63 - 1


def test_functions_of_executables_are_device_functions() -> None:
    def function(name: str) -> Op:
        return Op("t.func", regions=((Op("t.store"),),), attributes={"sym_name": f'"{name}"'})

    executable = Op("t.executable", regions=((Op("builtin.module", regions=((function("kernel"),),)),),))
    module = read(printed(Op("builtin.module", regions=((function("main"), executable),))))
    assert set(module.functions) == {"main", "kernel"}
    assert module.device == {"kernel"}
    assert module.contains_functions
    assert not read(printed(function("main"))).contains_functions
