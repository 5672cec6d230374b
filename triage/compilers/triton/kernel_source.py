"""Guess how a kernel is specialised: from what it does with its parameters, its
decorators and its launches.

A launch such as `kernel[grid](x, x.stride(0), BLOCK=128)` shows values, kinds and
element types; the kernel's own code tells pointers from numbers.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from triage.compilers.base import Constant
from triage.model.errors import BadInput

_NAMES_TYPE = re.compile(r"(?i)d_?type$|(?:^|_)type$|_ty$")
_NAMES_COUNT = re.compile(
    r"(?i)(?:^|_)(?:num|stages?|steps?|iters?|groups?|top_?k|ndim|rank|depth)(?:_|$)"
    r"|^n_|^(?:H|HQ|G|NH)$"
)
_NAMES_INDICES = re.compile(
    r"(?i)seq_?len|ind(?:ex|ices)|idx|(?:^|_)ids?(?:_|$)|offsets|len(?:s$|gths)"
    r"|tables?(?:_|$)|mapping|slots?"
)
_NAMES_FRACTION = re.compile(
    r"(?i)scal|eps|alpha|beta|gamma|sigma|theta|cap|slope|(?:^|_)(?:lr|p|temp|mean|std"
    r"|inv)(?:_|$)|momentum|decay|prob|rate|factor"
)
_SWITCHES = (
    "USE_",
    "IS_",
    "HAS_",
    "STORE_",
    "OUTPUT_",
    "CAUSAL",
    "ALLOW_",
    "EVEN_",
    "ENABLE_",
    "SAVE_",
)
_SCALARS = {"int": "i32", "float": "fp32", "bool": "i1"}
# torch's and triton.language's names of types -> the names in a signature.
_TYPES = {
    **{
        f"{sign}int{bits}": f"{sign or 'i'}{bits}"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    **{f"float{bits}": f"fp{bits}" for bits in ("16", "32", "64", "8e4nv", "8e5")},
    "int1": "i1",
    "bfloat16": "bf16",
}
_TORCH = {
    "half": "float16",
    "float": "float32",
    "int": "int32",
    "long": "int64",
    "bool": "int1",
}
_COUNTS = {
    "stride",
    "numel",
    "size",
    "dim",
    "element_size",
    "len",
    "int",
    "cdiv",
    "next_power_of_2",
    "ceil",
    "floor",
}

_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor", "advance")
_LOOPS = ("range", "static_range", "arange", "cdiv")
_SHAPING = (
    *_LOOPS,
    "zeros",
    "full",
    "reshape",
    "view",
    "broadcast_to",
    "make_block_ptr",
    "dot",
)
# only of 32-bit floats and wider
_WIDE = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "sigmoid")
_TYPED = ("to", "cast", "zeros", "empty", "full")  # their last argument is a type
_MOST_LAUNCHES = 100  # of a function that are looked at


@dataclass(frozen=True, slots=True)
class KernelGuess:
    """A specialisation of a kernel."""

    name: str
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    options: Mapping[str, Constant]
    guessed: Mapping[str, str] = field(default_factory=dict)
    """Name -> why it has its value, where that follows from its use alone."""


@dataclass(frozen=True, slots=True)
class HostValue:
    """What host code passes to a kernel."""

    kind: str = ""
    """int, float, bool, str, tensor or type; empty when host code shows nothing."""
    value: Constant = None
    """A literal; `tl.float16` for a type; the element type of a tensor in a signature's
    words.
    """


Bindings = Mapping[str, Sequence[ast.expr]]
"""Name -> the values that it is bound to. `p += n` binds `p + n`, whose first operand
is still the address.
"""
Uses = Mapping[str, set[str]]
"""Use -> parameters: `pointers` are addresses, `of_indices` and `of_floats` those of
integers and 32-bit floats, `tested` conditions; `types` and `sizes` are constexprs.
"""


def guess_kernel(
    source: str, name: str | None = None, host: str | None = None
) -> KernelGuess | None:
    """Guess a specialisation of the source's kernel, if it is Python and has one.

    `host` is the text with the launches and decorators, if it is another one.

    Raises:
        BadInput: No kernel has that name; or no name is given and there are several
            kernels that no other calls.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    kernels = {
        function.name: function
        for function in _functions(tree)
        if any(map(is_jit, function.decorator_list))
    }
    if not kernels or "triton" not in source:
        return None
    if name is not None and name not in kernels:
        raise BadInput(f"there is no kernel {name!r}; there is {', '.join(kernels)}")
    called = {
        ast.unparse(node.func)
        for each in kernels.values()
        for node in ast.walk(each)
        if isinstance(node, ast.Call)
    }
    outer = [each for each in kernels if each not in called] or list(kernels)
    if name is None and len(outer) > 1:
        raise BadInput(
            "the file has several kernels; name one as FILE.py:KERNEL: "
            f"{', '.join(outer)}"
        )
    for alias, values in bindings_in(tree).items():
        if isinstance(value := values[0], ast.Name) and value.id in kernels:
            kernels.setdefault(alias, kernels[value.id])
    return _guess(ast.parse(host or source), kernels[name or outer[0]], kernels)


