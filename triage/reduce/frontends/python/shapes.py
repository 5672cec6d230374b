"""The shapes of a kernel's values, as far as the text shows them, so that expressions replace only ones of equal shape."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from triage.compilers.base import KernelSpec
from triage.reduce.draft import Draft
from triage.reduce.frontends.python.source_tree import kernel_function, kernel_of

Number = int | float
_REDUCING = frozenset(("sum", "max", "min", "argmax", "argmin"))
_ELEMENTWISE = frozenset(("maximum", "minimum", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "abs", "sigmoid", "fma"))


@dataclass(frozen=True, slots=True)
class ValueShape:
    """The shape of a value, () for a scalar, and whether it is a pointer or a truth value. An unknown value has none."""

    shape: tuple[int, ...] = ()
    pointer: bool = False
    truth: bool = False


class Shapes:
    """The shapes of the expressions of one function. Follows names in the order of the statements."""

    def __init__(self, function: ast.FunctionDef, kernel: KernelSpec) -> None:
        self._numbers: dict[str, Number] = {}
        self._by_name: dict[str, ValueShape | None] = {}
        self._of: dict[ast.expr, ValueShape | None] = {}
        for name, value in kernel.constexprs.items():
            self._by_name[name] = ValueShape()
            if isinstance(value, int | float):
                self._numbers[name] = value
        for name, text in kernel.signature.items():
            self._by_name[name] = ValueShape((), text.startswith("*"))
        self._follow(function.body)

    def of(self, expression: ast.expr) -> ValueShape | None:
        """Return the shape of an expression of the function; None when it is unknown."""
        return self._of.get(expression)

    def _follow(self, body: list[ast.stmt]) -> None:
        for statement in body:
            for child in ast.iter_child_nodes(statement):
                if isinstance(child, ast.expr):
                    self._visit(child)
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._by_name[name] = self._of.get(value)
                case ast.For(target=ast.Name(id=name)):
                    self._by_name[name] = ValueShape()
            for block in (getattr(statement, "body", []), getattr(statement, "orelse", [])):
                self._follow(block)

    def _visit(self, node: ast.expr) -> ValueShape | None:
        for child in ast.walk(node):  # the parts that no rule below covers
            if child is not node and isinstance(child, ast.expr) and child not in self._of:
                self._visit(child)
        self._of[node] = self._found(node)
        return self._of[node]

    def _found(self, node: ast.expr) -> ValueShape | None:
        match node:
            case ast.Constant(value=bool()):
                return ValueShape(truth=True)
            case ast.Constant(value=int() | float()):
                return ValueShape()
            case ast.Name(id=name):
                return self._by_name.get(name)
            case ast.BinOp(left=left, right=right):
                return _together(self._of.get(left), self._of.get(right))
            case ast.UnaryOp(operand=operand):
                return self._of.get(operand)
            case ast.Compare(left=left, comparators=[right]):
                both = _together(self._of.get(left), self._of.get(right))
                return both and ValueShape(both.shape, truth=True)
            case ast.Subscript(value=value, slice=index):
                return self._subscript(self._of.get(value), index)
            case ast.Call():
                return self._call(node)
        return None

    def _subscript(self, value: ValueShape | None, index: ast.expr) -> ValueShape | None:
        if value is None:
            return None
        left, shape = list(value.shape), []
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            match part:
                case ast.Constant(value=None):
                    shape.append(1)
                case ast.Slice(lower=None, upper=None, step=None) if left:
                    shape.append(left.pop(0))
                case _:
                    return None
        return ValueShape((*shape, *left), value.pointer, value.truth)

    def _call(self, node: ast.Call) -> ValueShape | None:
        """The shape of the calls that most kernels consist of."""
        arguments = [self._of.get(argument) for argument in node.args]
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        if not isinstance(node.func, ast.Attribute):
            return None
        own = self._of.get(node.func.value)
        operands = arguments if own is None else [own, *arguments]
        name = node.func.attr
        if name in _REDUCING and operands and operands[0]:
            axis = named.get("axis", node.args[1] if own is None and len(node.args) > 1 else None)
            return _reduced(operands[0], None if axis is None else number_of(axis, self._numbers))
        if name in _ELEMENTWISE and operands:
            return reduce(_together, operands)
        match name:
            case "program_id" | "num_programs" | "cdiv":
                return ValueShape()
            case "arange" if len(node.args) == 2:
                low, high = (number_of(argument, self._numbers) for argument in node.args)
                return ValueShape((int(high - low),)) if low is not None and high is not None else None
            case "zeros" | "full" if node.args:
                return self._shaped(node.args[0])
            case "load" if operands and operands[0]:
                return ValueShape(operands[0].shape)
            case "dot" if len(arguments) >= 2:
                left, right = arguments[:2]
                fits = left and right and len(left.shape) == len(right.shape) == 2
                return ValueShape((left.shape[0], right.shape[1])) if left and right and fits else None
            case "trans" if len(operands) == 1 and operands[0]:
                return ValueShape(operands[0].shape[::-1])
            case "to" | "cast" if operands:
                return operands[0]
            case "where" if len(arguments) == 3:
                chosen = _together(arguments[1], arguments[2])
                together = _together(arguments[0], chosen)
                return together and chosen and ValueShape(together.shape, chosen.pointer, chosen.truth)
        return None

    def _shaped(self, node: ast.expr) -> ValueShape | None:
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        numbers = [number_of(part, self._numbers) for part in parts]
        return ValueShape(tuple(int(number) for number in numbers if number is not None)) if None not in numbers else None


def shapes_of(draft: Draft) -> Shapes | None:
    """Return the shapes in a draft's kernel; None for a program that is not a kernel."""
    kernel, function = kernel_of(draft), kernel_function(draft)
    return Shapes(function, kernel) if kernel and function else None


def may_replace(shapes: Shapes | None, part: ast.expr, whole: ast.expr) -> bool:
    """Return whether an expression may replace another: their shapes are equal, or not both known."""
    if shapes is None:
        return True
    new, old = shapes.of(part), shapes.of(whole)
    return new is None or old is None or new == old


def number_of(node: ast.expr, known: Mapping[str, Number]) -> Number | None:
    """Return the value of an expression of constants; None when it is not a number."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return known.get(name)
        case ast.BinOp(left=left, op=op, right=right):
            low, high = number_of(left, known), number_of(right, known)
            if low is None or high is None:
                return None
            match op:
                case ast.Add():
                    return low + high
                case ast.Sub():
                    return low - high
                case ast.Mult():
                    return low * high
                case ast.FloorDiv() if high:
                    return low // high
    return None


def _together(left: ValueShape | None, right: ValueShape | None) -> ValueShape | None:
    """The shape of two values broadcast together."""
    if left is None or right is None:
        return None
    longest = max(len(left.shape), len(right.shape))
    if min(len(left.shape), len(right.shape)) not in (0, longest):
        return None
    low, high = (side.shape or (1,) * longest for side in (left, right))
    shape = tuple(max(pair) for pair in zip(low, high, strict=True))
    fits = all(len(set(pair) - {1}) <= 1 for pair in zip(low, high, strict=True))
    return ValueShape(shape, left.pointer or right.pointer, left.truth and right.truth) if fits else None


def _reduced(value: ValueShape, axis: Number | None) -> ValueShape | None:
    if axis is None:
        return ValueShape()
    index = int(axis)
    return ValueShape((*value.shape[:index], *value.shape[index + 1 :])) if 0 <= index < len(value.shape) else None
