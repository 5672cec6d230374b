"""What a kernel uses its parameters for: addresses, indices, bounds, element types, sizes, conditions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from triage.compilers.base import Constant
from triage.compilers.triton.kernel_launch import TYPES

_OF_TYPES = ("to", "cast", "zeros", "full", "empty")
_OF_SIZES = (
    "arange",
    "zeros",
    "full",
    "static_range",
    "range",
    "cdiv",
    "reshape",
    "view",
    "broadcast_to",
    "make_block_ptr",
    "dot",
)
_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor", "advance")
_WIDE = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "sigmoid")
_DEEPEST = 4  # calls of kernels within kernels that are followed


@dataclass(frozen=True, slots=True)
class ConstantRoles:
    """What constexprs are used as. types: element types; sizes: of shapes; axes: dimensions; tested: conditions; compared:
    constexpr -> the first value that it is compared with.
    """

    types: frozenset[str]
    sizes: frozenset[str]
    axes: frozenset[str]
    tested: frozenset[str]
    compared: Mapping[str, Constant]


def constant_roles(kernel: ast.FunctionDef, kernels: Mapping[str, ast.FunctionDef], depth: int = 0) -> ConstantRoles:
    """The roles of a kernel's parameters, also in the kernels that it calls."""
    types, compared = _compared(kernel)
    sizes: set[str] = set()
    axes: set[str] = set()
    tested = _tested_names(kernel)
    for call in calls_in(kernel):
        callee = ast.unparse(call.func).rpartition(".")[2]
        names = [value.id if isinstance(value, ast.Name) else "" for value in call.args]
        words = {word.arg: word.value.id for word in call.keywords if word.arg and isinstance(word.value, ast.Name)}
        types |= {name for word, name in words.items() if word.endswith("dtype")}
        axes |= {name for word, name in words.items() if word in ("axis", "dim")}
        if callee in ("program_id", "num_programs"):
            axes |= set(names)
        if callee in _OF_TYPES:
            types |= set(names[:1] if callee == "to" else names[1:2] if callee in ("cast", "zeros", "empty") else names[2:3])
        if callee in _OF_SIZES:
            sizes |= {node.id for value in call.args for node in ast.walk(value) if isinstance(node, ast.Name)}
        if callee in kernels and kernels[callee] is not kernel and depth < _DEEPEST:
            inner = constant_roles(kernels[callee], kernels, depth + 1)
            parameters = [parameter.arg for parameter in kernels[callee].args.args]
            for name, outer in (*zip(parameters, names, strict=False), *words.items()):
                types |= {outer} if name in inner.types else set()
                sizes |= {outer} if name in inner.sizes else set()
                axes |= {outer} if name in inner.axes else set()
                tested |= {outer} if name in inner.tested else set()
                if name in inner.compared:
                    compared.setdefault(outer, inner.compared[name])
    return ConstantRoles(frozenset(types - {""}), frozenset(sizes - types), frozenset(axes), frozenset(tested), compared)


def _compared(kernel: ast.FunctionDef) -> tuple[set[str], dict[str, Constant]]:
    """The names that are compared with types, and those that are compared with a value."""
    types: set[str] = set()
    compared: dict[str, Constant] = {}
    for node in ast.walk(kernel):
        match node:
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=value)]):
                if isinstance(value, (bool, int, float, str)):
                    compared.setdefault(name, value)
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Attribute(attr=word)]):
                types |= {name} if word in TYPES else set()
            case ast.Attribute(value=ast.Name(id=name), attr="primitive_bitwidth" | "is_fp8" | "is_floating" | "is_int"):
                types.add(name)
    return types, compared


def _tested_names(kernel: ast.FunctionDef) -> set[str]:
    """The names that branches test directly."""
    tests = [node.test for node in ast.walk(kernel) if isinstance(node, (ast.If, ast.IfExp))]
    names: set[str] = set()
    while tests:
        match tests.pop():
            case ast.Name(id=name):
                names.add(name)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                tests.append(inner)
            case ast.BoolOp(values=values):
                tests += values
    return names


@dataclass(frozen=True, slots=True)
class Uses:
    """Parameters by use. pointers: they address memory; of_indices, of_floats: pointers to integers and to 32-bit floats;
    whole: integers; bounds: those in addresses and loop bounds.
    """

    pointers: frozenset[str]
    of_indices: frozenset[str]
    of_floats: frozenset[str]
    whole: frozenset[str]
    bounds: frozenset[str]