def is_jit(decorator: ast.expr) -> bool:
    """Return whether a decorator marks a kernel."""
    return ast.unparse(decorator).partition("(")[0] in ("triton.jit", "jit", "tl.jit")


def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _guess(
    host: ast.Module, kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef]
) -> KernelGuess:
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    shown = _shown(host, kernel.name, [each.arg for each in parameters])
    uses, defaults = _uses_of(kernel, callees), bindings_in(kernel.args)
    element = "fp16"
    if "bfloat16" in ast.unparse(kernel):
        element = "bf16"  # products want both factors of one type
    signature: dict[str, str] = {}
    constexprs: dict[str, Constant] = {}
    options = dict.fromkeys(("num_warps", "num_stages"), "Triton's default")
    guessed = {name: why for name, why in options.items() if name not in shown}
    for parameter in parameters:
        name, passed = parameter.arg, shown.get(parameter.arg, HostValue())
        annotation = ""
        if parameter.annotation:
            annotation = ast.unparse(parameter.annotation)
        if "constexpr" not in annotation:
            signature[name], why = _type(name, annotation, passed, uses, element)
            if passed.kind != "tensor" and annotation not in _SCALARS:
                guessed[name] = why
            continue
        default = defaults.get(name, [ast.Name("")])[0]
        value = passed.value
        if value is None or passed.kind == "tensor":
            value = _value_of(default, {}).value
        if value is None and not isinstance(default, ast.Constant):
            value, guessed[name] = _constant(name, passed.kind, uses)
        constexprs[name] = value
    launched = {name: shown[name].value for name in options if name in shown}
    known = {name: value for name, value in launched.items() if value}
    return KernelGuess(
        kernel.name, signature, constexprs, known or {"num_warps": 4}, guessed
    )


def _constant(name: str, kind: str, uses: Uses) -> tuple[Constant, str]:
    """Return a value that fits how a constexpr is used, and why. `kind` is that of what
    host code passes.
    """
    if kind == "type" or name in uses["types"]:
        return "tl.float32", "used as a type"
    if not kind and _NAMES_TYPE.search(name) and name not in uses["sizes"]:
        return "tl.float32", "named like a type"
    is_switch = name in uses["tested"] or name.upper().startswith(_SWITCHES)
    if kind == "bool" or (kind != "int" and name not in uses["sizes"] and is_switch):
        return False, "a switch"
    if kind == "float":
        return 1.0, "launched with a float"
    if _NAMES_COUNT.search(name):
        return 2, "named like a count"
    return 64, "a size" if name in uses["sizes"] else "a number"


def _type(
    name: str, annotation: str, passed: HostValue, uses: Uses, element: str
) -> tuple[str, str]:
    """Return the type of an argument, and why."""
    if passed.kind == "tensor":
        return f"*{passed.value}:16", "launched with a tensor"
    is_pointer = name in uses["pointers"] or annotation.strip("'\"").endswith("Tensor")
    if not is_pointer and annotation in _SCALARS:
        return _SCALARS[annotation], "annotated"
    if is_pointer or name.lower().endswith("ptr"):
        if name in uses["of_indices"]:
            return "*i32:16", "an address of indices"
        if _NAMES_INDICES.search(name):
            return "*i32:16", "named like indices"
        if name in uses["of_floats"]:
            return "*fp32:16", "what it loads is used as 32-bit floats"
        why = "an address" if is_pointer else "named like a pointer"
        return f"*{element}:16", why
    if passed.kind in _SCALARS:
        return _SCALARS[passed.kind], f"launched with {passed.kind}"
    if _NAMES_FRACTION.search(name):
        return "fp32", "named like a fraction"
    return "i32", "a number"


