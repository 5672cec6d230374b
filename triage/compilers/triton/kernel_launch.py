"""What host code passes to a kernel: the arguments of its launches, `kernel[grid](x, x.stride(0), BLOCK=128)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from triage.compilers.base import Constant

_DEPTH = 8  # of names that stand for other names
# torch's and triton.language's names of types -> the names in a signature.
TYPES: Mapping[str, str] = {
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "float64": "fp64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int": "i32",
    "int64": "i64",
    "long": "i64",
    "bool": "i1",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8e4nv": "fp8e4nv",
    "float8e5": "fp8e5",
    "int1": "i1",
}
_LANGUAGE = {"half": "float16", "float": "float32", "int": "int32", "long": "int64", "bool": "int1"}
_COUNTS = frozenset(
    {
        "stride",
        "numel",
        "size",
        "dim",
        "element_size",
        "nelement",
        "data_ptr",
        "ndimension",
        "len",
        "int",
        "cdiv",
        "next_power_of_2",
        "device_count",
        "ceil",
        "floor",
    }
)
_TENSORS = frozenset({"empty", "zeros", "ones", "full", "rand", "randn", "randint", "arange", "tensor", "empty_strided"})
_LIKE = frozenset(
    {
        "empty_like",
        "zeros_like",
        "ones_like",
        "full_like",
        "contiguous",
        "view",
        "reshape",
        "transpose",
        "permute",
        "flatten",
        "clone",
    }
)
_FRACTIONS = frozenset({"sqrt", "rsqrt", "exp", "log", "log2", "float", "pow"})


class PassedKind(StrEnum):
    """The kind of a value that is passed."""

    INTEGER = "integer"
    FLOAT = "float"
    TRUTH = "truth"
    TEXT = "text"
    TENSOR = "tensor"
    TYPE = "type"


@dataclass(frozen=True, slots=True)
class Passed:
    """An argument of a launch. value: a literal; of a tensor and a type, the element type in a signature's words."""

    kind: PassedKind
    value: Constant = None


def arguments_passed(tree: ast.Module, kernel: str, parameters: Sequence[str]) -> dict[str, Passed]:
    """Parameter -> what the first launch that shows it passes; also launch options such as `num_warps`."""
    result: dict[str, Passed] = {}
    values = _assigned(tree)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in launches_in(function):
            if launched(call) != kernel:
                continue
            scope = _Scope(_assigned(function), values, _annotated(function))
            positional = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
            keywords = {word.arg: word.value for word in call.keywords if word.arg}
            for name, value in (*zip(parameters, positional, strict=False), *keywords.items()):
                if name not in result and (passed := scope.kind(value)) is not None:
                    result[name] = passed
    return result