def uses_of(kernel: ast.FunctionDef, kernels: Mapping[str, ast.FunctionDef], above: frozenset[str] = frozenset()) -> Uses:
    """The uses of a kernel's parameters, also in the kernels that it calls. above: the kernels that call it."""
    bound = bindings_of(kernel)
    addresses: list[ast.expr] = []
    wide: list[ast.expr] = []
    bits: list[ast.expr] = []
    indexed: list[ast.expr] = []  # pointers that kernels called here read indices and floats from
    precise: list[ast.expr] = []
    positions: list[ast.expr] = []  # values in addresses and loop bounds; a compared value may come from memory
    compared: list[ast.expr] = [node for node in ast.walk(kernel) if isinstance(node, ast.Compare)]
    for node in ast.walk(kernel):
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.LShift() | ast.RShift(), right=right):
                bits += [left, right]
            case ast.UnaryOp(op=ast.Invert(), operand=inner_value):
                bits.append(inner_value)
    for call in calls_in(kernel):
        callee = ast.unparse(call.func).rpartition(".")[2]
        if (callee in _MEMORY or callee.startswith("atomic_")) and call.args:
            addresses.append(call.args[0])
            compared += [word.value for word in call.keywords if word.arg != "other"]
            positions += [call.args[0], *(call.args[1:] if callee.startswith(("make", "adv")) else [])]
        elif callee in _WIDE and isinstance(call.func, ast.Attribute):
            wide += call.args
        elif callee in ("range", "static_range", "arange", "cdiv"):
            positions += call.args
        elif callee in kernels and kernels[callee].name not in {kernel.name, *above}:
            inner = uses_of(kernels[callee], kernels, above | {kernel.name})
            names = [parameter.arg for parameter in (*kernels[callee].args.posonlyargs, *kernels[callee].args.args)]
            words = {word.arg: word.value for word in call.keywords if word.arg}
            for name, value in {**dict(zip(names, call.args, strict=False)), **words}.items():
                addresses += [value] if name in inner.pointers else []
                positions += [value] if name in inner.pointers | inner.bounds else []
                compared += [value] if name in inner.whole else []
                indexed += [value] if name in inner.of_indices else []
                precise += [value] if name in inner.of_floats else []
    in_positions = _reached(positions, bound)
    whole = in_positions | _reached(compared, bound)
    pointers = {name for address in addresses for name in _bases(address, bound, frozenset())}
    indices = {name: values for name, values in bound.items() if name in in_positions}
    loaded = [call for values in indices.values() for value in values for call in _loads(value)]
    indexed += [call.args[0] for call in (*loaded, *_read_into(bits, bound))]
    precise += [call.args[0] for call in _read_into(wide, bound)]
    of_indices = {name for address in indexed for name in _bases(address, bound, frozenset())}
    of_floats = {name for address in precise for name in _bases(address, bound, frozenset())} - of_indices
    bounds = frozenset(in_positions - pointers)
    return Uses(frozenset(pointers), frozenset(of_indices), frozenset(of_floats), frozenset(whole - pointers), bounds)


def bindings_of(kernel: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """Name -> the values that a kernel binds to it."""
    bound: dict[str, list[ast.expr]] = {}
    for statement in ast.walk(kernel):
        for target, value in _bindings(statement):
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    bound.setdefault(node.id, []).append(value)
    return bound


def _read_into(values: Sequence[ast.expr], bound: Mapping[str, list[ast.expr]]) -> Iterator[ast.Call]:
    """The loads that these values are, or are sums and products of."""
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
    """Targets with their values. `p += n` binds `p + n`, whose first operand is still the address."""
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
    """The load that the value is, apart from conversions."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to":
        value = value.func.value
    if _is_load(value) and value.args:
        yield value


def _is_load(value: ast.AST) -> TypeGuard[ast.Call]:
    """Whether this reads memory; an atomic operation returns what was there."""
    if not isinstance(value, ast.Call):
        return False
    callee = ast.unparse(value.func).rpartition(".")
    return callee[1] == "." and (callee[2] == "load" or callee[2].startswith("atomic_"))


def _reached(values: Sequence[ast.expr], bound: Mapping[str, list[ast.expr]]) -> set[str]:
    """The names that the values are computed from as whole numbers, without what is loaded from memory."""
    names: set[str] = set()
    waiting = list(values)
    while waiting:
        for node in _without_loads(waiting.pop()):
            if node.id not in names:
                names.add(node.id)
                waiting += bound.get(node.id, [])
    return names


def _without_loads(value: ast.AST) -> Iterator[ast.Name]:
    if isinstance(value, ast.Name):
        yield value
    elif not (_is_load(value) or _is_fraction(value)):
        for child in ast.iter_child_nodes(value):
            yield from _without_loads(child)


def _is_fraction(value: ast.AST) -> bool:
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div)


def _bases(address: ast.expr, bound: Mapping[str, list[ast.expr]], seen: frozenset[str]) -> set[str]:
    """The names that an address starts with: the first operand of a sum, through bindings."""
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
    return (call for call in ast.walk(node) if isinstance(call, ast.Call))