def _shown(
    host: ast.Module, kernel: str, parameters: Sequence[str]
) -> dict[str, HostValue]:
    """Parameter or option -> its value in the first `Config({...}, num_warps=...)`,
    else in the first launch that shows it.
    """
    everywhere = bindings_in(host)
    shown = _tuned(host, kernel, everywhere)
    for scope in (*_functions(host), host):
        launches = _launches(scope, kernel)
        if not launches:
            continue
        near = everywhere | bindings_in(scope)
        for call in launches:
            positional = (
                value for value in call.args if not isinstance(value, ast.Starred)
            )
            passed = (*zip(parameters, positional, strict=False), *_keywords(call))
            for name, node in passed:
                if name not in shown:
                    value = _value_of(node, dict(near))
                    if value.kind:
                        shown[name] = value
    return shown


def _tuned(
    host: ast.Module, kernel: str, bound: Mapping[str, list[ast.expr]]
) -> dict[str, HostValue]:
    """Return the values of an autotuned kernel's first `Config` that shows any."""
    decorators = [
        decorator
        for function in _functions(host)
        if function.name == kernel
        for decorator in function.decorator_list
    ]
    if not any("autotune" in ast.unparse(decorator) for decorator in decorators):
        return {}
    nodes = chain.from_iterable(map(ast.walk, (*decorators, host)))
    for node in nodes:
        if not isinstance(node, ast.Call) or _callee(node) != "Config":
            continue
        values = {
            name: _value_of(entry, dict(bound)) for name, entry in _config_entries(node)
        }
        known = {
            name: value for name, value in values.items() if value.value is not None
        }
        if known:
            return known
    return {}


def _config_entries(config: ast.Call) -> list[tuple[str, ast.expr]]:
    """Return what a `Config` sets: its keywords, and the entries of its dictionary."""
    entries = _keywords(config)
    match config.args:
        case [ast.Dict(keys=keys, values=values), *_]:
            names = [getattr(key, "value", None) for key in keys]
            entries += [
                (name, value) for name, value in zip(names, values, strict=True) if name
            ]
    return entries


def _launches(scope: ast.AST, kernel: str) -> list[ast.Call]:
    """Return the calls `kernel[grid](...)` among the first launches of a scope."""
    launches = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
    ]
    return [
        call
        for call in launches[:_MOST_LAUNCHES]
        if ast.unparse(call.func).partition("[")[0].rpartition(".")[2] == kernel
    ]


def _callee(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _keywords(call: ast.Call) -> list[tuple[str, ast.expr]]:
    return [(word.arg, word.value) for word in call.keywords if word.arg]


def _value_of(node: ast.expr, names: dict[str, list[ast.expr]]) -> HostValue:
    """Return what an expression of host code is, if its text shows it; of a list, an
    element.
    """
    same: Sequence[ast.expr] = ()  # expressions that this one may be equal to
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return HostValue(type(value).__name__, value)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return HostValue("bool")
        case ast.BinOp(op=ast.Div()):
            return HostValue("float")
        case ast.Attribute(
            attr=attribute, value=ast.Name(id="torch" | "tl" | "triton")
        ):
            name = _TORCH.get(attribute, attribute)
            if name in _TYPES:
                return HostValue("type", f"tl.{name}")
            return HostValue()
        case ast.Attribute(attr="dtype" | "shape" as name):
            return HostValue("type" if name == "dtype" else "int")
        case ast.Call():
            callee = _callee(node)
            types = [word.value for word in node.keywords if word.arg == "dtype"]
            if callee == "to":
                types += node.args[:1]
            if types:
                element = _value_of(types[0], {})
                if element.kind == "type" and element.value:
                    name = str(element.value).removeprefix("tl.")
                    return HostValue("tensor", _TYPES[name])
            return HostValue("int" if callee in _COUNTS else "")
        case ast.Name(id=name):
            same = names.pop(name, ())  # so that no name is followed twice
        case ast.IfExp(body=first, orelse=second):
            same = (first, second)
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            same = values
    return next(
        (known for each in same if (known := _value_of(each, names)).kind), HostValue()
    )


def _uses_of(kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef]) -> Uses:
    """Return what a kernel, and the kernels that it calls, do with its parameters."""
    seen, bound = _expressions_by_use(kernel, callees), bindings_in(kernel)
    uses = {use: _names_of(seen[use]) for use in ("types", "sizes", "tested")}
    for use, computed in (
        ("of_indices", [*seen["pointers"], *seen["numbers"]]),
        ("of_floats", seen["wide"]),
    ):
        nodes = _below(
            computed,
            bound,
            lambda node: () if _is_load(node) else ast.iter_child_nodes(node),
        )
        sources = [
            node.args[0]
            for node in nodes
            if isinstance(node, ast.Call) and _is_load(node) and node.args
        ]
        uses[use] = _names_of(_below([*sources, *seen[use]], bound, _base_of))
    return {**uses, "pointers": _names_of(_below(seen["pointers"], bound, _base_of))}


