"""Guess how a kernel is specialised: from its parameters, what it does with them, its decorators and its launches.

A launch such as `kernel[grid](x, x.stride(0), BLOCK=128)` shows values, kinds and element types; the kernel's own code tells
pointers from numbers.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from triage.compilers.base import Constant
from triage.model.errors import BadInput

_NAMES_TYPE = re.compile(r"(?i)d_?type$|(?:^|_)type$|_ty$")
_NAMES_COUNT = re.compile(r"(?i)(?:^|_)(?:num|stages?|steps?|iters?|groups?|top_?k|ndim|rank|depth)(?:_|$)|^n_|^(?:H|HQ|G|NH)$")
_NAMES_INDICES = re.compile(
    r"(?i)seq_?len|ind(?:ex|ices)|idx|(?:^|_)ids?(?:_|$)|offsets|len(?:s$|gths)|tables?(?:_|$)|mapping|slots?"
)
_SWITCHES = ("USE_", "IS_", "HAS_", "STORE_", "OUTPUT_", "CAUSAL", "ALLOW_", "EVEN_", "ENABLE_", "SAVE_")
_SCALARS = {"int": "i32", "float": "fp32", "bool": "i1"}
# torch's and triton.language's names of types -> the names in a signature.
_TYPES = {
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"fp{bits}" for bits in ("16", "32", "64", "8e4nv", "8e5")},
    "int1": "i1",
    "bfloat16": "bf16",
    "half": "fp16",
    "float": "fp32",
    "int": "i32",
    "long": "i64",
    "bool": "i1",
}
_OLD = {"half": "float16", "float": "float32", "int": "int32", "long": "int64", "bool": "int1"}
_COUNTS = {"stride", "numel", "size", "dim", "element_size", "len", "int", "cdiv", "next_power_of_2", "ceil", "floor"}
_DEPTH = 8  # of names that stand for other names

_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor", "advance")
_LOOPS = ("range", "static_range", "arange", "cdiv")
_SHAPING = (*_LOOPS, "zeros", "full", "reshape", "view", "broadcast_to", "make_block_ptr", "dot")
_WIDE = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "sigmoid")  # only of 32-bit floats and wider
_TYPED = ("to", "cast", "zeros", "empty", "full")  # their last argument is a type


@dataclass(frozen=True, slots=True)
class KernelGuess:
    """A specialisation of a kernel."""

    name: str
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    options: Mapping[str, Constant]
    guessed: frozenset[str] = frozenset()
    """Names whose values follow from their use alone."""


@dataclass(frozen=True, slots=True)
class HostValue:
    """What host code passes to a kernel."""

    kind: str = ""
    """int, float, bool, str, tensor or type; empty when host code shows nothing."""
    value: Constant = None
    """A literal; `tl.float16` for a type; the element type of a tensor in a signature's words."""


Names = Sequence[tuple[str, ast.expr]]
"""Names and what they are bound to; the first value of a name that can be read counts."""
Uses = Mapping[str, set[str]]
"""Use -> parameters: `pointers` are addresses, `of_indices` and `of_floats` pointers to integers and 32-bit floats, `whole`
integers, `tested` conditions; `types` and `sizes` are constexprs."""
Bindings = Mapping[str, Sequence[ast.expr]]
"""Name -> the values that a kernel binds to it. `p += n` binds `p + n`, whose first operand is still the address."""


