"""What a kernel uses its parameters for, as far as its code tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor", "advance")
_WIDE = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "sigmoid")  # of 32 bit floats in most releases


@dataclass(frozen=True, slots=True)
class Uses:
    """Parameters that memory is addressed with, those of them through which whole numbers or 32 bit floats are read, and those
    that are whole numbers themselves.
    """

    pointers: frozenset[str]
    of_indices: frozenset[str]
    of_floats: frozenset[str]
    whole: frozenset[str]


def uses_of(kernel: ast.FunctionDef, kernels: Mapping[str, ast.FunctionDef], above: frozenset[str] = frozenset()) -> Uses:
    """What the parameters of a kernel are used for, in the kernels that it calls as well. above: those that call it."""
    bound: dict[str, list[ast.expr]] = {}
    for one in ast.walk(kernel):
        for target, value in _bindings(one):
            for made in ast.walk(target):
                if isinstance(made, ast.Name):
                    bound.setdefault(made.id, []).append(value)
    addresses: list[ast.expr] = []
    wide: list[ast.expr] = []
    places: list[ast.expr] = []  # what says where in memory, or how often; what is compared may be read as a float
    compared: list[ast.expr] = [one for one in ast.walk(kernel) if isinstance(one, ast.Compare)]
    for call in calls_in(kernel):
        what = ast.unparse(call.func).rpartition(".")[2]
        if (what in _MEMORY or what.startswith("atomic_")) and call.args:
            addresses.append(call.args[0])
            compared += [word.value for word in call.keywords if word.arg != "other"]
            places += [call.args[0], *(call.args[1:] if what.startswith(("make", "adv")) else [])]
        elif what in _WIDE and isinstance(call.func, ast.Attribute):
            wide += call.args
        elif what in ("range", "static_range", "arange", "cdiv"):
            places += call.args
        elif what in kernels and kernels[what].name not in {kernel.name, *above}:
            inner = uses_of(kernels[what], kernels, above | {kernel.name})
            names = [one.arg for one in (*kernels[what].args.posonlyargs, *kernels[what].args.args)]
            words = {word.arg: word.value for word in call.keywords if word.arg}
            for name, value in {**dict(zip(names, call.args, strict=False)), **words}.items():
                addresses += [value] if name in inner.pointers else []
                compared += [value] if name in inner.whole else []
    placing = _reached(places, bound)
    whole = placing | _reached(compared, bound)
    pointers = {name for address in addresses for name in _bases(address, bound, frozenset())}
    indices = {name: values for name, values in bound.items() if name in placing}
    loaded = [one for values in indices.values() for value in values for one in _loads(value)]
    of_indices = {name for call in loaded for name in _bases(call.args[0], bound, frozenset())}
    of_floats = {name for call in _read_into(wide, bound) for name in _bases(call.args[0], bound, frozenset())} - of_indices
    return Uses(frozenset(pointers), frozenset(of_indices), frozenset(of_floats), frozenset(whole - pointers))


def _read_into(values: Sequence[ast.expr], bound: Mapping[str, list[ast.expr]]) -> Iterator[ast.Call]:
    """The loads whose values, or sums and products of them, are one of these values."""
    seen: set[str] = set()
    waiting = list(values)
    while waiting:
        match waiting.pop():
            case ast.BinOp(left=left, right=right):
                waiting += [left, right]
            case ast.UnaryOp(operand=inner):
                waiting.append(inner)
            case ast.Name(id=name) if name not in seen:
                seen.add(name)
                waiting += bound.get(name, [])
            case ast.Call(func=ast.Attribute(attr="load"), args=[_, *_]) as call:
                yield call


def _bindings(statement: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with their values. What is added to a name leaves it the address that it was, and comes behind it."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            yield from zip(names, values, strict=True)
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
            yield target, ast.BinOp(ast.Name(name, ast.Load()), op, value)


def _loads(value: ast.expr) -> Iterator[ast.Call]:
    """The loads that are the value itself, but for a conversion."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to":
        value = value.func.value
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".load") and value.args:
        yield value


def _reached(values: Sequence[ast.expr], bound: Mapping[str, list[ast.expr]]) -> set[str]:
    """The names that the values are computed from; what is read from memory ends the way."""
    found: set[str] = set()
    waiting = list(values)
    while waiting:
        for one in _without_loads(waiting.pop()):
            if one.id not in found:
                found.add(one.id)
                waiting += bound.get(one.id, [])
    return found


def _without_loads(value: ast.AST) -> Iterator[ast.Name]:
    if isinstance(value, ast.Name):
        yield value
    elif not (isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".load")):
        for child in ast.iter_child_nodes(value):
            yield from _without_loads(child)


def _bases(address: ast.expr, bound: Mapping[str, list[ast.expr]], seen: frozenset[str]) -> set[str]:
    """The names that an address begins with: the first of a sum, where nothing binds it to another."""
    match address:
        case ast.BinOp(left=left):
            return _bases(left, bound, seen)
        case ast.Name(id=name):
            if name in seen:
                return set()
            return {base for value in bound.get(name, []) for base in _bases(value, bound, seen | {name})} or {name}
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, first, second]):
            return _bases(first, bound, seen) | _bases(second, bound, seen)
        case ast.Call(func=ast.Attribute(attr="to", value=value)):
            return _bases(value, bound, seen)
        case ast.Call(args=[first, *_]):
            return _bases(first, bound, seen)
        case ast.IfExp(body=first, orelse=second):
            return _bases(first, bound, seen) | _bases(second, bound, seen)
    return set()


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """All calls in a piece of code."""
    return (one for one in ast.walk(node) if isinstance(one, ast.Call))