def _expressions_by_use(
    kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef]
) -> dict[str, list[ast.expr]]:
    """Return the expressions that a kernel, and the kernels that it calls, use in each
    way.
    """
    callees = {name: callee for name, callee in callees.items() if callee is not kernel}
    seen: dict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(kernel):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test):
                seen["tested"] += [
                    test,
                    *getattr(test, "values", []),
                    getattr(test, "operand", test),
                ]
            case ast.Compare(
                left=left, comparators=[ast.Attribute(value=ast.Name(id="tl")), *_]
            ):
                seen["types"].append(left)
            case ast.Call():
                for use, values in _uses_in_call(node):
                    seen[use] += values
                inner = callees.get(ast.unparse(node.func))
                if inner is None:
                    continue
                parameters = [each.arg for each in inner.args.args]
                passed = [
                    *zip(parameters, node.args, strict=False),
                    *_keywords(node),
                ]
                for use, names in _uses_of(inner, callees).items():
                    seen[use] += [value for name, value in passed if name in names]
    return seen


def _uses_in_call(call: ast.Call) -> Iterator[tuple[str, Sequence[ast.expr]]]:
    """Yield each use that a call makes of expressions, with these."""
    callee, named = _callee(call), _keywords(call)
    yield "types", [value for name, value in named if name.endswith("dtype")]
    if callee in _TYPED:
        yield "types", call.args[-1:]
    if callee in _SHAPING:
        parts = chain.from_iterable(map(ast.walk, call.args))
        yield "sizes", [part for part in parts if isinstance(part, ast.Name)]
    if callee in _LOOPS:
        yield "numbers", call.args
    if callee in _WIDE:
        yield "wide", call.args
    if callee in _MEMORY or callee.startswith("atomic_"):
        yield "pointers", call.args[:1]
        yield (
            "pointers",
            [value for name, value in named if name in ("base", "pointer")],
        )


def computed_from(names: Sequence[str], kernel: ast.FunctionDef) -> set[str]:
    """Return the names that these are computed from, themselves included."""
    nodes = map(ast.Name, names)
    return _names_of(_below(nodes, bindings_in(kernel), ast.iter_child_nodes))


def bindings_in(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return what names are bound to: by assignments, loops and defaults of
    parameters.
    """
    bound: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        pairs: list[tuple[str, ast.expr]] = []
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                values = getattr(value, "elts", [value] * len(targets))
                pairs = list(zip(map(ast.unparse, targets), values, strict=False))
            case (
                ast.Assign(targets=[target, *_], value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                pairs = [(ast.unparse(target), value)]
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                pairs = [(name, ast.BinOp(target, op, value))]
            case (
                ast.For(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
            ):
                pairs = [(ast.unparse(target), value)]
            case ast.arguments(args=positional, defaults=defaults):
                pairs = list(
                    zip(
                        [each.arg for each in positional][::-1],
                        defaults[::-1],
                        strict=False,
                    )
                )
                pairs += [
                    (each.arg, value)
                    for each, value in zip(
                        node.kwonlyargs, node.kw_defaults, strict=True
                    )
                    if value
                ]
        for name, value in pairs:
            bound.setdefault(name, []).append(value)
    return bound


def _below(
    values: Iterable[ast.AST],
    bound: Bindings,
    parts: Callable[[ast.AST], Iterable[ast.AST]],
) -> Iterator[ast.AST]:
    """Yield these expressions, their parts, the values that names are bound to, and
    their parts.
    """
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


def _is_load(node: ast.AST) -> bool:
    """Return whether this reads memory; an atomic operation returns what was there."""
    return isinstance(node, ast.Call) and _callee(node).startswith(("load", "atomic_"))


def _base_of(node: ast.AST) -> Sequence[ast.AST]:
    """Return the parts of an address that may be the pointer: the first operand of a
    sum.
    """
    match node:
        case (
            ast.Call(func=ast.Attribute(attr="where"), args=[_, first, second])
            | ast.IfExp(body=first, orelse=second)
        ):
            return (first, second)
        case (
            ast.BinOp(left=inner)
            | ast.Call(func=ast.Attribute(attr="to", value=inner))
            | ast.Call(args=[inner, *_])
        ):
            return (inner,)
    return ()
