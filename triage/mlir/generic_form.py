"""Parse and print the generic form of MLIR, as `mlir-opt --mlir-print-op-generic`
prints it: one operation a line.

Printed text is canonical: values and blocks are numbered in order, locations are
omitted, and only used aliases are printed.

`result_operator` reads any form of a program, also one that cannot be parsed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

from triage.mlir.tree import (
    Block,
    Module,
    Operation,
    Region,
    SourcePosition,
    Value,
    end_of_bracket,
    entries_text,
    parse_entries,
    split_list,
)

OPERATION = re.compile(r'\s*(?:((?:%[\w$.:-]+(?:,\s*)?)+)\s*=\s*)?"([^"]+)"\(')
"""The beginning of an operation: its results and its name."""

_ALIAS = re.compile(r"^([#!][\w$.-]+) = (.*)", re.MULTILINE)
_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d{1,9}))?")
_LABEL = re.compile(r"\^[\w$.-]+(?=[(:])")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_REST_OF_LINE = re.compile(r".*")
_BLANK = re.compile(r"(?:\s|//.*|^[#!][\w$.-]+ = .*)*", re.MULTILINE)
_POSITION = re.compile(r'"([^"]*)":(\d{1,9}):(\d{1,9})')
_LOCATION_ALIAS = re.compile(r"#loc\d*")
_ALIAS_USE = re.compile(r"[#!][A-Za-z_][\w$]*(?![\w$.<])")
_FUNCTION = re.compile(r'\s*"?(?:\w+\.)?func"?[ (]')
_DEFINITION = re.compile(r'\s*(%[\w$.-]+)(?::\d+)? = "?(call|[a-z_]\w*(?:\.\w+)+)')
_WRAPPED = re.compile(
    r'torch\.operator"?(?: |.*?\bname = )"([\w.]+)"|\bcall\b.*?(@[\w$.-]+)'
)
_SAME_ELEMENTS = re.compile(
    r"\.(?:\w*cast|reshape|expand_shape|collapse_shape|export|barrier|to_vtensor)$"
)
_RETURN = re.compile(r'\s*"?(?:func\.|util\.)?return"?[ (](%[^:)]*)')
_VALUE = re.compile(r"%[\w$.-]+")
_LONGEST = 100  # characters of a name
_DEEPEST = 100  # nested regions; functions that recurse into them need a limit
_MAX_ALIASES = 8  # locations that name each other


class UnparsableError(ValueError):
    """The text is not in the generic form; `line` is the line of the error, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


def parse_module(text: str) -> Module:
    """Parse a module in generic form, with or without locations. Raises UnparsableError
    for anything else.
    """
    parser = _Parser(text)
    try:
        return parser.module()
    except ValueError as error:
        raise UnparsableError(str(error), text.count("\n", 0, parser.at) + 1) from error


