"""Read what host code passes to a kernel: the arguments of its launches, `kernel[grid](x, x.stride(0), BLOCK=128)`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triage.compilers.base import Constant

_DEPTH = 8  # of names that stand for other names
_INTEGERS = {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8e4nv": "fp8e4nv",
    "float8e5": "fp8e5",
}
_OLD = {"half": "float16", "float": "float32", "int": "int32", "long": "int64", "bool": "int1", "float8_e4m3fn": "float8e4nv"}
# torch's and triton.language's names of types -> the names in a signature.
TYPES: Mapping[str, str] = {**_INTEGERS, **_FLOATS, "int1": "i1", "half": "fp16", "float": "fp32", "int": "i32", "bool": "i1"}
_COUNTS = {"stride", "numel", "size", "dim", "element_size", "len", "int", "cdiv", "next_power_of_2", "ceil", "floor"}
_FRACTIONS = {"sqrt", "rsqrt", "exp", "log", "log2", "float", "pow"}
_TENSORS = {"empty", "zeros", "ones", "full", "rand", "randn", "randint", "arange", "tensor", "empty_strided"}
_LIKE = {"empty_like", "zeros_like", "ones_like", "full_like", "contiguous", "view", "reshape", "transpose", "clone", "to"}
_ANNOTATED = (("Tensor", "tensor"), ("bool", "bool"), ("float", "float"), ("int", "int"), ("dtype", "type"), ("str", "text"))
_SHAPE = ast.Call(ast.Name("len"), [], [])  # stands for a number of elements


@dataclass(frozen=True, slots=True)
class Passed:
    """An argument of a launch."""

    kind: str
    """int, float, bool, text, tensor or type."""
    value: Constant = None
    """A literal; `tl.float16` for a type; the element type of a tensor in a signature's words."""


def arguments_passed(tree: ast.Module, kernel: str, parameters: Sequence[str]) -> dict[str, Passed]:
    """Parameter -> what the first launch that shows it passes; also launch options such as `num_warps`."""
    result: dict[str, Passed] = {}
    outer = _assigned(tree.body)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        launches = [node for node in ast.walk(function) if isinstance(node, ast.Call) and launched(node) == kernel]
        if not launches:
            continue
        scope = _Scope(_assigned(ast.walk(function)), outer, _parameters(function))
        for call in launches:
            positional = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
            keywords = {word.arg: word.value for word in call.keywords if word.arg}
            for name, value in (*zip(parameters, positional, strict=False), *keywords.items()):
                if name not in result and (passed := scope.read(value)) is not None:
                    result[name] = passed
    return result


def launched(call: ast.Call) -> str | None:
    """The kernel that a call launches; None for other calls."""
    match call.func:
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return None


def _assigned(statements: object) -> dict[str, ast.expr]:
    """Name -> the first value that is assigned to it."""
    assigned: dict[str, ast.expr] = {}
    for statement in statements:  # type: ignore[attr-defined]
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value):
                if value is not None:
                    assigned.setdefault(name, value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                values = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(targets) else []
                if not values and ast.unparse(value).endswith((".shape", ".size()", ".stride()")):
                    values = [_SHAPE] * len(targets)
                for target, each in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name):
                        assigned.setdefault(target.id, each)
    return assigned


def _parameters(function: ast.FunctionDef) -> dict[str, tuple[str, ast.expr | None]]:
    """Parameter of host code -> its annotation and default."""
    positional = [*function.args.posonlyargs, *function.args.args]
    defaults = [None] * (len(positional) - len(function.args.defaults)) + list(function.args.defaults)
    pairs = [*zip(positional, defaults, strict=True), *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)]
    return {each.arg: (ast.unparse(each.annotation) if each.annotation else "", default) for each, default in pairs}


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names of the function that launches, and of its file."""

    local: Mapping[str, ast.expr]
    outer: Mapping[str, ast.expr]
    parameters: Mapping[str, tuple[str, ast.expr | None]]

    def read(self, node: ast.expr | None, depth: int = 0) -> Passed | None:
        """What an expression of host code is; None when its text does not show it."""
        if depth > _DEPTH:
            return None
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return Passed("text" if isinstance(value, str) else type(value).__name__, value)
            case ast.Name(id=name):
                return self._name(name, depth)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return Passed("bool")
            case ast.BinOp(left=left, op=op, right=right):
                return self._sum(left, op, right, depth)
            case ast.IfExp(body=first, orelse=second):
                return self.read(first, depth + 1) or self.read(second, depth + 1)
            case ast.Attribute(attr=name, value=ast.Name(id="torch" | "tl" | "triton")) if name in TYPES:
                return Passed("type", f"tl.{_OLD.get(name, name)}")
            case ast.Attribute(attr="dtype") | ast.Subscript(value=ast.Name()) if "dtype" in ast.unparse(node):
                return Passed("type")
            case ast.Attribute(attr="ndim" | "itemsize") | ast.Subscript(value=ast.Attribute(attr="shape")):
                return Passed("int")
            case ast.Call(func=function):
                return self._call(node, ast.unparse(function).rpartition(".")[2], depth)
        return None

    def _name(self, name: str, depth: int) -> Passed | None:
        value = self.local.get(name, None if name in self.parameters else self.outer.get(name))
        # `scale = scale or 1.0` says no more than its parameter does.
        if value is not None and (passed := self.read(value, depth + 1)) is not None:
            return passed
        annotation, default = self.parameters.get(name, ("", None))
        for word, kind in _ANNOTATED:
            if word in annotation:
                literal = default.value if isinstance(default, ast.Constant) and kind != "tensor" else None
                return Passed(kind, literal if isinstance(literal, (bool, int, float, str)) else None)
        return self.read(default, depth + 1)

    def _sum(self, left: ast.expr, op: ast.operator, right: ast.expr, depth: int) -> Passed | None:
        if isinstance(op, (ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr)):
            return Passed("int")
        kinds = {side.kind for side in (self.read(left, depth + 1), self.read(right, depth + 1)) if side}
        if "tensor" in kinds:
            return Passed("tensor")
        if isinstance(op, ast.Div) or "float" in kinds or (isinstance(op, ast.Pow) and "." in ast.unparse(right)):
            return Passed("float")
        return Passed("int") if "int" in kinds else None

    def _call(self, call: ast.Call, name: str, depth: int) -> Passed | None:
        if name in _COUNTS:
            return Passed("int")
        if name in _FRACTIONS:
            return Passed("float")
        if name in ("max", "min", "abs", "round"):
            return next((Passed(passed.kind) for value in call.args if (passed := self.read(value, depth + 1))), None)
        if name not in _TENSORS | _LIKE and not name.startswith("new_"):
            return None
        sources: list[ast.expr] = [word.value for word in call.keywords if word.arg == "dtype"]
        if name.endswith("_like") or name == "to":
            sources += call.args[:1]
        elif name in _LIKE and isinstance(call.func, ast.Attribute):
            sources.append(call.func.value)
        element = next((passed for source in sources if (passed := self.read(source, depth + 1))), None)
        if element and element.kind == "type" and element.value:
            return Passed("tensor", TYPES[str(element.value).removeprefix("tl.")])
        return Passed("tensor", element.value if element and element.kind == "tensor" else None)
