"""Which function is followed, and when the program before it diverges."""

from __future__ import annotations

import pytest

from tests.mlir.printed_ir import WORDS, Op
from tests.mlir.test_ir_reader import dump
from triage.attribute.align import Divergence, Pair, Trace, Traces, find_divergence
from triage.mlir.fingerprint import DumpReader


def func(name: str, *body: str) -> Op:
    return Op(
        "t.func",
        regions=(tuple(Op(one, ("f32",)) for one in body),),
        attributes={"sym_name": f'"{name}"'},
    )


def module(*functions: Op, device: tuple[Op, ...] = ()) -> Op:
    executables = tuple(Op("t.executable", regions=((one,),)) for one in device)
    return Op("builtin.module", regions=((*functions, *executables),))


def traced(*dumps: tuple[str, Op]) -> Trace:
    trace = Trace()
    reader = DumpReader(WORDS, trace.add_dump)
    for name, op in dumps:
        reader.feed(dump(name, op).encode())
    return trace


def judge(good: Trace, bad: Trace) -> Divergence:
    return find_divergence(Traces(good, bad, WORDS.passes))


def name_of(pair: Pair | None) -> str | None:
    names = [after.name for after in (pair.passes if pair else ()) if after]
    return names[-1] if names else None


MAIN = func("main", "t.call")
TWO = (func("main$0_add", "t.add"), func("main$1_mul", "t.mul"))


def test_the_failing_function_is_followed_and_no_other() -> None:
    good = traced(
        ("Outline", module(MAIN, device=TWO)),
        ("Tile", func("main$0_add", "t.a")),
        ("Tile", func("main$1_mul", "t.m")),
    )
    bad = traced(
        ("Outline", module(MAIN, device=TWO)),
        ("Tile", func("main$0_add", "t.other")),  # another function, which compiles
        ("Tile", func("main$1_mul", "t.changed")),
        ("Check Failed", func("main$1_mul", "t.changed")),
    )
    found = judge(good, bad)
    followed = ("main$1_mul", "main$1_mul")
    assert (found.good, found.bad) == followed
    assert found.persistent
    assert (name_of(found.persistent), found.persistent.function) == ("Tile", followed)


def test_a_function_that_always_differed_is_traced_to_the_program() -> None:
    start = ("Import", module(func("main", "t.add", "t.mul")))
    good = traced(
        start,
        ("Fuse", module(func("main", "t.add", "t.mul", "t.fused"))),
        ("Outline", module(MAIN, device=TWO)),
        ("Tile", func("main$0_add", "t.a")),
    )
    bad = traced(
        start,
        ("Fuse", module(func("main", "t.addmul"))),
        ("Outline", module(MAIN, device=(func("main$0_addmul", "t.addmul"),))),
        ("Tile Failed", func("main$0_addmul", "t.addmul")),
    )
    found = judge(good, bad)
    assert found.bad == "main$0_addmul"
    assert found.persistent
    assert (name_of(found.persistent), found.persistent.function) == ("Fuse", None)


def kernel(types: str, tiles: str = "") -> Op:
    """A function with one operation of each of these types, all with tile sizes."""
    config = {"config": f"#c<tiles = [{tiles}]>"} if tiles else {}
    body = tuple(Op("t.add", (kind,), attributes=config) for kind in types.split("+"))
    named = {"sym_name": '"main$0_add"'}
    return Op("t.func", regions=(body,), attributes=named | config)


def passes(text: str) -> Trace:
    """`Tile:f32+f32;4` is a pass that leaves two operations of these types with these
    tile sizes; `!` marks a failure.
    """
    dumps = [("Outline", module(MAIN, device=(kernel("f32"),)))]
    for word in text.split():
        name, _, state = word.partition(":")
        if state.endswith("!"):
            name += " Failed"
        dumps.append((name, kernel(*state.rstrip("!").split(";"))))
    return traced(*dumps)


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        # operations weigh more than types
        ("A:f16 B:f16+f16", "A:f64 B:f64", "B"),
        # a pass of one release, or choices, that are undone
        ("B:f16 C:f16+f16", "New:f64 B:f16 C:f16", "C"),
        ("A:f32;4 B:f16 C:f16+f16", "A:f32;8 B:f16 C:f16", "C"),
        # a pass of the good side only
        ("A:f16 Old:f16+f16 C:f64+f64", "A:f16 C:f32", "Old"),
        # equal up to the failing pass
        ("Tile:f16 Convert:i64 Later:i8", "Tile:f16 Convert:f16!", None),
        # the first difference that is never undone: lowered to others, and none is left
        (
            "Tile:i8 Fetch:i8+i4 Lower:i2",
            "Tile:i8+i1 Fetch:i8+i1+i4 Lower:i2+i1",
            "Tile",
        ),
        ("Tile:i8+i4 Flatten:i8", "Tile:i8+i4+i4 Flatten:i8", None),
    ],
)
def test_what_weighs_more(good: str, bad: str, expected: str | None) -> None:
    assert name_of(judge(passes(good), passes(bad)).persistent) == expected


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        # an attribute is dropped with its operation
        ("Pick:f32;8 Lower:f64", ("Pick", None)),
        ("New:f32+i8 Pick:f32+i8;8 Lower:f64+i8", ("Pick", "New")),
    ],
)
def test_choices_come_first(bad: str, expected: tuple[str, str | None]) -> None:
    found = judge(passes("Pick:f32;4 Lower:f16"), passes(bad))
    assert (name_of(found.persistent), name_of(found.other)) == expected
