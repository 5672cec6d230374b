"""Read what host code passes to a kernel: the arguments of its launches, `kernel[grid](x, x.stride(0), BLOCK=128)`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from triage.compilers.base import Constant

_DEPTH = 8  # of names that stand for other names
_INTEGERS = {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {f"float{bits}": f"fp{bits}" for bits in ("16", "32", "64", "8e4nv", "8e5")}
_OLD = {"half": "float16", "float": "float32", "int": "int32", "long": "int64", "bool": "int1", "float8_e4m3fn": "float8e4nv"}
_SHORT = {"int1": "i1", "bfloat16": "bf16", "half": "fp16", "float": "fp32", "int": "i32", "bool": "i1"}
# torch's and triton.language's names of types -> the names in a signature.
TYPES: Mapping[str, str] = {**_INTEGERS, **_FLOATS, **_SHORT}
_COUNTS = {"stride", "numel", "size", "dim", "element_size", "len", "int", "cdiv", "next_power_of_2", "ceil", "floor"}
_FRACTIONS = {"sqrt", "rsqrt", "exp", "log", "log2", "float", "pow"}
_SAME_TYPE = {"contiguous", "view", "reshape", "transpose", "clone"}
_ANNOTATED = (("Tensor", "tensor"), ("bool", "bool"), ("float", "float"), ("int", "int"), ("dtype", "type"), ("str", "text"))


@dataclass(frozen=True, slots=True)
class Passed:
    """An argument of a launch."""

    kind: str
    """int, float, bool, text, tensor or type."""
    value: Constant = None
    """A literal; `tl.float16` for a type; the element type of a tensor in a signature's words."""


_Names = Mapping[str, Sequence[ast.expr | Passed]]


def arguments_passed(tree: ast.Module, kernel: str, parameters: Sequence[str]) -> dict[str, Passed]:
    """Parameter -> what the first launch that shows it passes; also launch options such as `num_warps`."""
    result: dict[str, Passed] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or not (launches := list(_launches(function, kernel))):
            continue
        names: dict[str, list[ast.expr | Passed]] = defaultdict(list)
        for name, value in (*_assigned(ast.walk(function)), *_parameters(function)):
            names[name].append(value)
        for name, value in _assigned(tree.body):
            names.setdefault(name, [value])
        for call in launches:
            positional = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
            keywords = [(word.arg, word.value) for word in call.keywords if word.arg]
            for parameter, argument in (*zip(parameters, positional, strict=False), *keywords):
                if parameter not in result and (passed := _read(argument, names)) is not None:
                    result[parameter] = passed
    return result


def _launches(function: ast.AST, kernel: str) -> Iterator[ast.Call]:
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name))) if name == kernel:
                yield node


def _assigned(statements: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr | Passed]]:
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                yield from zip(map(ast.unparse, targets), values, strict=False)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                if ast.unparse(value).endswith((".shape", ".size()", ".stride()")):
                    yield from ((ast.unparse(target), Passed("int")) for target in targets)


def _parameters(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | Passed]]:
    """What annotations and defaults say about a host function's parameters."""
    defaults = defaults_of(function.args)
    for parameter in [*function.args.args, *function.args.kwonlyargs]:
        annotation = ast.unparse(parameter.annotation) if parameter.annotation else ""
        default = defaults.get(parameter.arg)
        if kind := next((kind for word, kind in _ANNOTATED if word in annotation), None):
            passed = _read(default, {}) if default else None
            yield parameter.arg, Passed(kind, passed.value if passed else None)
        elif default:
            yield parameter.arg, default


def defaults_of(arguments: ast.arguments) -> dict[str, ast.expr]:
    """Parameter -> its default."""
    positional = [*arguments.posonlyargs, *arguments.args][::-1]
    pairs = [*zip(positional, arguments.defaults[::-1], strict=False)]
    pairs += [(each, node) for each, node in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if node]
    return {each.arg: node for each, node in pairs}


def _read(node: ast.expr | Passed | None, names: _Names, depth: int = 0) -> Passed | None:
    """What an expression of host code is, if its text shows it."""

    def first(*nodes: ast.expr | Passed) -> Passed | None:
        return next((passed for each in nodes if (passed := _read(each, names, depth + 1))), None)

    match node:
        case _ if depth > _DEPTH:
            return None
        case Passed():
            return node
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return Passed("text" if isinstance(value, str) else type(value).__name__, value)
        case ast.Name(id=name):
            return first(*names.get(name, ()))
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return Passed("bool")
        case ast.BoolOp(values=values):
            return first(*reversed(values))
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod() | ast.LShift() | ast.RShift() | ast.BitAnd() | ast.BitOr()):
            return Passed("int")
        case ast.BinOp(op=ast.Div() | ast.Pow()):
            return Passed("float")
        case ast.BinOp(left=left, right=right):
            kinds = [passed.kind for side in (left, right) if (passed := first(side))]
            return next((Passed(kind) for kind in ("tensor", "float", "int") if kind in kinds), None)
        case ast.IfExp(body=body, orelse=other):
            return first(body, other)
        case ast.Attribute(attr=name, value=ast.Name(id="torch" | "tl" | "triton")) if name in TYPES:
            return Passed("type", f"tl.{_OLD.get(name, name)}")
        case ast.Attribute(attr="dtype"):
            return Passed("type")
        case ast.Attribute(attr="ndim" | "itemsize") | ast.Subscript(value=ast.Attribute(attr="shape")):
            return Passed("int")
        case ast.Call():
            return _read_call(node, first)
    return None


def _read_call(call: ast.Call, first: Callable[..., Passed | None]) -> Passed | None:
    callee = ast.unparse(call.func).rpartition(".")[2]
    if callee in _COUNTS:
        return Passed("int")
    if callee in _FRACTIONS:
        return Passed("float")
    if callee in ("max", "min", "abs", "round"):
        found = first(*call.args)
        return Passed(found.kind) if found else None
    sources: list[ast.expr] = [word.value for word in call.keywords if word.arg == "dtype"]
    if callee.endswith("_like") or callee == "to":
        sources += call.args[:1]
    elif callee in _SAME_TYPE and isinstance(call.func, ast.Attribute):
        sources.append(call.func.value)
    element = first(*sources)
    if element and element.kind == "type" and element.value:
        return Passed("tensor", TYPES[str(element.value).removeprefix("tl.")])
    return element if element and element.kind == "tensor" else None