def launches_in(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of the form `kernel[grid](...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and launched(node) is not None:
            yield node


def launched(call: ast.Call) -> str | None:
    """The kernel that a call launches; None for other calls."""
    match call.func:
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return None


def type_constant(name: str) -> str | None:
    """`tl.float16` for torch's or Triton's name of it; None for another word."""
    return f"tl.{_LANGUAGE.get(name, name)}" if name in TYPES else None


def _assigned(node: ast.AST) -> dict[str, ast.expr]:
    """Name -> the first value that is assigned to it; an element of a shape is a count."""
    assigned: dict[str, ast.expr] = {}
    body = ast.walk(node) if isinstance(node, ast.FunctionDef) else ast.iter_child_nodes(node)
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                assigned.setdefault(name, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                assigned.setdefault(name, value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
                assigned |= {
                    target.id: value
                    for target, value in zip(targets, values, strict=True)
                    if isinstance(target, ast.Name) and target.id not in assigned
                }
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Attribute(attr="shape")):
                assigned |= {target.id: ast.Name("len") for target in targets if isinstance(target, ast.Name)}
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call(func=ast.Attribute(attr="size" | "stride"))):
                assigned |= {target.id: ast.Name("len") for target in targets if isinstance(target, ast.Name)}
    return assigned


def _annotated(function: ast.FunctionDef) -> dict[str, tuple[str, ast.expr | None]]:
    """Parameter of host code -> its annotation and default."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    defaults = [None] * (len(parameters) - len(function.args.defaults)) + list(function.args.defaults)
    pairs = [*zip(parameters, defaults, strict=True), *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)]
    return {each.arg: (ast.unparse(each.annotation) if each.annotation else "", default) for each, default in pairs}


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names of the function that launches, and of its file."""

    local: Mapping[str, ast.expr]
    outer: Mapping[str, ast.expr]
    parameters: Mapping[str, tuple[str, ast.expr | None]]

    def kind(self, node: ast.expr, depth: int = 0) -> Passed | None:
        """What an expression of host code is; None when its text does not show it."""
        if depth > _DEPTH:
            return None
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return Passed(_LITERALS[type(value)], value)
            case ast.Name(id=name):
                return self._name(name, depth)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return Passed(PassedKind.TRUTH)
            case ast.UnaryOp(operand=inner):
                return self.kind(inner, depth + 1)
            case ast.BinOp(left=left, op=op, right=right):
                return self._sum(left, op, right, depth)
            case ast.IfExp(body=first, orelse=second):
                return self.kind(first, depth + 1) or self.kind(second, depth + 1)
            case ast.Attribute(attr=name, value=ast.Name(id="torch" | "tl" | "triton")) if name in TYPES:
                return Passed(PassedKind.TYPE, TYPES[name])
            case ast.Attribute(attr="dtype") | ast.Subscript(value=ast.Name(id=str())) if "dtype" in ast.unparse(node):
                return Passed(PassedKind.TYPE)
            case (
                ast.Attribute(attr="ndim" | "itemsize" | "multi_processor_count")
                | ast.Subscript(value=ast.Attribute(attr="shape"))
            ):
                return Passed(PassedKind.INTEGER)
            case ast.Call(func=function):
                return self._call(node, ast.unparse(function).rpartition(".")[2], depth)
        return None

    def _name(self, name: str, depth: int) -> Passed | None:
        if name == "len":
            return Passed(PassedKind.INTEGER)
        value = self.local.get(name, None if name in self.parameters else self.outer.get(name))
        # `scale = scale or 1.0` says no more than its parameter does.
        if value is not None and (passed := self.kind(value, depth + 1)) is not None:
            return passed
        annotation, default = self.parameters.get(name, ("", None))
        for word, kind in _ANNOTATIONS:
            if word in annotation:
                literal = default.value if isinstance(default, ast.Constant) else None
                kept = kind is not PassedKind.TENSOR and isinstance(literal, (bool, int, float, str))
                return Passed(kind, literal if kept else None)  # type: ignore[arg-type]
        return self.kind(default, depth + 1) if default is not None else None

    def _sum(self, left: ast.expr, op: ast.operator, right: ast.expr, depth: int) -> Passed | None:
        if isinstance(op, (ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr)):
            return Passed(PassedKind.INTEGER)
        sides = [self.kind(side, depth + 1) for side in (left, right)]
        kinds = {side.kind for side in sides if side}
        if PassedKind.TENSOR in kinds:
            return Passed(PassedKind.TENSOR)
        is_negative_power = (
            isinstance(op, ast.Pow) and isinstance(right, (ast.UnaryOp, ast.Constant)) and "." in ast.unparse(right)
        )
        if isinstance(op, ast.Div) or is_negative_power or PassedKind.FLOAT in kinds:
            return Passed(PassedKind.FLOAT)
        return Passed(PassedKind.INTEGER) if PassedKind.INTEGER in kinds else None

    def _call(self, call: ast.Call, name: str, depth: int) -> Passed | None:
        if name in _COUNTS:
            return Passed(PassedKind.INTEGER)
        if name in _FRACTIONS:
            return Passed(PassedKind.FLOAT)
        if name == "bool":
            return Passed(PassedKind.TRUTH)
        if name in ("max", "min", "abs", "round"):
            return next((passed for value in call.args if (passed := self.kind(value, depth + 1))), None)
        if name in _TENSORS or name in _LIKE or name.startswith("new_"):
            element = next((self.kind(word.value, depth + 1) for word in call.keywords if word.arg == "dtype"), None)
            like = call.args[0] if name.endswith("_like") and call.args else None
            if name in _LIKE and like is None and isinstance(call.func, ast.Attribute):
                like = call.func.value
            if element is None and like is not None:
                element = self.kind(like, depth + 1)
            value = element.value if element and element.kind in (PassedKind.TYPE, PassedKind.TENSOR) else None
            return Passed(PassedKind.TENSOR, value)
        if name == "to" and isinstance(call.func, ast.Attribute) and call.args:
            element = self.kind(call.args[0], depth + 1)
            return Passed(PassedKind.TENSOR, element.value if element and element.kind is PassedKind.TYPE else None)
        return None


_LITERALS = {bool: PassedKind.TRUTH, int: PassedKind.INTEGER, float: PassedKind.FLOAT, str: PassedKind.TEXT}
_ANNOTATIONS = (
    ("Tensor", PassedKind.TENSOR),
    ("bool", PassedKind.TRUTH),
    ("float", PassedKind.FLOAT),
    ("int", PassedKind.INTEGER),
    ("dtype", PassedKind.TYPE),
    ("str", PassedKind.TEXT),
)
