"""Invented programs in generic form, printed in many ways that mean the same."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace

from triage.mlir.fingerprint import DumpReader, IrDump, PrintedModule, Vocabulary

WORDS = Vocabulary(
    functions=frozenset({"t.func"}),
    executables=frozenset({"t.executable"}),
    inert=frozenset({"t.constant"}),
    bookkeeping=re.compile(r"\((?:index(?:, )?)*\) -> index"),
    operations={"old.load": "new.load"},
    passes={"OldName": "NewName"},
    spellings=(
        (re.compile(r"!old\.tensor<"), "!new.tensor<"),
        (re.compile(r", #descriptor"), ""),
    ),
    decisions=("config",),
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


_NAMES = ("t.add", "t.mul", "t.store", "new.load", "t.loop", "t.alloc")
_ATTRIBUTES = {"a": "1 : i64", "map": '"x, {y}"', "text": "[1, 2]"}


def invented(dice: random.Random, depth: int = 0) -> tuple[Op, ...]:
    """Some operations, of which a few have regions."""

    def types() -> tuple[str, ...]:
        return tuple(dice.choices(TYPES, k=dice.randrange(4)))

    def regions() -> tuple[tuple[Op, ...], ...]:
        count = dice.randrange(3) if depth < 2 else 0
        return tuple(invented(dice, depth + 1) for _ in range(count))

    return tuple(
        Op(dice.choice(_NAMES), types(), types(), regions(), _ATTRIBUTES)
        for _ in range(dice.randint(1, 4))
    )


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
    pad, position = "  " * depth, ""
    attributes, regions = list(op.attributes.items()), list(map(list, op.regions))
    names = [f"%{number}" for number in range(len(op.operands) + len(op.results))]
    if dice:
        names = [f"%{dice.randrange(1000)}" for _ in names]
        position = dice.choice(["", ' loc("in.mlir":7:1)'])
        for items in (attributes, *regions):
            dice.shuffle(items)
    results = f"{', '.join(names[: len(op.results)])} = " if op.results else ""
    # an operation with regions has discardable attributes behind them
    late = [item for item in attributes if item[0] == "config" and regions]
    given = _braced([item for item in attributes if item not in late], " <{", "}>")
    head = f'{pad}{results}"{op.name}"({", ".join(names[len(op.results) :])}){given}'
    types = op.results[0] if len(op.results) == 1 else f"({', '.join(op.results)})"
    end = _braced(late, " {", "}")
    tail = f"{end} : ({', '.join(op.operands)}) -> {types}{position}"
    if not regions:
        return head + tail
    texts = ["\n".join(printed(inner, dice, depth + 1) for inner in r) for r in regions]
    return f"{head} ({{\n" + f"\n{pad}}}, {{\n".join(texts) + f"\n{pad}}}){tail}"


def read(text: str, words: Vocabulary = WORDS) -> PrintedModule:
    """What a text means."""
    found: list[IrDump] = []
    reader = DumpReader(words, found.append)
    reader.feed(f"// -----// IR Dump After CSE (cse) //----- //\n{text}\n".encode())
    [dump] = found
    return dump.module


def changes(op: Op) -> list[Op]:
    """The same with another name, type or nesting."""
    return [
        replace(op, name="t.other"),
        replace(op, results=(*op.results, "i7")),
        replace(op, operands=(*op.operands, "i7")),
        replace(op, regions=(*op.regions, (Op("t.other", results=("f32",)),))),
    ]
