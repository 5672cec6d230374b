"""Brackets and regions nested 100,000 deep, and chains of aliases: no reader of IR
exhausts Python's stack.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.mlir.printed_ir import WORDS
from tests.reduce.made import CASE
from triage.compilers.iree.lint import IreeLinter
from triage.mlir.fingerprint import DumpReader
from triage.mlir.generic_form import UnparsableError, parse_module, print_module
from triage.reduce.mlir_program import MlirProgram
from triage.remedy.candidates import static_candidates

DEEP = 100_000
TEXTS = [
    text
    for opening, closing in ("()", "<>")
    for text in (opening * DEEP, opening * DEEP + closing * DEEP)
]


def program(attribute: str = "1 : i32", type_: str = "i32", location: str = "") -> str:
    return (
        '"builtin.module"() ({\n  "func.func"() <{function_type = () -> i32, sym_name = "f"}> ({\n'
        f'    %0 = "t.op"() {{x = {attribute}}} : () -> {type_}{location}\n    "func.return"(%0) : ({type_}) -> ()\n'
        "  }) : () -> ()\n}) : () -> ()\n"
    )


def nested(depth: int) -> str:
    inner = '"t.in"() ({\n' * depth + "}) : () -> ()\n" * depth
    return program().replace('"t.op"()', f'"t.op"() ({{\n{inner}}})')


def read(text: str) -> None:
    """Read a program in every way in which programs are read."""
    dump = DumpReader(WORDS, lambda _: None)
    dump.feed(b"// -----// IR Dump After CSE (cse) //----- //\n" + text.encode())
    module = parse_module(text)
    copy, _ = MlirProgram(CASE, module, ()).copy_module()
    assert print_module(copy) == print_module(module)
    IreeLinter().check(module, [], "rocm")
    list(static_candidates(text))


@pytest.mark.parametrize(
    "text",
    TEXTS,
    ids=lambda text: f"{text[0]} {'closed' if text[0] != text[-1] else 'open'}",
)
def test_nested_brackets_are_read_or_refused(text: str) -> None:
    for damaged in (
        text,
        program(attribute=text),
        program(type_=f"tensor{text}"),
        program(location=f" loc{text}"),
    ):
        with suppress(UnparsableError):
            read(damaged)


def test_deep_regions_are_read_and_deeper_ones_are_refused() -> None:
    read(nested(95))
    for depth in (150, 20_000):
        with pytest.raises(UnparsableError):
            read(nested(depth))
