"""The operation that computes a result of a program, read line by line from MLIR text
of any dialect, in any form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

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


@lru_cache(maxsize=256)
def operator_in(path: Path, _digest: str, function: str | None, result: int) -> str:
    """Return `result_operator` of a file; empty where it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return result_operator(lines, function, result)
    except OSError:
        return ""


def result_operator(lines: Iterable[str], function: str | None, result: int) -> str:
    """Return the operation that computes a result of a function (default: of the first
    public one), and those inside it.

    It is the same on each release that compiles the program. Empty where none is found,
    such as in bytecode.

    >>> begin = "func.func @f(%a: tensor<4xi32>) -> tensor<4xi32> {"
    >>> program = [begin, "  %0 = arith.addi %a, %a", "  return %0", "}"]
    >>> result_operator(program, None, 0)
    'arith.addi'
    """
    operators: dict[str, list[str]] = {}  # by value; an operation, then those inside it
    is_wanted, depth, level, outer = False, 0, 0, ""
    for line in lines:
        if _FUNCTION.match(line):
            names = (f"@{function}(", f'"{function}"')
            if function:
                is_wanted = any(name in line for name in names)
            else:
                is_wanted = "private" not in line
            level, outer = depth + 1, ""
        elif is_wanted and (found := _DEFINITION.match(line)):
            wrapped = _WRAPPED.search(line, found.start(2))
            if wrapped is None:
                name = found[2]
            else:
                name = wrapped[1] or wrapped[2]
            operand = _VALUE.search(line, found.end())
            if outer and depth > level:
                operators[outer].append(name)
            elif _SAME_ELEMENTS.search(name) and operand and operand[0] in operators:
                operators[found[1]] = operators[operand[0]]
            else:
                level, outer = depth, found[1]
                operators[outer] = [name]
        elif is_wanted and (returned := _RETURN.match(line)):
            values = _VALUE.findall(returned[1])
            if result < len(values):
                name, *inside = operators.get(values[result], [""])
            else:
                name, *inside = [""]
            return (f"{name}[{','.join(sorted(set(inside)))}]" if inside else name)[
                :_LONGEST
            ]
        depth += line.count("{") - line.count("}")
    return ""
