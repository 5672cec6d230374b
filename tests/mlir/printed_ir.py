"""Programs in generic form, printed in many ways that mean the same."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

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


def program(*body: Op) -> Op:
    """A module with one function."""
    main = Op("t.func", regions=(body,), attributes={"sym_name": '"main"'})
    return Op("builtin.module", regions=((main,),))


def _braced(attributes: list[tuple[str, str]], form: str) -> str:
    listed = ", ".join(f"{key} = {value}" for key, value in attributes)
    return form % listed if listed else ""


def printed(op: Op, dice: random.Random | None = None, depth: int = 0) -> str:
    """The program's text. With dice: other value names, attributes and operations in
    another order, with locations.
    """
    pad, position = "  " * depth, ""
    attributes, regions = list(op.attributes.items()), list(map(list, op.regions))
    names = [f"%{number}" for number in range(len(op.operands + op.results))]
    if dice:
        names = [f"%{dice.randrange(1000)}" for _ in names]
        position = dice.choice(["", ' loc("in.mlir":7:1)'])
        for items in (attributes, *regions):
            dice.shuffle(items)
    results, operands = names[: len(op.results)], names[len(op.results) :]
    # an operation with regions has discardable attributes behind them
    late = [item for item in attributes if item[0] == "config" and regions]
    given = [item for item in attributes if item not in late]
    head = f"{', '.join(results)} = " if results else ""
    head += f'"{op.name}"({", ".join(operands)}){_braced(given, " <{%s}>")}'
    returned = ", ".join(op.results)
    types = f"({', '.join(op.operands)}) -> "
    types += returned if len(op.results) == 1 else f"({returned})"
    tail = f"{_braced(late, ' {%s}')} : {types}{position}"
    if regions:
        texts = [printed_all(body, dice, depth + 1) for body in regions]
        head += " ({\n" + f"\n{pad}}}, {{\n".join(texts) + f"\n{pad}}})"
    return pad + head + tail


def printed_all(body: list[Op], dice: random.Random | None, depth: int) -> str:
    return "\n".join(printed(op, dice, depth) for op in body)


def read(text: str, words: Vocabulary = WORDS) -> PrintedModule:
    """What a text means."""
    found: list[IrDump] = []
    reader = DumpReader(words, found.append)
    reader.feed(f"// -----// IR Dump After CSE (cse) //----- //\n{text}\n".encode())
    [dump] = found
    return dump.module
