"""One line of IR in generic MLIR form: `%0 = "dialect.name"(%1, %2) <{...}> : (operand types) -> result types`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from triage.compilers.base import Spellings, Vocabulary

_BEGIN = re.compile(r'\s*(?:%[^"=]* = )?"(?P<name>[^"]+)"\(')
_BLOCK = re.compile(r"\s*\^\w+\s*(?:\((?P<arguments>.*)\))?:(?:\s|$)")
_SYMBOL = re.compile(r'\bsym_name = "((?:[^"\\]|\\.)*)"')
_CHOICE = re.compile(r"(\w+) = (\[[\d\s,\[\]?-]*\]|[\w.@#:-]+(?:<[\w., -]*>)?)")
_SHAPED = re.compile(r"memref<((?:\d+x)+)[a-zA-Z]*?(\d+)")
_LOCATION = re.compile(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_OPENERS, _CLOSERS = "([{<", ")]}>"


@dataclass(frozen=True, slots=True)
class Beginning:
    """An operation's name; `opens`: its regions follow, and its types stand in the line that closes them."""

    name: str
    opens: bool


def beginning(line: str, words: Vocabulary) -> Beginning | None:
    """The operation that begins in a line; None when none does."""
    found = _BEGIN.match(line)
    if found is None:
        return None
    name = found["name"]
    return Beginning(words.operations.get(name, name), line.endswith("({"))


def signature(line: str, words: Vocabulary) -> str:
    """Operand and result types of the operation that ends in a line, in the newest spelling; empty where none are printed."""
    at = line.rfind(" : (")
    return normalised(_placeless(line[at + 3 :]), words) if at >= 0 else ""


def block_arguments(line: str, words: Vocabulary) -> str | None:
    """The types of a block's arguments; None when no block begins in this line."""
    found = _BLOCK.match(line)
    if found is None:
        return None
    types = re.sub(r"%[\w.$-]+: ", "", _placeless(found["arguments"] or ""))
    return normalised(types, words)


def _placeless(text: str) -> str:
    """Without the locations that a compiler may be told to print."""
    return _LOCATION.sub("", text) if " loc(" in text else text


def normalised(text: str, words: Vocabulary) -> str:
    """Types or attributes with the renamings between versions undone."""
    return _normalised(text, words.spellings)


@lru_cache(maxsize=1 << 12)
def _normalised(text: str, spellings: Spellings) -> str:
    for pattern, replacement in spellings:
        text = pattern.sub(replacement, text)
    return text


def symbol(line: str) -> str | None:
    """The symbol an operation defines, where it stands in this line."""
    found = _SYMBOL.search(line)
    return found[1] if found else None


def decisions(line: str, words: Vocabulary) -> Iterator[tuple[str, str]]:
    """What the attributes that hold choices say in this line, as (`attribute.key`, value)."""
    for name in words.decisions:
        start = line.find(f"{name} = ")
        while start >= 0:
            value = _balanced(line, start + len(name) + 3)
            for key, chosen in _CHOICE.findall(normalised(value, words)):
                yield f"{name}.{key}", chosen
            start = line.find(f"{name} = ", start + len(name) + 3 + len(value))


def shared_bytes(types: str, words: Vocabulary) -> int:
    """Bytes of the statically shaped buffers in shared memory among result types; elements count as whole bytes."""
    if words.shared is None or not words.shared.search(types):
        return 0
    results = types.rpartition(" -> ")[2]
    total = 0
    for found in _SHAPED.finditer(results):
        elements = 1
        for extent in found[1].split("x"):
            elements *= int(extent or 1)
        total += elements * max(1, int(found[2]) // 8)
    return total


def _balanced(text: str, start: int) -> str:
    """The attribute that begins at `start`, up to the comma or bracket that ends it."""
    depth = 0
    for at in range(start, len(text)):
        character = text[at]
        if character in _OPENERS:
            depth += 1
        elif character in _CLOSERS and text[at - 1] != "-":
            if depth == 0:
                return text[start:at]
            depth -= 1
        elif character == "," and depth == 0:
            return text[start:at]
    return text[start:]
