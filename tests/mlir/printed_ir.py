"""Programs in generic form, printed in many ways that mean the same."""

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
