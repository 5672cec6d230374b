"""Guess the types and constants to compile a kernel for.

A launch in host code, such as `kernel[grid](x, x.stride(0), BLOCK=128)`, shows
constants and types. What no launch shows is guessed from how the kernel uses a
parameter, and from the parameter's name.
"""

from __future__ import annotations

import ast
import re
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
_NAMES_SWITCH = re.compile(
    r"(?i)(?:USE|IS|HAS|STORE|OUTPUT|ALLOW|EVEN|ENABLE|SAVE)_|CAUSAL"
)
_SCALARS = {"int": "i32", "float": "fp32", "bool": "i1"}
# The name of a type in torch or triton.language -> its name in a signature.
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
# Functions of host code that return an integer.
_COUNTS = re.compile(
    "stride|numel|size|dim|element_size|len|int|cdiv|next_power_of_2|ceil|floor"
)
# Functions of the kernel's language whose first argument is an address.
_MEMORY = re.compile(
    "load|store|make_block_ptr|make_tensor_descriptor|advance|atomic_.*"
)
# only of 32-bit floats and wider
_WIDE = re.compile("exp2?|log2?|r?sqrt|sin|cos|erf|sigmoid")
_MOST_LAUNCHES = 100  # launches in a function that are read


@dataclass(frozen=True, slots=True)
class KernelGuess:
    """The types, constants and launch options to compile a kernel for. `KernelSpec`
    describes the fields.
    """

    name: str
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    options: Mapping[str, Constant]
    guessed: Mapping[str, str] = field(default_factory=dict)
    """Parameter or option that host code does not show -> why it has its value."""


@dataclass(frozen=True, slots=True)
class HostValue:
    """A value that host code passes to a kernel."""

    kind: str = ""
    """int, float, bool, str, tensor or type; empty if host code does not show it."""
    value: Constant = None
    """A literal; `tl.float16` for a type; the name of the element type, as in a
    signature, for a tensor.
    """


Bindings = Mapping[str, Sequence[ast.expr]]
"""Name -> the values that are assigned to it. `p += n` assigns `p + n`."""
Uses = Mapping[str, set[str]]
"""How a kernel uses parameters: the use -> their names.

- `pointers`: as an address; `index_pointers`: as the address of integers;
  `float_pointers`: as the address of 32-bit floats
- `conditions`: as a condition
"""


