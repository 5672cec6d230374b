"""Read what a kernel does with its parameters, also in the kernels that it calls."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Uses = Mapping[str, set[str]]
"""Use -> parameters.

`pointers` are addresses, `of_indices` and `of_floats` pointers to integers and 32-bit floats, `whole` integers, `tested`
conditions; `types`, `sizes` and `axes` are constexprs.
"""
Bindings = Mapping[str, Sequence[ast.expr]]
"""Name -> the values that a kernel binds to it. `p += n` binds `p + n`, whose first operand is still the address."""

_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor", "advance")
_ADDRESS = ("base", "pointer")  # keywords of these
_LOOPS = ("range", "static_range", "arange", "cdiv")
_WIDE = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "sigmoid")  # only of 32-bit floats and wider
_SHAPING = (*_LOOPS, "zeros", "full", "reshape", "view", "broadcast_to", "make_block_ptr", "dot")
_TYPE_AT = {"to": 0, "cast": 1, "zeros": 1, "empty": 1, "full": 2}  # callee -> the argument that is a type


def uses_of(kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef], above: frozenset[str] = frozenset()) -> Uses:
    """The uses of a kernel's parameters. above: the kernels that call it."""
    bound = _bindings_of(kernel)
    seen: dict[str, list[ast.expr]] = defaultdict(list)  # use -> expressions
    for node in ast.walk(kernel):
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.LShift() | ast.RShift(), right=right):
                seen["bits"] += [left, right]
            case ast.Attribute(value=ast.Name() as value, attr="primitive_bitwidth" | "is_fp8" | "is_floating" | "is_int"):
                seen["types"].append(value)
            case ast.If(test=test) | ast.IfExp(test=test):
                seen["tested"] += [test, *getattr(test, "values", []), getattr(test, "operand", test)]
            case ast.Compare(left=left, comparators=[ast.Attribute(value=ast.Name(id="tl")), *_]):
                seen["types"].append(left)
            case ast.Compare():
                seen["whole"].append(node)
            case ast.Call():
                _see_call(node, seen)
                inner = callees.get(ast.unparse(node.func))
                if inner is not None and inner.name not in {kernel.name, *above}:
                    values = dict(zip([each.arg for each in inner.args.args], node.args, strict=False))
                    values |= {word.arg: word.value for word in node.keywords if word.arg}
                    for use, names in uses_of(inner, callees, above | {kernel.name}).items():
                        seen[use] += [value for name, value in values.items() if name in names]
    uses = {use: {each.id for each in seen[use] if isinstance(each, ast.Name)} for use in ("types", "sizes", "axes", "tested")}
    uses["sizes"] -= uses["types"]
    uses["pointers"] = _names(_follow(seen["pointers"], bound, _base_of))
    in_addresses = _names(_follow([*seen["pointers"], *seen["bounds"]], bound, _whole_parts_of))
    offsets = [value for name in sorted(in_addresses) for value in bound.get(name, [])]
    uses["of_indices"] = _pointers_loaded([*offsets, *seen["bits"]], bound) | _names(
        _follow(seen["of_indices"], bound, _base_of)
    )
    of_floats = _pointers_loaded(seen["wide"], bound) | _names(_follow(seen["of_floats"], bound, _base_of))
    uses["of_floats"] = of_floats - uses["of_indices"]
    uses["whole"] = (in_addresses | _names(_follow(seen["whole"], bound, _whole_parts_of))) - uses["pointers"]
    return uses


def _see_call(call: ast.Call, seen: dict[str, list[ast.expr]]) -> None:
    """Note what a call of `triton.language` says about its arguments."""
    callee = ast.unparse(call.func).rpartition(".")[2]
    keywords = {word.arg: word.value for word in call.keywords if word.arg}
    seen["types"] += [value for word, value in keywords.items() if word.endswith("dtype")]
    seen["axes"] += [value for word, value in keywords.items() if word in ("axis", "dim")]
    if callee in _TYPE_AT:
        seen["types"] += call.args[_TYPE_AT[callee] :][:1]
    if callee in _SHAPING:
        seen["sizes"] += [inner for value in call.args for inner in ast.walk(value) if isinstance(inner, ast.Name)]
    if callee in ("program_id", "num_programs"):
        seen["axes"] += call.args
    elif callee in _WIDE:
        seen["wide"] += call.args
    elif callee in _LOOPS:
        seen["bounds"] += call.args
    elif callee in _MEMORY or callee.startswith("atomic_"):
        seen["pointers"] += call.args[:1] + [value for word, value in keywords.items() if word in _ADDRESS]
        seen["bounds"] += call.args[1:] if callee.startswith(("make", "adv")) else []
        seen["whole"] += [value for word, value in keywords.items() if word not in ("other", *_ADDRESS)]


def computed_from(names: Sequence[str], kernel: ast.FunctionDef) -> set[str]:
    """The names that these are computed from, themselves included."""
    return _names(_follow([ast.Name(name) for name in names], _bindings_of(kernel), ast.iter_child_nodes))


def _bindings_of(kernel: ast.FunctionDef) -> Bindings:
    bound: dict[str, list[ast.expr]] = defaultdict(list)
    for statement in ast.walk(kernel):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                pairs = list(zip(names, values, strict=True))
            case ast.Assign(targets=targets, value=value):
                pairs = [(target, value) for target in targets]
            case ast.AnnAssign(target=annotated, value=ast.expr() as value):
                pairs = [(annotated, value)]
            case ast.AugAssign(target=ast.Name(id=name) as place, op=op, value=value):
                pairs = [(place, ast.BinOp(ast.Name(name, ast.Load()), op, value))]
        for target, value in pairs:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    bound[node.id].append(value)
    return dict(bound)


def _follow(values: Sequence[ast.AST], bound: Bindings, parts: Callable[[ast.AST], Iterable[ast.AST]]) -> list[ast.AST]:
    """All expressions that these consist of: their parts, the values that names are bound to, and their parts."""
    found: list[ast.AST] = []
    names: set[str] = set()
    waiting = list(values)
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.Name):
            waiting += parts(node)
        elif node.id not in names:
            names.add(node.id)
            waiting += bound.get(node.id, [])
    return found


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _base_of(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an address that may be the pointer: the first operand of a sum."""
    match node:
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, first, second]) | ast.IfExp(body=first, orelse=second):
            yield from (first, second)
        case ast.BinOp(left=inner) | ast.Call(func=ast.Attribute(attr="to", value=inner)) | ast.Call(args=[inner, *_]):
            yield inner


def _whole_parts_of(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an integer that are integers, and do not come from memory."""
    is_fraction = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    return iter(()) if is_fraction or _is_load(node) else ast.iter_child_nodes(node)


def _operands_of(node: ast.AST) -> Iterator[ast.AST]:
    """The operands of a sum or a conversion, which have the type of their result."""
    match node:
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
        case ast.Call(func=ast.Attribute(attr="to", value=inner)):
            yield inner


def _is_load(node: ast.AST) -> bool:
    """Whether this reads memory; an atomic operation returns what was there."""
    match node:
        case ast.Call(func=ast.Attribute(attr=callee)):
            return callee == "load" or callee.startswith("atomic_")
    return False


def _pointers_loaded(values: Sequence[ast.expr], bound: Bindings) -> set[str]:
    """The pointers that these values, or operands of them, are loaded from."""
    loads = [node for node in _follow(values, bound, _operands_of) if _is_load(node)]
    addresses = [argument for load in loads if isinstance(load, ast.Call) for argument in load.args[:1]]
    return _names(_follow(addresses, bound, _base_of))
