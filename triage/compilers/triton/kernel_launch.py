"""Read what host code passes to a kernel: the arguments of its launches, `kernel[grid](x, x.stride(0), BLOCK=128)`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from triage.compilers.base import Constant

_DEPTH = 8  # of names that stand for other names
_INTEGERS = {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {f"float{bits}": f"fp{bits}" for bits in ("16", "32", "64", "8e4nv", "8e5")}
_OLD = {"half": "float16", "float": "float32", "int": "int32", "long": "int64", "bool": "int1"}
_SHORT = {"int1": "i1", "bfloat16": "bf16", "half": "fp16", "float": "fp32", "int": "i32", "long": "i64", "bool": "i1"}
# torch's and triton.language's names of types -> the names in a signature.
TYPES: Mapping[str, str] = {**_INTEGERS, **_FLOATS, **_SHORT}
_COUNTS = {"stride", "numel", "size", "dim", "element_size", "len", "int", "cdiv", "next_power_of_2", "ceil", "floor"}


@dataclass(frozen=True, slots=True)
class HostValue:
    """What host code passes to a kernel."""

    kind: str
    """int, float, bool, text, tensor or type."""
    value: Constant = None
    """A literal; `tl.float16` for a type; the element type of a tensor in a signature's words."""


Names = Sequence[tuple[str, ast.expr]]
"""Names and what they are bound to; the first value of a name that can be read counts."""


def arguments_passed(tree: ast.Module, kernel: str, parameters: Sequence[str]) -> dict[str, HostValue]:
    """Parameter -> what the first launch that shows it passes; also launch options such as `num_warps`."""
    result: dict[str, HostValue] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)]
        launches = [call for call in calls if ast.unparse(call.func).partition("[")[0].rpartition(".")[2] == kernel]
        names = [*assigned(ast.walk(function)), *defaults_of(function.args).items(), *assigned(tree.body)] if launches else []
        for call in launches:
            positional = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
            keywords = [(word.arg, word.value) for word in call.keywords if word.arg]
            for parameter, argument in (*zip(parameters, positional, strict=False), *keywords):
                if parameter not in result and (passed := read_value(argument, names)) is not None:
                    result[parameter] = passed
    return result


def assigned(statements: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name with a value that is assigned to it, or that it is a part of."""
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                yield from zip(map(ast.unparse, targets), getattr(value, "elts", [value] * len(targets)), strict=False)
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                yield ast.unparse(target), value


def defaults_of(arguments: ast.arguments) -> dict[str, ast.expr]:
    """Parameter -> its default."""
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][::-1]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return dict(zip(names, arguments.defaults[::-1], strict=False)) | {each.arg: node for each, node in keywords if node}


def read_value(node: ast.expr, names: Names, depth: int = 0) -> HostValue | None:
    """What an expression of host code is, if its text shows it; of a list, an element."""
    same: list[ast.expr] = []  # expressions that this one may be equal to
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return HostValue("text" if isinstance(value, str) else type(value).__name__, value)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return HostValue("bool")
        case ast.BinOp(op=ast.Div()):
            return HostValue("float")
        case ast.Attribute(attr=name, value=ast.Name(id="torch" | "tl" | "triton")) if name in TYPES:
            return HostValue("type", f"tl.{_OLD.get(name, name)}")
        case ast.Attribute(attr="dtype" | "shape" as name):
            return HostValue("type" if name == "dtype" else "int")
        case ast.Call(func=function):
            callee = ast.unparse(function).rpartition(".")[2]
            types = [word.value for word in node.keywords if word.arg == "dtype"] + (node.args[:1] if callee == "to" else [])
            element = read_value(types[0], names, _DEPTH) if types else None
            if element and element.kind == "type" and element.value:
                return HostValue("tensor", TYPES[str(element.value).removeprefix("tl.")])
            return HostValue("int") if callee in _COUNTS else None
        case ast.Name(id=name) if depth < _DEPTH:
            same += [value for each, value in names if each == name]
        case ast.IfExp(body=first, orelse=second):
            same += (first, second)
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            same += values
    return next((passed for passed in (read_value(each, names, depth + 1) for each in same) if passed), None)
