"""The generic form is parsed and printed without loss in any dialect, and text that is
not in it is refused, however deep it is nested.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.mlir.conftest import Readers
from tests.mlir.printed_ir import WORDS
from tests.reduce.made import CASE
from triage.compilers.iree.lint import IreeLinter
from triage.mlir import UnparsableError, parse_module, print_module
from triage.mlir.fingerprint import DumpReader
from triage.mlir.generic_form import result_operator
from triage.mlir.tree import free_values
from triage.reduce.mlir_program import MlirProgram
from triage.remedy.candidates import static_candidates

DEEP = 100_000
PRINTED = """#map = affine_map<(d0) -> (d0)>
"builtin.module"() ({
  %0, %1 = "t.make"() <{map = #map}> : () -> (i1, (i32) -> i32)
  %2 = "t.wrap"(%1) {unit} : ((i32) -> i32) -> ((i32) -> i32)
  %3 = "t.neg"(%0) : (i1) -> i1
  "t.branch"(%0) ({
    "t.jump"(%3)[^bb4] : (i1) -> ()
  ^bb4(%5: i1):
    "t.end"(%5, %2) : (i1, (i32) -> i32) -> ()
  }, {
  }) : (i1) -> ()
}) : () -> ()
"""
USES = """"builtin.module"() ({
  %0:3 = "t.make"() : () -> (i1, i32, i32)
  %1 = "t.if"(%0#0) ({
  ^bb0(%2: i32):
    %3 = "t.add"(%0#2, %2) : (i32, i32) -> i32
    "t.nest"() ({
      "t.use"(%3, %0#1) : (i32, i32) -> ()
    }) : () -> ()
  }) : (i1) -> i32
}) : () -> ()"""
# What an operation may not be, and the line that is named.
REFUSED = {
    '"t.a"(%x) : (i1) -> ()': 3,
    '"t.a"() <{a = [1 : () -> ()': 2,
    '"t.a"() <{a = 1} : () -> ()': 3,
    '%0:2 = "t.a"() : () -> i1': 2,
    '%0 = "t.a"() : () ->': 2,
    '"t.a"()[^bb1] ({"t.b"()[^bb7] : () -> ()}) : () -> ()': 2,
    '"t.a"() ({\n^bb0:\n^bb0:\n}) : () -> ()': 4,
    "t.a : () -> ()": 2,
}
PRETTY = """
module {
  func.func private @helper(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = math.exp %a : tensor<4xf32>
    %1 = math.log %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0 = arith.addf %a, %b : tensor<4xf32>
    %sum = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
    } ins(%0 : tensor<4xf32>) outs(%b : tensor<4xf32>) {
    ^bb0(%value: f32, %total: f32):
      %scaled = arith.mulf %value, %total : f32
      %next = arith.addf %scaled, %total : f32
      linalg.yield %next : f32
    } -> tensor<4xf32>
    %1 = func.call @helper(%sum) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = torch.operator "onnx.Det"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = tensor.expand_shape %sum [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
    return %0, %3, %1, %2 : tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
"""
GENERIC = """
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>), sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0:2 = "linalg.generic"(%arg0) <{operandSegmentSizes = array<i32: 1, 1>}> ({
    ^bb0(%arg1: f32):
      %2 = "arith.mulf"(%arg1, %arg1) : (f32, f32) -> f32
      "linalg.yield"(%2) : (f32) -> ()
    }) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %1 = "torch.operator"(%0#0) <{name = "onnx.Det"}> : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0#1, %1) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.3.0", "3.13.0"])
def test_every_bundled_model_is_printed_as_the_toolchain_prints_it(
    readers: Readers, version: str, tmp_path: Path
) -> None:
    reader, read = readers(version), 0
    for source in sorted((ROOT / "recipes" / "models").iterdir()):
        if source.suffix == ".py":
            argv = [sys.executable, source]
            done = subprocess.run(argv, capture_output=True, check=True)
            source = tmp_path / f"{source.stem}.mlir"
            source.write_bytes(done.stdout)
        generic = reader.generic_form(source) if source.suffix == ".mlir" else None
        if generic is None:
            continue
        module, text = parse_module(generic), source.read_text()
        printed = print_module(module)
        assert print_module(parse_module(printed)) == printed
        assert reader.generic_if_valid(printed) == reader.generic_if_valid(text)
        positions = filter(None, (item.position for item in module.walk()))
        lines = text.count("\n") + 1
        assert all(1 <= position.line <= lines for position in positions)
        read += 1
    assert read >= 18


def test_results_blocks_and_function_types_are_printed_as_they_are_read() -> None:
    assert print_module(parse_module(f"#unused = 1\n{PRINTED}")) == PRINTED


def test_an_operation_uses_what_its_regions_take_from_outside() -> None:
    make, branch = parse_module(USES).body.operations
    assert free_values(make) == []
    assert free_values(branch) == [make.results[number] for number in (0, 2, 1)]


@pytest.mark.parametrize("text", REFUSED)
def test_other_text_is_rejected_with_its_line(text: str) -> None:
    with pytest.raises(UnparsableError) as error:
        parse_module(f'"builtin.module"() ({{\n{text}\n}}) : () -> ()')
    assert error.value.line == REFUSED[text]
    with pytest.raises(UnparsableError):
        parse_module('"t.a"() : () -> ()')


def read(text: str) -> None:
    """Read a program in every way in which programs are read."""
    dump = DumpReader(WORDS, lambda _: None)
    dump.feed(b"// -----// IR Dump After CSE (cse) //----- //\n" + text.encode())
    module = parse_module(text)
    copy, _ = MlirProgram(CASE, module, ()).copy_module()
    assert print_module(copy) == print_module(module)
    IreeLinter().check(module, [], "rocm")
    list(static_candidates(text))


@pytest.mark.parametrize("brackets", ["()", "<>", "((", "<<"])
def test_nested_brackets_are_read_or_refused(brackets: str) -> None:
    """No reader of IR exhausts Python's stack."""
    opening, closing = brackets
    deep = opening * DEEP + closing * DEEP
    for old, new in {
        PRINTED: deep,
        "unit": f"unit = {deep}",
        "(i1, (i32)": f"(tensor{deep}, (i32)",
        "(i1) -> ()\n}": f"(i1) -> () loc{deep}\n}}",
    }.items():
        assert old in PRINTED
        with suppress(UnparsableError):
            read(PRINTED.replace(old, new))


def test_deep_regions_are_read_and_deeper_ones_are_refused() -> None:
    def nested(depth: int) -> str:
        inner = '"t.in"() ({\n' * depth + "}) : () -> ()\n" * depth
        return PRINTED.replace("}, {\n", f"}}, {{\n{inner}")

    read(nested(95))
    for depth in (150, 20_000):
        with pytest.raises(UnparsableError):
            read(nested(depth))


@pytest.mark.parametrize(
    ("text", "function", "operators"),
    [
        (PRETTY, None, "arith.addf linalg.generic @helper onnx.Det -"),
        (PRETTY, "helper", "math.log"),
        (PRETTY, "missing", "-"),
        (GENERIC, None, "linalg.generic onnx.Det"),
        ("", None, "-"),
        ("func.func @f(%a: i32) -> i32 {\nreturn %a : i32\n}", None, "-"),
    ],
)
def test_each_result_has_its_operator(
    text: str, function: str | None, operators: str
) -> None:
    for number, operator in enumerate(operators.split()):
        seen = result_operator(text.splitlines(), function, number)
        assert seen == operator.strip("-")
