"""Convert HLO, as XLA prints it, to the generic form of MLIR, so that one reader
compares the IR of every compiler family.

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
_IGNORED_ATTRIBUTES = {
    "metadata",
    "frontend_attributes",
    "backend_config",
    "sharding",
    "control-predecessors",
    "origin",
}
_DEEPEST = 50
Computations = dict[str, list[str]]
"""Name of a computation -> its instructions, a line each."""


def generic_form(text: str) -> str:
    """Return a module of HLO as MLIR text."""
    computations: Computations = {}
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


def _operations(computations: Computations, name: str, depth: int) -> Iterator[str]:
    """Yield the lines of a computation. Those nested too deeply are left out."""
    if depth == _DEEPEST:
        return
    indent = "  " * depth
    types: dict[str, str] = {}
    for line in computations.get(name, ()):
        result, type_, opcode, operands, attributes = _instruction(line)
        types[result] = type_
        printed = []
        called = []
        for attribute in attributes:
            key, _, value = attribute.partition("=")
            words = re.findall(r"%?([\w.-]+)", value)
            names = [word for word in words if word in computations]
            called += names
            if key not in _IGNORED_ATTRIBUTES and not names:
                printed.append(f'{key} = "{value}"'.replace("\\", ""))
        if opcode in ("constant", "parameter"):
            printed.append(f'value = "{"".join(operands)}"')
            operands = []
        names = [match[1] for match in map(_NAME.search, operands) if match]
        head = f'{indent}"hlo.{opcode}"()'
        if printed:
            head += f" <{{{', '.join(printed)}}}>"
        opening = f"{head} ({{"
        for computation in called:
            yield opening
            yield from _operations(computations, computation, depth + 1)
            opening = f"{indent}}}, {{"
        if called:
            head = f"{indent}}})"
        operand_types = ", ".join(types.get(operand, "?") for operand in names)
        yield f"{head} : ({operand_types}) -> {type_}"


def _instruction(line: str) -> tuple[str, str, str, list[str], list[str]]:
    """Split an instruction into name, type, opcode, operands and attributes.

    >>> _instruction("  ROOT %y = f32[4]{0} add(f32[4] %x, f32[4] %x), metadata={}")
    ('y', 'f32[4]', 'add', ['f32[4] %x', 'f32[4] %x'], ['metadata={}'])
    """
    result, rest = line.split(" = ", 1)
    first, *attributes = _split(rest, ",")
    type_, *words = _split(first, " ")
    opcode, _, operands = " ".join(words).partition("(")
    name = _NAME.findall(result)[0]
    plain = _LAYOUT.sub("", type_)
    return name, plain, opcode, _split(operands[:-1], ","), attributes


def _split(text: str, separator: str) -> list[str]:
    """Split at the separators that are not in a bracket."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in "({[") - (character in ")}]")
        if character == separator and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
