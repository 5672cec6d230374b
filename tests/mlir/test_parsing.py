"""The generic form is parsed and printed without loss in any dialect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.mlir.conftest import Readers
from triage.mlir import UnparsableError, parse_module, print_module
from triage.mlir.tree import closing, entries, split, symbols

MODELS = ROOT / "recipes" / "models"
GENERIC = ("--mlir-print-op-generic",)


@pytest.mark.real
@pytest.mark.parametrize("version", ["3.3.0", "3.13.0"])
def test_every_bundled_model_is_printed_as_the_toolchain_prints_it(readers: Readers, version: str, tmp_path: Path) -> None:
    reader, read = readers(version), 0
    for source in sorted(MODELS.iterdir()):
        if source.suffix == ".py":
            made = tmp_path / f"{source.stem}.mlir"
            made.write_text(subprocess.run([sys.executable, source], capture_output=True, text=True, check=True).stdout)
            source = made
        if source.suffix != ".mlir" or (generic := reader.generic(source)) is None:
            continue
        module = parse_module(generic)
        mine = print_module(module)
        assert print_module(parse_module(mine)) == mine
        assert reader.transformed(mine, GENERIC) == reader.transformed(source.read_text(), GENERIC)
        lines = source.read_text().count("\n") + 1
        assert all(one.line is None or 1 <= one.line <= lines for one in module.walk())
        read += 1
    assert read >= 18


def test_operations_have_the_lines_of_the_source() -> None:
    text = (
        '#loc = loc(unknown)\n"builtin.module"() ({\n  "t.a"() : () -> () loc(#loc2)\n  "t.b"() : () -> () loc("x":7:3)\n'
        '  "t.c"() : () -> () loc(callsite(#loc2 at #loc))\n  "t.d"() : () -> () loc(#loc)\n'
        '}) : () -> () loc(#loc)\n#loc2 = loc("x":5:1)\n'
    )
    assert [one.line for one in parse_module(text).walk()] == [5, 7, 5, None]


def test_control_flow_between_blocks_is_kept() -> None:
    text = (
        '"builtin.module"() ({\n  "func.func"() <{function_type = (i1) -> (), sym_name = "f"}> ({\n  ^bb0(%arg0: i1):\n'
        '    "cf.cond_br"(%arg0)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()\n  ^bb1:\n'
        '    "cf.br"()[^bb2] : () -> ()\n  ^bb2:\n    "func.return"() : () -> ()\n  }) : () -> ()\n}) : () -> ()\n'
    )
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("module {}", 1),
        ('"builtin.module"() ({\n  "t.a"(%x) : (i1) -> ()\n}) : () -> ()', 3),
        ('"builtin.module"() ({\n  "t.a"() <{a = [1 : () -> ()\n}) : () -> ()', 2),
        ('"builtin.module"() ({\n  "t.a"() : () -> ()\n', 3),
        ('"builtin.module"() ({\n}) : () -> ()\nand more', 3),
        ('"t.a"() : () -> ()', 1),
        ('"builtin.module"() ({\n  %0:2 = "t.a"() : () -> i1\n}) : () -> ()', 2),
    ],
)
def test_other_text_is_rejected_with_its_line(text: str, line: int) -> None:
    with pytest.raises(UnparsableError) as error:
        parse_module(text)
    assert error.value.line == line


def test_brackets_strings_and_arrows() -> None:
    text = '<"a>\\">", affine_map<(d0) -> (d0)>, affine_set<(d0) : (d0 - 3 >= 0)>>, rest'
    assert closing(text, 0) == len(text) - len(", rest")
    assert split('a, f<b, c>, "d, e", (g, h) -> i') == ["a", "f<b, c>", '"d, e"', "(g, h) -> i"]
    assert split("") == []
    assert entries('a = 1, b, "c.d" = [2, 3]') == {"a": "1", "b": "", '"c.d"': "[2, 3]"}
    assert list(symbols('#hal.device.promise<@__device_7>, @"odd name"')) == ["__device_7", "odd name"]
