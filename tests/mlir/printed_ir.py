"""Invented programs in generic form, printed in many ways that mean the same."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from triage.mlir.fingerprint import Vocabulary
from triage.mlir.ir_reader import IrReader, PrintedModule

WORDS = Vocabulary(
    functions=frozenset({"t.func"}),
    executables=frozenset({"t.executable"}),
    inert=frozenset({"t.constant"}),
    meaningful=frozenset({"t.position"}),
    bookkeeping=re.compile(r"\((?:index(?:, )?)*\) -> index"),
    operations={"old.load": "new.load"},
    passes={"OldName": "NewName"},
    spellings=(
        (re.compile(r"!old\.tensor<"), "!new.tensor<"),
        (re.compile(r", #descriptor"), ""),
    ),
    decisions=("config",),
    counts={"loads": frozenset({"new.load"})},
)
TYPES = (
    "f32",
    "tensor<4x?xf16>",
    "memref<8x8xf32, #shared>",
    "!new.tensor<readonly:tensor<4xf32>>",
    "vector<4xf32>",
)


@dataclass(frozen=True)
class Op:
    """An operation of a made-up program. `operands` are types; each region is the
    operations of one block.
    """

    name: str
    operands: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    regions: tuple[tuple[Op, ...], ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


_NAMES = st.sampled_from(["t.add", "t.mul", "t.store", "new.load", "t.loop", "t.alloc"])
_SOME_TYPES = st.lists(st.sampled_from(TYPES), max_size=3).map(tuple)
_ATTRIBUTES = st.dictionaries(
    st.sampled_from(["a", "map", "fast", "text"]),
    st.sampled_from(["1 : i64", '"x, {y}"', "[1, 2]"]),
)


def _op(
    regions: st.SearchStrategy[tuple[tuple[Op, ...], ...]],
) -> st.SearchStrategy[Op]:
    return st.builds(
        Op, _NAMES, _SOME_TYPES, _SOME_TYPES, regions, _ATTRIBUTES, _SOME_TYPES
    )


OPS = st.recursive(
    _op(st.just(())),
    lambda inner: _op(
        st.lists(st.lists(inner, min_size=1, max_size=4).map(tuple), max_size=2).map(
            tuple
        )
    ),
    max_leaves=12,
)
BODIES = st.lists(OPS, min_size=1, max_size=8).map(tuple)


def program(body: tuple[Op, ...], name: str = "main") -> Op:
    """A module with one function."""
    return Op(
        "builtin.module",
        regions=(
            (Op("t.func", regions=(body,), attributes={"sym_name": f'"{name}"'}),),
        ),
    )


def _braced(attributes: list[tuple[str, str]], opening: str, closing: str) -> str:
    listed = ", ".join(f"{key} = {value}" for key, value in attributes)
    return f"{opening}{listed}{closing}" if attributes else ""


def printed(op: Op, dice: random.Random | None = None, depth: int = 0) -> str:
    """The program's text. With dice: other value names, attributes and operations in
    another order, with locations.
    """
    shuffled = dice is not None
    pad = "  " * depth
    names = [
        f"%{dice.randrange(1000) if dice else number}"
        for number in range(len(op.operands) + len(op.results))
    ]
    results = f"{', '.join(names[: len(op.results)])} = " if op.results else ""
    position = (
        f' loc("in.mlir":{dice.randrange(99)}:1)'
        if dice and dice.random() < 0.5
        else ""
    )
    attributes = list(op.attributes.items())
    if dice:
        dice.shuffle(attributes)
    # an operation with regions has discardable attributes behind them
    late = [one for one in attributes if one[0] == "config" and op.regions]
    given = _braced([one for one in attributes if one not in late], " <{", "}>")
    head = f'{pad}{results}"{op.name}"({", ".join(names[len(op.results) :])}){given}'
    types = op.results[0] if len(op.results) == 1 else f"({', '.join(op.results)})"
    tail = (
        f"{_braced(late, ' {', '}')} : ({', '.join(op.operands)}) -> {types}{position}"
    )
    if not op.regions:
        return head + tail
    texts = []
    for region in op.regions:
        inner = list(region)
        if dice and shuffled:
            dice.shuffle(inner)
        begins = (
            [
                f"{pad}^bb0({', '.join(f'%arg{number}: {one}' for number, one in enumerate(op.arguments))}):"
            ]
            if op.arguments
            else []
        )
        texts.append(
            "\n".join([*begins, *(printed(one, dice, depth + 1) for one in inner)])
        )
    return f"{head} ({{\n" + f"\n{pad}}}, {{\n".join(texts) + f"\n{pad}}}){tail}"


def read(text: str, words: Vocabulary = WORDS) -> PrintedModule:
    """What a text means."""
    found: list[PrintedModule] = []
    reader = IrReader(words, found.append)
    for line in text.split("\n"):
        reader.line(line)
    [module] = found
    return module


def changed(op: Op, change: int) -> Op:
    """The same with another name, type or nesting, chosen by a number."""
    return [
        replace(op, name="t.other"),
        replace(op, results=(*op.results, "i7")),
        replace(op, operands=(*op.operands, "i7")),
        replace(op, regions=(*op.regions, (Op("t.other", results=("f32",)),))),
    ][change % 4]
