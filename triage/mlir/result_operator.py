"""Name the operation that computes a result of a program. MLIR text of any dialect, in
any form, is read line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
_LONGEST = 100  # characters


def result_operator(lines: Iterable[str], function: str | None, result: int) -> str:
    """Return the operation that computes a result. Casts and reshapes of another
    operation's result stand for that operation. Returns "" if none is found, such as in
    bytecode.

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
