"""HLO as XLA prints it, in the generic form of MLIR, so that one reader compares the IR
of every compiler family.

A module becomes one function. A computation that an instruction calls becomes a region
of that instruction, because the names and numbers of computations change from release
to release. Layouts, names and metadata are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = ")
_LAYOUT = re.compile(r"\{[^{}]*\}|/\*.*?\*/")
_NAME = re.compile(r"%?([\w.-]+)\s*$")
_UNREAD = {
    "metadata",
    "frontend_attributes",
    "backend_config",
    "sharding",
    "control-predecessors",
    "origin",
}
_DEEPEST = 50


def generic_form(text: str) -> str:
    """Return a module of HLO as MLIR text."""
    computations: dict[str, list[str]] = {}
    lines: list[str] = []
    entry = ""
    for line in text.splitlines():
        head = _COMPUTATION.match(line)
        if head:
            lines = computations[head[2]] = []
            if head[1]:
                entry = head[2]
        elif _INSTRUCTION.match(line):
            lines.append(line)
    body = "\n".join(_operations(computations, entry, 2))
    return (
        f'"builtin.module"() ({{\n  "func.func"() <{{sym_name = "main"}}> '
        f"({{\n{body}\n  }}) : () -> ()\n}}) : () -> ()"
    )


def _operations(
    computations: dict[str, list[str]], name: str, depth: int
) -> Iterator[str]:
    types: dict[str, str] = {}
    indent = "  " * depth
    for line in computations.get(name, ()) if depth < _DEEPEST else ():
        result, rest = line.split(" = ", 1)
        if rest.startswith("("):
            end = _end_of(rest)
        else:
            end = (rest + " ").index(" ")
        kind, (opcode, _, rest) = (
            _LAYOUT.sub("", rest[:end]),
            rest[end:].lstrip().partition("("),
        )
        types[_NAME.findall(result)[0]] = kind
        end = _end_of("(" + rest) - 1
        operands, attributes, called = _split(rest[: end - 1]), [], []
        for part in _split(rest[end:].lstrip(", ")):
            key, _, value = part.partition("=")
            names = [
                each
                for each in re.findall(r"%?([\w.-]+)", value)
                if each in computations
            ]
            called += names
            if key not in _UNREAD and not names:
                attributes.append(f'{key} = "{value}"'.replace("\\", ""))
        if opcode in ("constant", "parameter"):
            attributes.append(f'value = "{"".join(operands)}"')
            operands = []
        kinds = [
            types.get(_NAME.findall(each)[0], "?")
            for each in operands
            if _NAME.findall(each)
        ]
        head = f'{indent}"hlo.{opcode.strip()}"()' + (
            f" <{{{', '.join(attributes)}}}>" if attributes else ""
        )
        tail = f" : ({', '.join(kinds)}) -> {kind}"
        if not called:
            yield head + tail
            continue
        yield head + " ({"
        for number, each in enumerate(called):
            yield from [f"{indent}}}, {{"] if number else []
            yield from _operations(computations, each, depth + 1)
        yield f"{indent}}}){tail}"


def _end_of(text: str) -> int:
    """Return the position behind the bracket that closes the first one."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "({[") - (character in ")}]")
        if not depth:
            return position + 1
    return len(text)


def _split(text: str) -> list[str]:
    """Split at the commas that are in no bracket."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "({[") - (character in ")}]")
        if character == "," and not depth:
            parts.append(text[begin:position].strip())
            begin = position + 1
    if text[begin:].strip():
        return [*parts, text[begin:].strip()]
    return parts
