"""The generic form is parsed and printed without loss in any dialect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.mlir.conftest import Readers
from triage.mlir import UnparsableError, parse_module, print_module
from triage.mlir.tree import free_values

MODELS = ROOT / "recipes" / "models"


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.3.0", "3.13.0"])
def test_every_bundled_model_is_printed_as_the_toolchain_prints_it(
    readers: Readers, version: str, tmp_path: Path
) -> None:
    reader, read = readers(version), 0
    for source in sorted(MODELS.iterdir()):
        if source.suffix == ".py":
            argv = [sys.executable, source]
            done = subprocess.run(argv, capture_output=True, check=True)
            source = tmp_path / f"{source.stem}.mlir"
            source.write_bytes(done.stdout)
        generic = reader.generic_form(source) if source.suffix == ".mlir" else None
        if generic is None:
            continue
        module = parse_module(generic)
        printed, text = print_module(module), source.read_text()
        assert print_module(parse_module(printed)) == printed
        assert reader.generic_if_valid(printed) == reader.generic_if_valid(text)
        positions = filter(None, (item.position for item in module.walk()))
        lines = text.count("\n") + 1
        assert all(1 <= position.line <= lines for position in positions)
        read += 1
    assert read >= 18


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"builtin.module"() ({\n  "t.a"(%x) : (i1) -> ()\n}) : () -> ()', 3),
        ('"builtin.module"() ({\n  "t.a"() <{a = [1 : () -> ()\n}) : () -> ()', 2),
        ('"t.a"() : () -> ()', 1),
        ('"builtin.module"() ({\n  %0:2 = "t.a"() : () -> i1\n}) : () -> ()', 2),
    ],
)
def test_other_text_is_rejected_with_its_line(text: str, line: int) -> None:
    with pytest.raises(UnparsableError) as error:
        parse_module(text)
    assert error.value.line == line


def test_an_operation_uses_what_its_regions_take_from_outside() -> None:
    text = """"builtin.module"() ({
  %0:3 = "t.make"() : () -> (i1, i32, i32)
  %1 = "t.if"(%0#0) ({
  ^bb0(%2: i32):
    %3 = "t.add"(%0#2, %2) : (i32, i32) -> i32
    "t.nest"() ({
      "t.use"(%3, %0#1) : (i32, i32) -> ()
    }) : () -> ()
  }) : (i1) -> i32
}) : () -> ()"""
    make, branch = parse_module(text).body.operations
    assert free_values(branch) == [make.results[number] for number in (0, 2, 1)]


def test_results_blocks_and_function_types_are_printed_as_they_are_read() -> None:
    text = """#map = affine_map<(d0) -> (d0)>
"builtin.module"() ({
  %0, %1 = "t.make"() <{map = #map}> : () -> (i1, (i32) -> i32)
  %2 = "t.wrap"(%1) {unit} : ((i32) -> i32) -> ((i32) -> i32)
  "t.branch"(%0) ({
    "t.jump"(%0)[^bb3] : (i1) -> ()
  ^bb3(%4: i1):
    "t.end"(%4, %2) : (i1, (i32) -> i32) -> ()
  }, {
  }) : (i1) -> ()
}) : () -> ()
"""
    printed = print_module(parse_module(f"#unused = 1\n{text}"))
    assert printed == text