def guess_kernel(source: str, name: str | None = None, host: str | None = None) -> KernelGuess | None:
    """Guess a specialisation of the source's kernel; None if the source has no kernel or cannot be parsed.

    host: the text with the launches and decorators, if it is another one.

    Raises:
        BadInput: No kernel has that name; or no name is given and there are several kernels that no other calls.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    kernels = {
        node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) if any(map(is_jit, node.decorator_list))
    }
    if not kernels or "triton" not in source:
        return None
    if name is not None and name not in kernels:
        raise BadInput(f"there is no kernel {name!r}; there is {', '.join(kernels)}")
    called = {ast.unparse(node.func) for each in kernels.values() for node in ast.walk(each) if isinstance(node, ast.Call)}
    outer = [each for each in kernels if each not in called] or list(kernels)
    if name is None and len(outer) > 1:
        raise BadInput(f"the file has several kernels; name one with --kernel: {', '.join(outer)}")
    renamed = [(alias, value.id) for alias, value in _assigned(tree.body) if isinstance(value, ast.Name)]
    callees = kernels | {alias: kernels[each] for alias, each in renamed if each in kernels}
    return _guess(ast.parse(host or source), kernels[name or outer[0]], callees)


def is_jit(decorator: ast.expr) -> bool:
    """Whether a decorator marks a kernel."""
    return ast.unparse(decorator).partition("(")[0] in ("triton.jit", "jit", "tl.jit")


def _guess(host: ast.Module, kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef]) -> KernelGuess:
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    defaults = _defaults_of(kernel.args)
    passed = _arguments_passed(host, kernel.name, [each.arg for each in parameters])
    configured = _configured(host, kernel.name)
    uses = _uses_of(kernel, callees)
    element = "bf16" if "bfloat16" in ast.unparse(kernel) else "fp16"  # products want both factors of one type
    signature: dict[str, str] = {}
    constexprs: dict[str, Constant] = {}
    guessed: set[str] = set()
    for parameter in parameters:
        name, shown, default = parameter.arg, passed.get(parameter.arg, HostValue()), defaults.get(parameter.arg)
        annotation = ast.unparse(parameter.annotation) if parameter.annotation else ""
        if "constexpr" not in annotation:
            signature[name] = _type(name, annotation, shown, uses, element)
            guessed.add(name)
            continue
        by_default = (_read_value(default, ()) if default else None) or HostValue()
        values = (configured.get(name), shown.value if shown.kind != "tensor" else None, by_default.value)
        constexprs[name] = next((value for value in values if value is not None), None)
        if constexprs[name] is None and not isinstance(default, ast.Constant):
            guessed.add(name)
            constexprs[name] = _constant(name, shown.kind, uses)
    launched = {word: configured.get(word) or passed.get(word, HostValue()).value for word in ("num_warps", "num_stages")}
    options = {word: value for word, value in launched.items() if value}
    guessed |= {"num_warps"} - options.keys()
    return KernelGuess(kernel.name, signature, constexprs, options or {"num_warps": 4}, frozenset(guessed))


def _constant(name: str, kind: str, uses: Uses) -> Constant:
    """A value that fits how a constexpr is used. kind: of what host code passes."""
    if kind == "type" or name in uses["types"] or (not kind and _NAMES_TYPE.search(name) and name not in uses["sizes"]):
        return "tl.float32"
    is_switch = name in uses["tested"] or name.upper().startswith(_SWITCHES)
    if kind == "bool" or (kind != "int" and name not in uses["sizes"] and is_switch):
        return False
    if kind == "float":
        return 1.0
    return 2 if _NAMES_COUNT.search(name) else 64


def _type(name: str, annotation: str, passed: HostValue, uses: Uses, element: str) -> str:
    if passed.kind == "tensor":
        return f"*{passed.value}:16"
    is_pointer = name in uses["pointers"] or annotation.strip("'\"").endswith("Tensor")
    if not is_pointer and annotation in _SCALARS:
        return _SCALARS[annotation]
    if name in uses["of_indices"] or (is_pointer and _NAMES_INDICES.search(name)):
        return "*i32:16"
    if name in uses["of_floats"]:
        return "*fp32:16"
    if is_pointer or name.lower().endswith("ptr"):
        return f"*{element}:16"
    return _SCALARS.get(passed.kind, "i32" if name in uses["whole"] else "fp32")


def _configured(tree: ast.Module, kernel: str) -> dict[str, Constant]:
    """The constants of the first `Config({...}, num_warps=...)` in the kernel's decorators, or else in its file."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == kernel]
    decorators = [decorator for function in functions for decorator in function.decorator_list]
    if not any("autotune" in ast.unparse(decorator) for decorator in decorators):
        return {}
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.comprehension, ast.For))]
    names = [*_assigned(tree.body), *((ast.unparse(loop.target), loop.iter) for loop in loops)]
    for call in (node for place in (*decorators, tree) for node in ast.walk(place) if isinstance(node, ast.Call)):
        if ast.unparse(call.func).rpartition(".")[2] == "Config":
            pairs: list[tuple[str | None, ast.expr]] = [(word.arg, word.value) for word in call.keywords]
            if call.args and isinstance(entries := call.args[0], ast.Dict):
                pairs += [(getattr(key, "value", None), value) for key, value in zip(entries.keys, entries.values, strict=True)]
            found = {name: read.value for name, value in pairs if name and (read := _read_value(value, names))}
            if any(value is not None for value in found.values()):
                return found
    return {}


