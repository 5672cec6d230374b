"""Which function is followed, and when the program before it diverges."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mlir.printed_ir import WORDS, Op
from tests.mlir.test_ir_reader import dump
from triage.attribute.align import Pair, Trace, Traces, find_divergence
from triage.mlir.fingerprint import DumpReader

KERNEL = "main$0_add"


def function(text: str) -> Op:
    """`main mul /f16 [4]` has a multiplication, an addition of another type, and tile
    sizes.
    """
    head, _, tiles = text.partition(" [")
    name, *words = head.split()
    config = {"config": f"#c<tiles = [{tiles}>"} if tiles else {}
    parts = (word.partition("/") for word in words)
    body = tuple(
        Op(f"t.{kind or 'add'}", (type_ or "f32",), attributes=config)
        for kind, _, type_ in parts
    )
    named = {"sym_name": f'"{name}"'}
    return Op("t.func", regions=(body,), attributes=named | config)


def traced(*lines: str) -> Trace:
    """Read a dump for each line: its pass, and its functions. `main` comes with the
    whole program, in which those with a `$` are in executables.
    """
    trace = Trace()
    reader = DumpReader(WORDS, trace.add_dump)
    for line in lines:
        name, _, functions = line.partition(": ")
        op, *device = map(function, functions.split(" | "))
        if functions.startswith("main "):
            inside = (Op("t.executable", regions=((each,),)) for each in device)
            op = Op("builtin.module", regions=((op, *inside),))
        reader.feed(dump(name, op).encode())
    return trace


def judge(good: Trace, bad: Trace) -> Any:
    return find_divergence(Traces(good, bad, WORDS.passes))


def name_of(pair: Pair | None) -> str | None:
    names = [after.name for after in (pair.passes if pair else ()) if after]
    return names[-1] if names else None


def test_the_failing_function_is_followed_and_no_other() -> None:
    outlined = f"Outline: main call | {KERNEL} add | main$1_mul mul"
    # the first function differs, but compiles
    changed = [f"Tile: {KERNEL} other", "Tile: main$1_mul changed"]
    found = judge(
        traced(outlined, f"Tile: {KERNEL} a", "Tile: main$1_mul m"),
        traced(outlined, *changed, "Check Failed: main$1_mul changed"),
    )
    assert (found.good, found.bad) == ("main$1_mul", "main$1_mul")
    assert found.persistent.function == (found.good, found.bad)
    assert name_of(found.persistent) == "Tile"


def test_a_function_that_always_differed_is_traced_to_the_program() -> None:
    found = judge(
        traced(
            "Import: main add mul",
            "Fuse: main add mul fused",
            f"Outline: main call | {KERNEL} add | main$1_mul mul",
            f"Tile: {KERNEL} a",
        ),
        traced(
            "Import: main add mul",
            "Fuse: main addmul",
            "Outline: main call | main$0_addmul addmul",
            "Tile Failed: main$0_addmul addmul",
        ),
    )
    assert found.bad == "main$0_addmul"
    assert (name_of(found.persistent), found.persistent.function) == ("Fuse", None)


def run(passes: str) -> Trace:
    """Trace passes over one function, each with the operations that it leaves; `!`
    marks one that failed.
    """
    lines = [f"Outline: main call | {KERNEL} add"]
    for step in passes.split(", "):
        name, operations = step.split(" ", 1)
        lines.append(f"{name.replace('!', ' Failed')}: {KERNEL} {operations}")
    return traced(*lines)


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        # operations weigh more than types
        ("A /f16, B /f16 /f16", "A /f64, B /f64", ("B", None)),
        # a pass of one release, or choices, that are undone
        ("B /f16, C /f16 /f16", "New /f64, B /f16, C /f16", ("C", None)),
        ("A add [4], B /f16, C /f16 /f16", "A add [8], B /f16, C /f16", ("C", None)),
        # a pass of the good side only
        ("A /f16, Old /f16 /f16, C /f64 /f64", "A /f16, C add", ("Old", None)),
        # equal up to the failing pass
        ("A /f16, B /i64, Later /i8", "A /f16, B! /f16", (None, None)),
        # the first difference that is never undone: lowered to others, and none is left
        ("A /i8, B /i8 /i4, C /i2", "A /i8 /i1, B /i8 /i1 /i4, C /i2 /i1", ("A", None)),
        ("A /i8 /i4, B /i8", "A /i8 /i4 /i4, B /i8", (None, None)),
        # choices come first; an attribute is dropped with its operation
        ("Pick add [4], C /f16", "Pick add [8], C /f64", ("Pick", None)),
        (
            "Pick add [4], C /f16",
            "New add /i8, Pick add /i8 [8], C /f64 /i8",
            ("Pick", "New"),
        ),
    ],
)
def test_what_weighs_more(good: str, bad: str, expected: tuple[str, str]) -> None:
    found = judge(run(good), run(bad))
    assert (name_of(found.persistent), name_of(found.other)) == expected