def guess_kernel(
    source: str, name: str | None = None, host: str | None = None
) -> KernelGuess | None:
    """Guess what the source's kernel is compiled for. Returns None if the source is not
    Python, or has no kernel.

    Args:
        source: The file with the kernel.
        name: The kernel, if there are several.
        host: The file with its launches and decorators (default: `source`).

    Raises:
        BadInput: No kernel has that name; or no name is given, and there are several
            kernels that no kernel calls.
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
        for kernel in kernels.values()
        for node in ast.walk(kernel)
        if isinstance(node, ast.Call)
    }
    outermost = [each for each in kernels if each not in called] or list(kernels)
    if name is None and len(outermost) > 1:
        raise BadInput(
            "the file has several kernels; name one as FILE.py:KERNEL: "
            f"{', '.join(outermost)}"
        )
    return _guess(ast.parse(host or source), kernels[name or outermost[0]])


def is_jit(decorator: ast.expr) -> bool:
    """Return whether a decorator marks a kernel."""
    return ast.unparse(decorator).partition("(")[0] in ("triton.jit", "jit", "tl.jit")


def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _guess(host: ast.Module, kernel: ast.FunctionDef) -> KernelGuess:
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    shown = _host_values(host, kernel.name, [each.arg for each in parameters])
    uses, defaults = _uses_of(kernel), bindings_in(kernel.args)
    element = "fp16"
    if "bfloat16" in ast.unparse(kernel):
        element = "bf16"  # both factors of a product must have one type
    signature: dict[str, str] = {}
    constexprs: dict[str, Constant] = {}
    options: dict[str, Constant] = {}
    guessed: dict[str, str] = {}
    for name in ("num_warps", "num_stages"):
        if name not in shown:
            guessed[name] = "Triton's default"
        elif shown[name].value:
            options[name] = shown[name].value
    for parameter in parameters:
        name = parameter.arg
        passed = shown.get(name, HostValue())
        annotation = ast.unparse(parameter.annotation) if parameter.annotation else ""
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
    return KernelGuess(
        kernel.name, signature, constexprs, options or {"num_warps": 4}, guessed
    )


def _constant(name: str, kind: str, uses: Uses) -> tuple[Constant, str]:
    """Guess the value of a constexpr, and say why. `kind` is the kind of value that
    host code passes, see `HostValue`.
    """
    if kind == "type" or (not kind and _NAMES_TYPE.search(name)):
        return "tl.float32", "a type"
    is_switch = name in uses["conditions"] or bool(_NAMES_SWITCH.match(name))
    if kind == "bool" or (kind != "int" and is_switch):
        return False, "a switch"
    if kind == "float":
        return 1.0, "launched with a float"
    if _NAMES_COUNT.search(name):
        return 2, "named like a count"
    return 64, "a number"


def _type(
    name: str, annotation: str, passed: HostValue, uses: Uses, element: str
) -> tuple[str, str]:
    """Guess the type of an argument, and say why. Unless something shows another type,
    a pointer points to `element`.
    """
    if passed.kind == "tensor":
        return f"*{passed.value}:16", "launched with a tensor"
    is_pointer = name in uses["pointers"] or annotation.strip("'\"").endswith("Tensor")
    if not is_pointer and annotation in _SCALARS:
        return _SCALARS[annotation], "annotated"
    if is_pointer or name.lower().endswith("ptr"):
        if name in uses["index_pointers"]:
            return "*i32:16", "an address of indices"
        if _NAMES_INDICES.search(name):
            return "*i32:16", "named like indices"
        if name in uses["float_pointers"]:
            return "*fp32:16", "what it loads is used as 32-bit floats"
        why = "an address" if is_pointer else "named like a pointer"
        return f"*{element}:16", why
    if passed.kind in _SCALARS:
        return _SCALARS[passed.kind], f"launched with {passed.kind}"
    if _NAMES_FRACTION.search(name):
        return "fp32", "named like a fraction"
    return "i32", "a number"


def _host_values(
    host: ast.Module, kernel: str, parameters: Sequence[str]
) -> dict[str, HostValue]:
    """Return the values of parameters and options that host code shows: those of the
    first `Config({...}, num_warps=...)`, then those of the first launch with each.
    """
    everywhere = bindings_in(host)
    shown = _autotuned_values(host, kernel, everywhere)
    for scope in (*_functions(host), host):
        launches = _launches(scope, kernel)
        if not launches:
            continue
        bound = everywhere | bindings_in(scope)
        for call in launches:
            positional = (
                value for value in call.args if not isinstance(value, ast.Starred)
            )
            passed = (*zip(parameters, positional, strict=False), *_keywords(call))
            for name, node in passed:
                if name not in shown:
                    value = _value_of(node, dict(bound))
                    if value.kind:
                        shown[name] = value
    return shown


def _autotuned_values(
    host: ast.Module, kernel: str, bound: Mapping[str, list[ast.expr]]
) -> dict[str, HostValue]:
    """Return the values in the first `Config` of an autotuned kernel that shows any."""
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
        known = {}
        for name, entry in _config_entries(node):
            value = _value_of(entry, dict(bound))
            if value.value is not None:
                known[name] = value
        if known:
            return known
    return {}


def _config_entries(config: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield the keywords of a `Config`, and the entries of its dictionary."""
    yield from _keywords(config)
    match config.args:
        case [ast.Dict(keys=keys, values=values), *_]:
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value:
                    yield str(key.value), value


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
    """Return the kind and the value of an expression in host code, as far as its text
    shows them. A list counts as its first element that shows them.

    `names` are the bindings of names; a name is removed when it is looked up.
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
            return _value_of_call(node)
        case ast.Name(id=name):
            same = names.pop(name, ())  # so that no name is looked up twice
        case ast.IfExp(body=first, orelse=second):
            same = (first, second)
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            same = values
    for each in same:
        known = _value_of(each, names)
        if known.kind:
            return known
    return HostValue()


def _value_of_call(call: ast.Call) -> HostValue:
    """Return a tensor if the call names the type of its elements, and an integer for a
    function that returns one.
    """
    callee = _callee(call)
    types = [value for name, value in _keywords(call) if name == "dtype"]
    if callee == "to":
        types += call.args[:1]
    if types:
        element = _value_of(types[0], {})
        if element.kind == "type" and element.value:
            name = str(element.value).removeprefix("tl.")
            return HostValue("tensor", _TYPES[name])
    return HostValue("int" if _COUNTS.fullmatch(callee) else "")


def _uses_of(kernel: ast.FunctionDef) -> Uses:
    """Return how a kernel uses its parameters."""
    addresses: list[ast.expr] = []
    floats: list[ast.expr] = []  # of 32 bits or more
    conditions: list[ast.expr] = []
    for node in ast.walk(kernel):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test):
                # `a and b` and `not a` use their parts as well
                conditions += [
                    test,
                    *getattr(test, "values", []),
                    getattr(test, "operand", test),
                ]
            case ast.Call() if _WIDE.fullmatch(_callee(node)):
                floats += node.args
            case ast.Call() if _MEMORY.fullmatch(_callee(node)):
                addresses += node.args[:1]
                addresses += [
                    value
                    for name, value in _keywords(node)
                    if name in ("base", "pointer")
                ]
    bound = bindings_in(kernel)
    return {
        "pointers": _pointers_in(addresses, bound),
        "index_pointers": _pointers_in(_loaded_addresses(addresses, bound), bound),
        "float_pointers": _pointers_in(_loaded_addresses(floats, bound), bound),
        "conditions": _names_of(conditions),
    }


def _loaded_addresses(values: Iterable[ast.expr], bound: Bindings) -> list[ast.expr]:
    """Return the addresses from which the kernel loads to compute these values."""
    nodes = _expressions_in(
        values,
        bound,
        lambda node: () if _is_load(node) else ast.iter_child_nodes(node),
    )
    return [
        node.args[0]
        for node in nodes
        if isinstance(node, ast.Call) and _is_load(node) and node.args
    ]


def _pointers_in(addresses: Iterable[ast.expr], bound: Bindings) -> set[str]:
    """Return the names that addresses such as `x + offsets` begin with."""
    return _names_of(_expressions_in(addresses, bound, _base_of))


def bindings_in(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return the values of names, see `Bindings`: those of assignments, of loops and of
    defaults of parameters.
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
                with_default = positional[len(positional) - len(defaults) :]
                parameters = [*with_default, *node.kwonlyargs]
                values = [*defaults, *node.kw_defaults]
                for parameter, value in zip(parameters, values, strict=True):
                    if value:
                        pairs.append((parameter.arg, value))
        for name, value in pairs:
            bound.setdefault(name, []).append(value)
    return bound


def _expressions_in(
    values: Iterable[ast.AST],
    bound: Bindings,
    parts: Callable[[ast.AST], Iterable[ast.AST]],
) -> Iterator[ast.AST]:
    """Yield expressions, their `parts`, the values of names among them, and so on. Each
    name is looked up once.
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
    """Return whether a node reads memory; atomic operations return the old value."""
    return isinstance(node, ast.Call) and _callee(node).startswith(("load", "atomic_"))


def _base_of(node: ast.AST) -> Sequence[ast.AST]:
    """Return the parts of an address that may contain its pointer: the left operand of
    a sum, the first argument of a call, both branches of a choice.
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
