"""Which function is followed, and when the program before it diverges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mlir.printed_ir import WORDS, Op
from tests.mlir.test_ir_reader import dump
from triage.attribute.align import Divergence, Pair, Trace, Traces, find_divergence
from triage.mlir.ir_reader import DumpReader


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


def judge(good: Trace, bad: Trace, named: str = "") -> Divergence:
    return find_divergence(Traces(good, bad, WORDS.passes), named)


def name_of(pair: Pair | None) -> str | None:
    if pair is None:
        return None
    good, bad = pair.passes
    after = bad or good
    assert after
    return after.name


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
    assert (found.good, found.bad) == ("main$1_mul", "main$1_mul")
    assert found.persistent is not None
    assert name_of(found.persistent) == "Tile"
    assert found.persistent.function == ("main$1_mul", "main$1_mul")


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
    assert found.persistent is not None
    assert found.persistent.function is None
    assert name_of(found.persistent) == "Fuse"


def test_equal_up_to_the_failing_pass_is_no_divergence() -> None:
    start = ("Import", module(func("main", "t.add")))
    good = traced(
        start,
        ("Place", module(func("main", "t.next"))),
        ("Later", module(func("main", "t.later"))),
    )
    bad = traced(start, ("Place Failed", module(func("main", "t.half"))))
    assert judge(good, bad).persistent is None


def test_without_a_failed_pass_the_function_that_the_failure_names_is_followed() -> (
    None
):
    start = ("Outline", module(MAIN, device=TWO))
    good = traced(
        start,
        ("Tile", func("main$0_add", "t.a")),
        ("Tile", func("main$1_mul", "t.m")),
        ("End", module(MAIN)),
    )
    bad = traced(
        start,
        ("Tile", func("main$0_add", "t.b")),
        ("Tile", func("main$1_mul", "t.n")),
        ("End", module(MAIN)),
    )
    named = judge(good, bad, "stack frame too large in function 'main$1_mul'")
    assert named.bad == "main$1_mul"
    unnamed = judge(good, bad)
    assert unnamed.bad == "main$0_add"  # the first that diverges


KERNEL = "main$0_add"


def kernel(*types: str, tiles: str = "") -> Op:
    """A function with one `t.add` of each of these types, all with tile sizes."""
    config = {"config": f"#c<tiles = [{tiles}]>"} if tiles else {}
    body = tuple(Op("t.add", (kind,), attributes=config) for kind in types)
    named = {"sym_name": f'"{KERNEL}"'}
    return Op("t.func", regions=(body,), attributes=named | config)


def passes(text: str, start: Op) -> Trace:
    """`Tile:f32+f32;4` is a pass that leaves two operations of these types with these
    tile sizes; `!` marks a failure.
    """
    return traced(("Outline", module(MAIN, device=(start,))), *kernel_dumps(text))


def kernel_dumps(text: str) -> Iterator[tuple[str, Op]]:
    for word in text.split():
        name, _, state = word.partition(":")
        types, _, tiles = state.rstrip("!").partition(";")
        yield (
            f"{name} Failed" if state.endswith("!") else name,
            kernel(*types.split("+"), tiles=tiles),
        )


def named(good: str, bad: str, start: str = "f32") -> str | None:
    found = judge(passes(good, kernel(start)), passes(bad, kernel(start)))
    return name_of(found.persistent)


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        pytest.param(
            "A:f16 B:f16+f16", "A:f64 B:f64", "B", id="operations weigh more than types"
        ),
        pytest.param(
            "B:f16 C:f16+f16",
            "New:f64 B:f16 C:f16",
            "C",
            id="a pass of one release that is undone",
        ),
        pytest.param(
            "A:f32;4 B:f16 C:f16+f16",
            "A:f32;8 B:f16 C:f16",
            "C",
            id="choices that are undone",
        ),
        pytest.param(
            "A:f16 Old:f16+f16 C:f64+f64",
            "A:f16 C:f32",
            "Old",
            id="a pass of the good side only",
        ),
    ],
)
def test_what_weighs_more(good: str, bad: str, expected: str) -> None:
    assert named(good, bad) == expected


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        pytest.param(
            "Pick:f32;4 Lower:f16",
            "Pick:f32;8 Lower:f64",
            ("Pick", None),
            id="an attribute is dropped with its operation",
        ),
        pytest.param(
            "Pick:f32;4 Lower:f16",
            "New:f32+i8 Pick:f32+i8;8 Lower:f64+i8",
            ("Pick", "New"),
            id="for equal operations",
        ),
    ],
)
def test_choices_come_first(
    good: str, bad: str, expected: tuple[str, str | None]
) -> None:
    found = judge(passes(good, kernel("f32")), passes(bad, kernel("f32")))
    assert tuple(name_of(each) for each in (found.persistent, found.other)) == expected


def test_a_pass_that_changes_nothing_before_the_failing_one_is_found() -> None:
    assert (
        named("Tile:f16 Widen:f64 Convert:i64 Later:i8", "Tile:f16 Convert:f16!")
        == "Widen"
    )
    assert named("Tile:f16 Convert:i64 Later:i8", "Tile:f16 Convert:f16!") is None


def bodies(text: str) -> Trace:
    """`Tile:a+b` is a pass that leaves these two operations."""
    dumps = []
    for word in text.split():
        name, _, body = word.partition(":")
        dumps.append((name, func(KERNEL, *(f"t.{one}" for one in body.split("+")))))
    return traced(("Outline", module(MAIN, device=(func(KERNEL, "t.add"),))), *dumps)


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        pytest.param(
            "Tile:add Fetch:add+load Lower:sum",
            "Tile:add+wait Fetch:add+wait+load Lower:sum+hold",
            "Tile",
            id="lowered to others",
        ),
        pytest.param(
            "Tile:add+loop Flatten:add",
            "Tile:add+loop+loop Flatten:add",
            None,
            id="nothing is left",
        ),
    ],
)
def test_the_first_difference_that_is_never_undone_is_found(
    good: str, bad: str, expected: str | None
) -> None:
    found = judge(bodies(good), bodies(bad))
    assert name_of(found.persistent) == expected
