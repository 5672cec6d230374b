"""Fingerprints: which changes of a program they ignore and which they detect."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mlir.printed_ir import BODIES, Op, changed, printed, program, read


@settings(max_examples=20, deadline=None)
@given(BODIES, st.integers(0, 2**32))
def test_names_order_attributes_and_locations_are_ignored(
    body: tuple[Op, ...], seed: int
) -> None:
    plain, shuffled = (
        read(printed(program(body))),
        read(printed(program(body), random.Random(seed))),
    )
    assert plain.functions["main"] == shuffled.functions["main"]
    assert plain.whole.same_as(shuffled.whole)


@settings(max_examples=20, deadline=None)
@given(BODIES, st.integers(0, 2**16), st.data())
def test_another_operation_or_type_is_detected(
    body: tuple[Op, ...], change: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(body) - 1))
    other = (*body[:at], changed(body[at], change), *body[at + 1 :])
    assert not read(printed(program(body))).whole.same_as(
        read(printed(program(other))).whole
    )


@settings(max_examples=20, deadline=None)
@given(BODIES)
def test_constants_and_size_arithmetic_are_ignored(body: tuple[Op, ...]) -> None:
    sizes = (
        Op("t.constant", results=("f32",)),
        Op("t.add", ("index", "index"), ("index",)),
    )
    assert (
        read(printed(program(body))).functions
        == read(printed(program((*sizes, *body)))).functions
    )
