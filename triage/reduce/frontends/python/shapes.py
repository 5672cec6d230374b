"""The shapes of a kernel's values, as far as the text tells: an expression is put in another's place only where they fit."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from triage.model.case import KernelSpec

Number = int | float
_REDUCING = frozenset(("sum", "max", "min", "argmax", "argmin"))
_ELEMENTWISE = frozenset(("maximum", "minimum", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "abs", "sigmoid", "fma"))


@dataclass(frozen=True, slots=True)
class Kind:
    """shape: () of a scalar; pointer: whether it points; truth: whether it is true or false, which a choice wants to be
    made by. Whatever is not known has no Kind at all.
    """

    shape: tuple[int, ...] = ()
    pointer: bool = False
    truth: bool = False


class Shapes:
    """What is known of the expressions of one function. Names are followed in the order of the statements."""

    def __init__(self, function: ast.FunctionDef, kernel: KernelSpec) -> None:
        self._numbers: dict[str, Number] = {}
        self._kinds: dict[str, Kind | None] = {}
        self._of: dict[ast.expr, Kind | None] = {}
        for name, value in kernel.constexprs.items():
            self._kinds[name] = Kind()
            if isinstance(value, int | float):
                self._numbers[name] = value
        for name, text in kernel.signature.items():
            self._kinds[name] = Kind((), text.startswith("*"))
        self._follow(function.body)

    def of(self, expression: ast.expr) -> Kind | None:
        """The kind of an expression of the function; None where it is not known."""
        return self._of.get(expression)

    def _follow(self, body: list[ast.stmt]) -> None:
        for one in body:
            for child in ast.iter_child_nodes(one):
                if isinstance(child, ast.expr):
                    self._kind(child)
            match one:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._kinds[name] = self._of.get(value)
                case ast.For(target=ast.Name(id=name)):
                    self._kinds[name] = Kind()
            for block in (getattr(one, "body", []), getattr(one, "orelse", [])):
                self._follow(block)

    def _kind(self, node: ast.expr) -> Kind | None:
        for child in ast.walk(node):  # the parts that no rule below looks at
            if child is not node and isinstance(child, ast.expr) and child not in self._of:
                self._kind(child)
        self._of[node] = self._found(node)
        return self._of[node]

    def _found(self, node: ast.expr) -> Kind | None:
        match node:
            case ast.Constant(value=bool()):
                return Kind(truth=True)
            case ast.Constant(value=int() | float()):
                return Kind()
            case ast.Name(id=name):
                return self._kinds.get(name)
            case ast.BinOp(left=left, right=right):
                return _together(self._of.get(left), self._of.get(right))
            case ast.UnaryOp(operand=operand):
                return self._of.get(operand)
            case ast.Compare(left=left, comparators=[right]):
                both = _together(self._of.get(left), self._of.get(right))
                return both and Kind(both.shape, truth=True)
            case ast.Subscript(value=value, slice=index):
                return self._subscript(self._of.get(value), index)
            case ast.Call():
                return self._call(node)
        return None

    def _subscript(self, value: Kind | None, index: ast.expr) -> Kind | None:
        if value is None:
            return None
        left, shape = list(value.shape), []
        for one in index.elts if isinstance(index, ast.Tuple) else [index]:
            match one:
                case ast.Constant(value=None):
                    shape.append(1)
                case ast.Slice(lower=None, upper=None, step=None) if left:
                    shape.append(left.pop(0))
                case _:
                    return None
        return Kind((*shape, *left), value.pointer, value.truth)

    def _call(self, node: ast.Call) -> Kind | None:
        """The calls that most kernels are made of."""
        given = [self._of.get(one) for one in node.args]
        named = {one.arg: one.value for one in node.keywords}
        if not isinstance(node.func, ast.Attribute):
            return None
        own = self._of.get(node.func.value)
        operands = given if own is None else [own, *given]
        name = node.func.attr
        if name in _REDUCING and operands and operands[0]:
            axis = named.get("axis", node.args[1] if own is None and len(node.args) > 1 else None)
            return _reduced(operands[0], None if axis is None else self._number(axis))
        if name in _ELEMENTWISE and operands:
            return reduce(_together, operands)
        match name:
            case "program_id" | "num_programs" | "cdiv":
                return Kind()
            case "arange" if len(node.args) == 2:
                low, high = map(self._number, node.args)
                return Kind((int(high - low),)) if low is not None and high is not None else None
            case "zeros" | "full" if node.args:
                return self._shaped(node.args[0])
            case "load" if operands and operands[0]:
                return Kind(operands[0].shape)
            case "dot" if len(given) >= 2 and given[0] and given[1] and len(given[0].shape) == len(given[1].shape) == 2:
                return Kind((given[0].shape[0], given[1].shape[1]))
            case "trans" if len(operands) == 1 and operands[0]:
                return Kind(operands[0].shape[::-1])
            case "to" | "cast" if operands:
                return operands[0]
            case "where" if len(given) == 3:
                chosen = _together(given[1], given[2])
                together = _together(given[0], chosen)
                return together and chosen and Kind(together.shape, chosen.pointer, chosen.truth)
        return None

    def _shaped(self, node: ast.expr) -> Kind | None:
        parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        numbers = [self._number(one) for one in parts]
        return Kind(tuple(int(one) for one in numbers if one is not None)) if None not in numbers else None

    def _number(self, node: ast.expr) -> Number | None:
        return number_of(node, self._numbers)


def number_of(node: ast.expr, known: Mapping[str, Number]) -> Number | None:
    """The value of an expression of constants; None where it is no number."""
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


def _together(left: Kind | None, right: Kind | None) -> Kind | None:
    """Of what two make when they are spread over each other."""
    if left is None or right is None:
        return None
    longest = max(len(left.shape), len(right.shape))
    if min(len(left.shape), len(right.shape)) not in (0, longest):
        return None
    low, high = (one.shape or (1,) * longest for one in (left, right))
    shape = tuple(max(pair) for pair in zip(low, high, strict=True))
    fits = all(len(set(pair) - {1}) <= 1 for pair in zip(low, high, strict=True))
    return Kind(shape, left.pointer or right.pointer, left.truth and right.truth) if fits else None


def _reduced(kind: Kind, axis: Number | None) -> Kind | None:
    if axis is None:
        return Kind()
    at = int(axis)
    return Kind((*kind.shape[:at], *kind.shape[at + 1 :])) if 0 <= at < len(kind.shape) else None
