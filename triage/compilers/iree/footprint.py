"""What a program asks of the machine it runs on, read from its IR after code generation, one operation a line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from math import prod

from triage.mlir.scan import UnbalancedError, closing, entries, split

_OPERATION = re.compile(r'^\s*(?:%[\w$.:, -]+ = )?"([\w$.-]+)"\(')
_GLOBALS = {"llvm.mlir.global": "global_type", "spirv.GlobalVariable": "type"}  # operation -> where its type stands
_SHARED = {"llvm.mlir.global": re.compile(r"\baddr_space = 3 : i32"), "spirv.GlobalVariable": re.compile(r", Workgroup>")}
_DIMENSION = re.compile(r"(\d+) ?x ?")
_SCALAR = re.compile(r"(?:[iu]|[su]i|f|bf|tf)(\d+)|f(4|6|8)E\w+")


def footprint(lines: Iterable[str], dispatching: Collection[str], *, gpu: bool) -> dict[str, float]:
    """`dispatches`: operations of the host's program that start a kernel, one in a loop counted once. `shared_bytes`: the
    most that the workgroups of one kernel share, all buffers of a kernel added up; left out where a type's size is unknown, and
    for a target that has no such memory.

    dispatching: the operations that start a kernel.
    """
    dispatches, kernels, unknown = 0, [0], False
    for line in lines:
        found = _OPERATION.match(line)
        if found is None:
            continue
        name = found[1]
        if name in dispatching:
            dispatches += 1
        elif name == "builtin.module":  # each kernel has one of its own
            kernels.append(0)
        elif name in _GLOBALS and _SHARED[name].search(line):
            size = _global_bytes(line, _GLOBALS[name])
            kernels[-1] += size or 0
            unknown = unknown or size is None
    told = {"dispatches": float(dispatches)}
    return {**told, "shared_bytes": float(max(kernels))} if gpu and not unknown else told


def type_bytes(text: str) -> int | None:
    """The bytes that a value of an LLVM, SPIR-V or built-in type takes without padding between fields; None where that is
    not known.
    """
    text = text.strip()
    if scalar := _SCALAR.fullmatch(text):
        return (int(scalar[1] or scalar[2]) + 7) // 8
    name, bracket, rest = text.partition("<")
    if not bracket or not rest.endswith(">"):
        return None
    inside = rest[:-1].strip()
    match name.rpartition(".")[2]:
        case "ptr":
            return type_bytes(split(inside)[0])
        case "struct":
            if not inside.startswith("("):
                return None
            fields = [type_bytes(re.sub(r" \[\d+[^\]]*\]$", "", field)) for field in split(inside[1 : closing(inside, 0) - 1])]
            return None if None in fields else sum(field or 0 for field in fields)
        case "array" | "vector" | "!vector":
            sizes, at = [], 0
            inside = split(inside)[0]
            while found := _DIMENSION.match(inside, at):
                sizes.append(int(found[1]))
                at = found.end()
            element = type_bytes(inside[at:])
            return None if element is None or not sizes else prod(sizes) * element
    return None


def _global_bytes(line: str, key: str) -> int | None:
    begin = line.find("<{")
    try:
        given = entries(line[begin + 2 : closing(line, begin) - 2]) if begin >= 0 else {}
        return type_bytes(given[key]) if key in given else None
    except UnbalancedError:
        return None