def _arguments_passed(tree: ast.Module, kernel: str, parameters: Sequence[str]) -> dict[str, HostValue]:
    """Parameter -> what the first launch that shows it passes; also launch options such as `num_warps`."""
    result: dict[str, HostValue] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)]
        launches = [call for call in calls if ast.unparse(call.func).partition("[")[0].rpartition(".")[2] == kernel]
        names = (
            [*_assigned(ast.walk(function)), *_defaults_of(function.args).items(), *_assigned(tree.body)] if launches else []
        )
        for call in launches:
            positional = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
            keywords = [(word.arg, word.value) for word in call.keywords if word.arg]
            for parameter, argument in (*zip(parameters, positional, strict=False), *keywords):
                if parameter not in result and (passed := _read_value(argument, names)) is not None:
                    result[parameter] = passed
    return result


def _assigned(statements: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name with a value that is assigned to it, or that it is a part of."""
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                yield from zip(map(ast.unparse, targets), getattr(value, "elts", [value] * len(targets)), strict=False)
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                yield ast.unparse(target), value


def _defaults_of(arguments: ast.arguments) -> dict[str, ast.expr]:
    """Parameter -> its default."""
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][::-1]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return dict(zip(names, arguments.defaults[::-1], strict=False)) | {each.arg: node for each, node in keywords if node}


def _read_value(node: ast.expr, names: Names, depth: int = 0) -> HostValue | None:
    """What an expression of host code is, if its text shows it; of a list, an element."""
    same: Sequence[ast.expr] = ()  # expressions that this one may be equal to
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return HostValue(type(value).__name__, value)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return HostValue("bool")
        case ast.BinOp(op=ast.Div()):
            return HostValue("float")
        case ast.Attribute(attr=name, value=ast.Name(id="torch" | "tl" | "triton")) if name in _TYPES:
            return HostValue("type", f"tl.{_OLD.get(name, name)}")
        case ast.Attribute(attr="dtype" | "shape" as name):
            return HostValue("type" if name == "dtype" else "int")
        case ast.Call(func=function):
            callee = ast.unparse(function).rpartition(".")[2]
            types = [word.value for word in node.keywords if word.arg == "dtype"] + (node.args[:1] if callee == "to" else [])
            element = _read_value(types[0], names, _DEPTH) if types else None
            if element and element.kind == "type" and element.value:
                return HostValue("tensor", _TYPES[str(element.value).removeprefix("tl.")])
            return HostValue("int") if callee in _COUNTS else None
        case ast.Name(id=name) if depth < _DEPTH:
            same = [value for each, value in names if each == name]
        case ast.IfExp(body=first, orelse=second):
            same = (first, second)
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            same = values
    return next((passed for each in same if (passed := _read_value(each, names, depth + 1))), None)


def _uses_of(kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef]) -> Uses:
    """Return what a kernel, and the kernels that it calls, do with its parameters."""
    callees = {name: callee for name, callee in callees.items() if callee is not kernel}
    bound = _bindings_of(kernel)
    seen: dict[str, list[ast.expr]] = defaultdict(list)  # use -> expressions
    for node in ast.walk(kernel):
        match node:
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
                    for use, names in _uses_of(inner, callees).items():
                        seen[use] += [value for name, value in pairs if name in names]
    addresses = list(_below([*seen["pointers"], *seen["bounds"]], bound, _whole_parts_of))
    pointers = _names_of(_below(seen["pointers"], bound, _base_of))
    return {
        **{use: _names_of(seen[use]) for use in ("types", "sizes", "tested")},
        "pointers": pointers,
        "whole": _names_of([*addresses, *_below(seen["whole"], bound, _whole_parts_of)]) - pointers,
        "of_indices": _names_of(_below([*_loaded(addresses), *seen["of_indices"]], bound, _base_of)),
        "of_floats": _names_of(
            _below([*_loaded(_below(seen["wide"], bound, _whole_parts_of)), *seen["of_floats"]], bound, _base_of)
        ),
    }


def _see_call(call: ast.Call, seen: dict[str, list[ast.expr]]) -> None:
    """Note what a call of `triton.language` says about its arguments."""
    callee = ast.unparse(call.func).rpartition(".")[2]
    keywords = {word.arg: word.value for word in call.keywords if word.arg}
    seen["types"] += [value for word, value in keywords.items() if word.endswith("dtype")]
    seen["types"] += call.args[-1:] if callee in _TYPED else []
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
            for name in _names_of(ast.walk(target)):
                bound[name].append(value)
    return bound


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
