"""Excerpts: one function of one dump, and both sides in rows."""

from __future__ import annotations

from triage.attribute.excerpt import DumpText, diff
from triage.mlir.ir_reader import PassName

TEXT = """in.mlir:1:1: warning: nothing
// -----// IR Dump After TilePass (t-tile) //----- //
func.func @first() {
  %0 = t.add
  return
}

// -----// IR Dump After OtherPass (t-other) //----- //
func.func @first() {
  %0 = t.other
}

// -----// IR Dump After TilePass (t-tile) //----- //
module {
  func.func private @first(%arg0: f32) {
    %0 = t.second {a = "}"}
    scf.for {
    }
  }
  func.func @first_and_more() {
  }
}
"""


def text_of(turn: int, function: str | None) -> list[str]:
    reader = DumpText(PassName("TilePass", "t-tile"), turn, function)
    for start in range(0, len(TEXT), 7):
        reader.feed(TEXT[start : start + 7].encode())
    return reader.text


def test_one_dump_of_one_function() -> None:
    assert text_of(1, "first") == ["func.func @first() {", "  %0 = t.add", "  return", "}"]


def test_long_texts_are_cut() -> None:
    reader = DumpText(PassName("TilePass", "t-tile"), 1, None)
    reader.feed(b"// -----// IR Dump After TilePass (t-tile) //----- //\n" + b"  line\n" * 5000 + b"x" * 10_000 + b"\n")
    assert reader.cut
    assert len(reader.text) == 3000


def test_lines_with_other_value_numbers_are_equal() -> None:
    good = ["func @f {", "  %0 = t.add %arg0", "  %1 = t.mul %0 #map", "}"]
    bad = ["func @f {", "  %5 = t.add %arg0", "  %6 = t.sub %5 #map3", "  t.new", "}"]
    assert [line[0] for line in diff(good, bad)] == [" ", " ", "-", "+", "+", " "]


def test_equal_lines_are_left_out() -> None:
    common = [f"  t.op{number}" for number in range(20)]
    assert next(diff([*common, "  t.good"], [*common, "  t.bad"])) == "@@ line 18 @@"