class _Parser:
    """Reads a module from `at` on. Raises ValueError at the first place that is not in
    generic form.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        # those of locations, too, which follow the module
        self.aliases: dict[str, str] = dict(_ALIAS.findall(text))
        self.values: dict[str, Value] = {}
        # Control flow may use values above their definition.
        self.undefined: dict[str, Value] = {}

    def module(self) -> Module:
        self._follows("")
        root = self._operation({}, 0)
        blocks = [region.blocks for region in root.regions]
        if root.name != "builtin.module" or list(map(len, blocks)) not in ([0], [1]):
            raise ValueError("expected a module with one block")
        self._follows("")
        trailer = self.text[self.at :].strip()
        if trailer and not trailer.startswith("{-#"):
            raise ValueError("unexpected text after the module")
        if self.undefined:
            raise ValueError(f"{next(iter(self.undefined))} is not defined")
        # an empty module's block is not printed
        root.regions[0].blocks = blocks[0] or [Block()]
        return Module(root, self.aliases, trailer)

    def _follows(self, wanted: str) -> bool:
        """Skip blanks, comments and aliases, and return whether a text follows."""
        blank = _BLANK.match(self.text, self.at)
        if blank:
            self.at = blank.end()
        return self.text.startswith(wanted, self.at)

    def _skip(self, wanted: str) -> None:
        """Skip a text that must follow."""
        if not self._follows(wanted):
            raise ValueError(f"expected {wanted}")
        self.at += len(wanted)

    def _bracketed(self, opening: str) -> str:
        """Read a text in these brackets, if they follow, else none."""
        if not self._follows(opening):
            return ""
        begin, self.at = self.at, end_of_bracket(self.text, self.at)
        text = self.text[begin : self.at]
        if opening == "<{" and not text.endswith("}>"):
            raise ValueError("expected }> after the properties")
        return text[len(opening) : -len(opening)]

    def _operation(self, blocks: dict[str, Block], depth: int) -> Operation:
        """Read an operation and its regions. `blocks` are the blocks of the region
        around it by label, and `depth` counts the regions around it.
        """
        head = OPERATION.match(self.text, self.at)
        if head is None:
            raise ValueError("expected an operation in generic form")
        self.at = head.end() - 1
        operands = [
            self.values.get(name) or self.undefined.setdefault(name, Value(""))
            for name in split_list(self._bracketed("("))
        ]
        operation = Operation(head[2], operands)
        operation.successors = [
            blocks.setdefault(label, Block())
            for label in split_list(self._bracketed("["))
        ]
        operation.properties = parse_entries(self._bracketed("<{"))
        if self._follows("({"):
            if depth == _DEEPEST:
                raise ValueError("regions nested too deeply")
            while self._follows("(") or self._follows(","):
                self.at += 1
                operation.regions.append(self._region(depth + 1))
            self._skip(")")
        operation.attributes = parse_entries(self._bracketed("{"))
        self._read_types(operation, head[1] or "")
        return operation

    def _region(self, depth: int) -> Region:
        region = Region()
        blocks = dict[str, Block]()
        self._skip("{")
        while not self._follows("}"):
            if self._follows("^"):
                self._begin_block(region, blocks)
                continue
            region.blocks = region.blocks or [Block()]
            region.blocks[-1].operations.append(self._operation(blocks, depth))
        self.at += 1
        if any(block not in region.blocks for block in blocks.values()):
            raise ValueError("a block of this region is not defined")
        return region

    def _begin_block(self, region: Region, blocks: dict[str, Block]) -> None:
        label = _LABEL.match(self.text, self.at)
        block = blocks.setdefault(label[0], Block()) if label else None
        if label is None or block is None or block in region.blocks:
            raise ValueError("expected the label of another block")
        region.blocks.append(block)
        self.at = label.end()
        for part in split_list(self._bracketed("(")):
            name, _, typed = part.partition(":")
            kind, _, location = typed.strip().partition(" loc(")
            argument = self._define(name.strip(), kind)
            argument.position = self._position(location)
            block.arguments.append(argument)
        self._skip(":")

    def _read_types(self, operation: Operation, names: str) -> None:
        """Read the types and the location of an operation, and define its results."""
        self._skip(":")
        operands = split_list(self._bracketed("("))
        line = _REST_OF_LINE.match(self.text, self.at)
        assert line
        self.at = line.end()
        arrow, _, typed = line[0].partition("->")
        result, _, location = typed.partition(" loc(")
        types = [result.strip()]
        if types[0].startswith("("):
            if end_of_bracket(types[0], 0) != len(types[0]):
                raise ValueError(f"expected the result types of {operation.name}")
            types = split_list(types[0][1:-1])
        # `%0:2, %1` names the results %0#0, %0#1 and %1
        groups = [(name, int(size or 1), size) for name, size in _RESULT.findall(names)]
        # Checked first, because a damaged program may have any number of names.
        is_complete = sum(count for _, count, _ in groups) == len(types)
        if arrow.strip() or not is_complete or len(operands) != len(operation.operands):
            raise ValueError(
                f"expected a type of {operation.name} for its operands and results"
            )
        result_names = [
            f"{name}#{index}" if size else name
            for name, count, size in groups
            for index in range(count)
        ]
        operation.results = list(map(self._define, result_names, types))
        operation.position = self._position(location)

    def _define(self, name: str, kind: str) -> Value:
        if not kind or "\n" in kind or '"' in _STRING.sub("", kind):
            raise ValueError(f"expected the type of {name}")
        value = self.undefined.pop(name, None) or Value(kind)
        value.type = kind
        self.values[name] = value
        return value

    def _position(self, location: str) -> SourcePosition | None:
        for _ in range(_MAX_ALIASES):
            match = _POSITION.search(location)
            if match:
                return SourcePosition(
                    sys.intern(match[1]), int(match[2]), int(match[3])
                )
            alias = _LOCATION_ALIAS.search(location)
            location = self.aliases.get(alias[0], "") if alias else ""
        return None


def print_module(module: Module) -> str:
    """Return the module's text: one operation a line, regions indented by two
    spaces.
    """
    printer = _Printer()
    printer.operation(module.root, "")
    body = "\n".join(printer.lines)
    aliases = {
        name: text
        for name, text in module.aliases.items()
        if not _LOCATION_ALIAS.fullmatch(name)
    }
    used = set(_ALIAS_USE.findall("\n".join([body, *aliases.values()])))
    lines = [f"{name} = {text}" for name, text in aliases.items() if name in used]
    lines += [body, module.trailer] if module.trailer else [body]
    return "\n".join([*lines, ""])


class _Printer:
    """Prints operations. Values and blocks are numbered as they first appear."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.numbers: dict[Value | Block, int] = {}

    def names(self, items: Sequence[Value | Block], prefix: str = "%") -> list[str]:
        numbers = self.numbers
        return [f"{prefix}{numbers.setdefault(item, len(numbers))}" for item in items]

    def operation(self, operation: Operation, indent: str) -> None:
        """Print an operation with its regions."""
        text = f"{indent}{', '.join(self.names(operation.results))}"
        if operation.results:
            text += " = "
        text += f'"{operation.name}"({", ".join(self.names(operation.operands))})'
        if operation.successors:
            text += f"[{', '.join(self.names(operation.successors, '^bb'))}]"
        if operation.properties:
            text += f" <{{{entries_text(operation.properties)}}}>"
        for index, region in enumerate(operation.regions):
            self.lines.append(f"{indent}}}, {{" if index else f"{text} ({{")
            for block in region.blocks:
                self.block(block, indent, is_entry=block is region.blocks[0])
            text = f"{indent}}})"
        if operation.attributes:
            text += f" {{{entries_text(operation.attributes)}}}"
        operands = ", ".join(value.type for value in operation.operands)
        results = ", ".join(value.type for value in operation.results)
        if len(operation.results) != 1 or results.startswith("("):
            results = f"({results})"
        self.lines.append(f"{text} : ({operands}) -> {results}")

    def block(self, block: Block, indent: str, *, is_entry: bool) -> None:
        names = self.names(block.arguments)
        if names or not is_entry:
            typed = [
                f"{name}: {value.type}"
                for name, value in zip(names, block.arguments, strict=True)
            ]
            arguments = f"({', '.join(typed)})" if typed else ""
            [label] = self.names([block], "^bb")
            self.lines.append(f"{indent}{label}{arguments}:")
        for operation in block.operations:
            self.operation(operation, indent + "  ")


