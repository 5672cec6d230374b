"""Read what a kernel does with its parameters."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Uses = Mapping[str, set[str]]
"""Use -> parameters: `pointers` are addresses, `of_indices` and `of_floats` pointers to integers and 32-bit floats, `whole`
integers, `tested` conditions; `types`, `sizes` and `axes` are constexprs."""
Bindings = Mapping[str, Sequence[ast.expr]]
"""Name -> the values that a kernel binds to it. `p += n` binds `p + n`, whose first operand is still the address."""

_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor", "advance")
_LOOPS = ("range", "static_range", "arange", "cdiv")
_SHAPING = (*_LOOPS, "zeros", "full", "reshape", "view", "broadcast_to", "make_block_ptr", "dot")
_WIDE = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "sigmoid")  # only of 32-bit floats and wider
_TYPED = ("to", "cast", "zeros", "empty", "full")  # their last argument is a type


def uses_of(kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef]) -> Uses:
    """Return what a kernel, and the kernels that it calls, do with its parameters."""
    callees = {name: callee for name, callee in callees.items() if callee is not kernel}
    bound = _bindings_of(kernel)
    seen: dict[str, list[ast.expr]] = defaultdict(list)  # use -> expressions
    for node in ast.walk(kernel):
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.LShift() | ast.RShift(), right=right):
                seen["bits"] += [left, right]
            case ast.If(test=test) | ast.IfExp(test=test):
                seen["tested"] += [test, *getattr(test, "values", []), getattr(test, "operand", test)]
            case ast.Compare(left=left, comparators=[ast.Attribute(value=ast.Name(id="tl")), *_]):
                seen["types"].append(left)
            case ast.Compare(left=left, comparators=others):
                seen["whole"] += [left, *others]
            case ast.Call():
                _see_call(node, seen)
                if inner := callees.get(ast.unparse(node.func)):
                    pairs = [*zip([each.arg for each in inner.args.args], node.args, strict=False)]
                    pairs += [(word.arg, word.value) for word in node.keywords if word.arg]
                    for use, names in uses_of(inner, callees).items():
                        seen[use] += [value for name, value in pairs if name in names]
    uses = {use: {each.id for each in seen[use] if isinstance(each, ast.Name)} for use in ("types", "sizes", "axes", "tested")}
    uses["pointers"] = _names_of(_below(seen["pointers"], bound, _base_of))
    in_addresses = list(_below([*seen["pointers"], *seen["bounds"]], bound, _whole_parts_of))
    uses["whole"] = _names_of([*in_addresses, *_below(seen["whole"], bound, _whole_parts_of)]) - uses["pointers"]
    indices = _loaded([*in_addresses, *_below(seen["bits"], bound, _whole_parts_of)])
    uses["of_indices"] = _names_of(_below([*indices, *seen["of_indices"]], bound, _base_of))
    floats = _loaded(_below(seen["wide"], bound, _whole_parts_of))
    uses["of_floats"] = _names_of(_below([*floats, *seen["of_floats"]], bound, _base_of)) - uses["of_indices"]
    return uses


def _see_call(call: ast.Call, seen: dict[str, list[ast.expr]]) -> None:
    """Note what a call of `triton.language` says about its arguments."""
    callee = ast.unparse(call.func).rpartition(".")[2]
    keywords = {word.arg: word.value for word in call.keywords if word.arg}
    seen["types"] += [value for word, value in keywords.items() if word.endswith("dtype")]
    seen["types"] += call.args[-1:] if callee in _TYPED else []
    seen["axes"] += [value for word, value in keywords.items() if word in ("axis", "dim")]
    seen["axes"] += call.args if callee in ("program_id", "num_programs") else []
    seen["bounds"] += call.args if callee in _LOOPS else []
    seen["wide"] += call.args if callee in _WIDE else []
    if callee in _SHAPING:
        seen["sizes"] += [inner for value in call.args for inner in ast.walk(value) if isinstance(inner, ast.Name)]
    if callee in _MEMORY or callee.startswith("atomic_"):
        seen["pointers"] += call.args[:1] + [value for word, value in keywords.items() if word in ("base", "pointer")]
        seen["bounds"] += call.args[1:] if callee.startswith(("make", "adv")) else []
        seen["whole"] += [value for word, value in keywords.items() if word not in ("other", "base", "pointer")]


def computed_from(names: Sequence[str], kernel: ast.FunctionDef) -> set[str]:
    """The names that these are computed from, themselves included."""
    return _names_of(_below([ast.Name(name) for name in names], _bindings_of(kernel), ast.iter_child_nodes))


def _bindings_of(kernel: ast.FunctionDef) -> Bindings:
    bound: dict[str, list[ast.expr]] = defaultdict(list)
    for statement in ast.walk(kernel):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                pairs = list(zip(names, values, strict=True))
            case ast.Assign(targets=[target, *_], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                pairs = [(target, value)]
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                pairs = [(target, ast.BinOp(ast.Name(name, ast.Load()), op, value))]
        for target, value in pairs:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    bound[node.id].append(value)
    return dict(bound)


def _below(values: Sequence[ast.AST], bound: Bindings, parts: Callable[[ast.AST], Iterable[ast.AST]]) -> Iterator[ast.AST]:
    """Yield these expressions, their parts, the values that names are bound to, and their parts."""
    names: set[str] = set()
    waiting = list(values)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.Name):
            waiting += parts(node)
        elif node.id not in names:
            names.add(node.id)
            waiting += bound.get(node.id, [])


def _names_of(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _base_of(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an address that may be the pointer: the first operand of a sum."""
    match node:
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, first, second]) | ast.IfExp(body=first, orelse=second):
            yield from (first, second)
        case ast.BinOp(left=inner) | ast.Call(func=ast.Attribute(attr="to", value=inner)) | ast.Call(args=[inner, *_]):
            yield inner


def _whole_parts_of(node: ast.AST) -> Iterable[ast.AST]:
    """The parts of an integer that are integers, and do not come from memory."""
    is_fraction = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    return () if is_fraction or isinstance(node, ast.Compare) or _is_load(node) else ast.iter_child_nodes(node)


def _is_load(node: ast.AST) -> bool:
    """Whether this reads memory; an atomic operation returns what was there."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2].startswith(("load", "atomic_"))


def _loaded(nodes: Iterable[ast.AST]) -> list[ast.expr]:
    return [node.args[0] for node in nodes if isinstance(node, ast.Call) and _is_load(node) and node.args]
