"""Passes over printed MLIR that no tool reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.reduce.test_python_passes import ContainsTest
from tests.reduce.test_search import CASE
from triage.model.case import InputKind
from triage.reduce.draft import Draft
from triage.reduce.frontends import text as ssa
from triage.reduce.frontends.text import TextDocument, TextFrontend

PRINTED = """#loc = loc("k.py":8:0)
module {
  tt.func public @k(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32} loc("p"(#l)), %n: i32 loc("n")) attributes {noinline} {
    %c64 = arith.constant 64 : i32 loc(#loc1)
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32> loc(#loc2)
    %0 = tt.splat %p : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>> loc(#loc2)
    %1 = tt.addptr %0, %r : tensor<64x!tt.ptr<f16>>, tensor<64xi32> loc(#loc2)
    %2:2 = scf.for %i = %c64 to %n step %c64 iter_args(%a = %1, %b = %r) -> (tensor<64x!tt.ptr<f16>>, tensor<64xi32>) {
      scf.yield %a, %b : tensor<64x!tt.ptr<f16>>, tensor<64xi32> loc(#loc3)
    } loc(#loc3)
    %3 = tt.load %1 : tensor<64x!tt.ptr<f16>> loc(callsite("f"(#loc1) at #loc2))
    tt.store %2#0, %3 : tensor<64x!tt.ptr<f16>> loc(#loc4)
    tt.return loc(#loc4)
  } loc(#loc)
} loc(#loc)
#loc1 = loc(unknown)
"""


def text_of(one: Draft) -> str:
    return one.document.content.decode()


def draft() -> Draft:
    lines = ssa.without_locations(PRINTED.splitlines())
    return Draft(TextDocument(lines, InputKind.OTHER, "ttir"), replace(CASE, compiler="triton"))


def test_locations_are_removed() -> None:
    text = text_of(draft())
    assert "loc" not in text
    assert text.count("\n") == 14
    assert "%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32) attributes" in text


def test_operations_are_dropped_with_their_users() -> None:
    small = text_of(ssa.drop_operations(draft(), ContainsTest("tt.load")))
    assert "scf.for" not in small
    assert "tt.store" not in small
    assert "tt.addptr" in small
    assert not ssa.has_undefined_values(small.splitlines())


def test_an_earlier_value_of_the_type_replaces_a_result() -> None:
    small = text_of(ssa.bypass_operations(ssa.drop_operations(draft(), ContainsTest("tt.load")), ContainsTest("tt.load")))
    assert "tt.load %0" in small
    assert "addptr" not in small


def test_unused_arguments_are_dropped_and_sizes_halved() -> None:
    test = ContainsTest("tt.load")
    small = ssa.shrink_numbers(ssa.drop_arguments(ssa.drop_operations(draft(), test), test), test)
    assert "@k(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}) attributes {noinline} {" in text_of(small)
    assert "end = 2 : i32" in text_of(small)
    assert "tensor<2x!tt.ptr<f16>>" in text_of(small)


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (["%0 = a.b", "c.d %0"], False),
        (["c.d %0", "%0 = a.b"], True),
        (["%0:2 = a.b", "c.d %0#1"], False),
        (["f.func @f(%a: i32) {", "^bb1(%b: i32):", "c.d %a, %b", "}"], False),
        (["%0 = a.b %0"], True),
    ],
)
def test_values_without_definition_are_found(lines: list[str], missing: bool) -> None:
    assert ssa.has_undefined_values(lines) is missing


def test_the_file_is_first_read_without_its_locations(tmp_path: Path) -> None:
    path = tmp_path / "k.ttir"
    path.write_text(PRINTED)
    documents = TextFrontend(InputKind.OTHER, "ttir").open(path)
    assert [one.size for one in documents] == [14, 16]
    plain = TextFrontend(InputKind.OTHER, "txt")
    assert [one.size for one in plain.open(path)] == [16]