def result_operator(lines: Iterable[str], function: str | None, result: int) -> str:
    """Return the operation that computes a result of a program in any form and dialect,
    which is read line by line. Casts and reshapes of another operation's result stand
    for that operation. Returns "" if none is found, such as in bytecode.

    Args:
        lines: The text of the program.
        function: The function (default: the first public one).
        result: The index of the result.

    >>> begin = "func.func @f(%a: tensor<4xi32>) -> tensor<4xi32> {"
    >>> program = [begin, "  %0 = arith.addi %a, %a", "  return %0", "}"]
    >>> result_operator(program, None, 0)
    'arith.addi'
    """
    operators: dict[str, str] = {}
    is_wanted = False
    for line in lines:
        definition = _DEFINITION.match(line)
        returned = _RETURN.match(line)
        if _FUNCTION.match(line):
            is_wanted = "private" not in line
            if function:
                is_wanted = f"@{function}(" in line or f'"{function}"' in line
        elif is_wanted and definition:
            value, name = definition.groups()
            wrapped = _WRAPPED.search(line, definition.start(2))
            operand = _VALUE.search(line, definition.end())
            if wrapped:
                name = wrapped[1] or wrapped[2]
            elif operand and _SAME_ELEMENTS.search(name):
                name = operators.get(operand[0], name)
            operators[value] = name
        elif is_wanted and returned:
            values = _VALUE.findall(returned[1])
            if result < len(values):
                return operators.get(values[result], "")[:_LONGEST]
            return ""
    return ""
