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

from triage.compilers.base import Constant
from triage.model.errors import BadInput

_NAMES_TYPE = re.compile(r"(?i)d_?type|(?:^|_)type$|_ty$")
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
    "bool": "i1",
    "int1": "i1",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "int": "i32",
    "int32": "i32",
    "uint32": "u32",
    "long": "i64",
    "int64": "i64",
    "uint64": "u64",
    "half": "fp16",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float": "fp32",
    "float32": "fp32",
    "float64": "fp64",
    "float8e4nv": "fp8e4nv",
    "float8e5": "fp8e5",
}
# Functions of host code that return an integer.
_COUNTS = re.compile(
    "stride|numel|size|dim|element_size|len|int|cdiv|next_power_of_2|ceil|floor"
)
# Functions of the kernel's language for floats of 32 bits and more.
_WIDE = re.compile("exp2?|log2?|r?sqrt|sin|cos|erf|sigmoid")
# Those whose first argument is an address.
_MEMORY = re.compile("load|store|make_block_ptr|advance|atomic_.*")


@dataclass(frozen=True, slots=True)
class KernelGuess:
    """The types, constants and launch options to compile a kernel for. `KernelSpec`
    describes the fields.
    """

    name: str
    signature: dict[str, str] = field(default_factory=dict)
    constexprs: dict[str, Constant] = field(default_factory=dict)
    options: dict[str, Constant] = field(default_factory=dict)
    guessed: dict[str, str] = field(default_factory=dict)
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


Bindings = dict[str, list[ast.expr]]
"""Name -> the values that are assigned to it."""


@dataclass(frozen=True, slots=True)
class Uses:
    """The names that a kernel uses in some way."""

    pointers: set[str]
    index_pointers: set[str]
    """Those of integers: what is loaded there is part of an address."""
    float_pointers: set[str]
    """Those of floats with at least 32 bits."""
    conditions: set[str]


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
        node.name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(map(is_jit, node.decorator_list))
    }
    if not kernels or "triton" not in source:
        return None
    if name is None:
        name = _outermost(kernels)
    if name not in kernels:
        raise BadInput(f"there is no kernel {name!r}; there is {', '.join(kernels)}")
    return _guess(ast.parse(host or source), kernels[name])


def is_jit(decorator: ast.expr) -> bool:
    """Return whether a decorator marks a kernel."""
    return ast.unparse(decorator).partition("(")[0] in ("triton.jit", "jit", "tl.jit")


def _outermost(kernels: Mapping[str, ast.FunctionDef]) -> str:
    """Return the only kernel that no kernel calls."""
    called = {_callee(call) for kernel in kernels.values() for call in _calls(kernel)}
    names = [name for name in kernels if name not in called] or list(kernels)
    if len(names) > 1:
        raise BadInput(
            f"the file has several kernels; name one as FILE.py:KERNEL: "
            f"{', '.join(names)}"
        )
    return names[0]


def _guess(host: ast.Module, kernel: ast.FunctionDef) -> KernelGuess:
    parameters = [*kernel.args.args, *kernel.args.kwonlyargs]
    shown = _host_values(host, kernel, [parameter.arg for parameter in parameters])
    uses, defaults = _uses_of(kernel), _bindings(kernel.args)
    text, element = ast.unparse(kernel), "fp32"
    if "float16" in text:
        # both factors of a product must have one type
        element = "bf16" if "bfloat16" in text else "fp16"
    guess = KernelGuess(kernel.name)
    for name in ("num_warps", "num_stages"):
        if name in shown:
            guess.options[name] = shown[name].value
        else:
            guess.guessed[name] = "Triton's default"
    for parameter in parameters:
        name, passed = parameter.arg, shown.get(parameter.arg, HostValue())
        annotation = ast.unparse(parameter.annotation or ast.Name(""))
        if "constexpr" not in annotation:
            if passed.kind == "tensor":
                guess.signature[name] = f"*{passed.value}:16"
                continue
            kind = annotation if annotation in _SCALARS else passed.kind
            guess.signature[name] = _type(name, kind, uses, element)
        elif passed.value is not None and passed.kind != "tensor":
            guess.constexprs[name] = passed.value
            continue
        elif name in defaults and isinstance(defaults[name][0], ast.Constant):
            guess.constexprs[name] = ast.literal_eval(defaults[name][0])
            continue
        else:
            guess.constexprs[name] = _constant(name, passed.kind, uses)
        guess.guessed[name] = "by its name and its use"
    return guess


def _constant(name: str, kind: str, uses: Uses) -> Constant:
    """Guess the value of a constexpr. `kind` is the kind of value that host code
    passes, see `HostValue`.
    """
    if kind == "type" or (not kind and _NAMES_TYPE.search(name)):
        return "tl.float32"
    is_switch = name in uses.conditions or _NAMES_SWITCH.match(name)
    if kind == "bool" or (kind != "int" and is_switch):
        return False
    if kind == "float":
        return 1.0
    return 2 if _NAMES_COUNT.search(name) else 64


def _type(name: str, kind: str, uses: Uses, element: str) -> str:
    """Guess the type of an argument. Unless something shows another type, a pointer
    points to `element`.
    """
    if name in uses.pointers or name.lower().endswith("ptr"):
        if name in uses.index_pointers or _NAMES_INDICES.search(name):
            return "*i32:16"
        if name in uses.float_pointers:
            return "*fp32:16"
        return f"*{element}:16"
    if kind in _SCALARS:
        return _SCALARS[kind]
    return "fp32" if _NAMES_FRACTION.search(name) else "i32"


def _host_values(
    host: ast.Module, kernel: ast.FunctionDef, parameters: Sequence[str]
) -> dict[str, HostValue]:
    """Return the values of parameters and options that host code shows: those of the
    first `Config({...}, num_warps=...)`, then those of the first launch with each.
    """
    decorators = ast.List(kernel.decorator_list)
    configs: list[ast.Call] = []
    if "autotune" in ast.unparse(decorators):
        calls = [*_calls(decorators), *_calls(host)]
        configs = [call for call in calls if _callee(call) == "Config"]
    passed: list[tuple[str, ast.expr]] = []
    for call in configs[:1]:
        match call.args:
            case [ast.Dict(keys=keys, values=values), *_]:
                names = [ast.unparse(key).strip("'") for key in keys if key]
                passed += zip(names, values, strict=False)
        passed += _keywords(call)
    for call in _calls(host):
        place, _, _ = ast.unparse(call.func).partition("[")
        is_launch = isinstance(call.func, ast.Subscript)
        if is_launch and place.rpartition(".")[2] == kernel.name:
            passed += zip(parameters, call.args, strict=False)
            passed += _keywords(call)
    bound = _bindings(host)
    shown: dict[str, HostValue] = {}
    for name, node in passed:
        if name not in shown:
            value = _value_of(node, dict(bound))
            if value.kind:
                shown[name] = value
    return shown


def _calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _callee(node: ast.AST) -> str:
    """Return the name of the function that a node calls, without its module."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2]
    return ""


def _keywords(call: ast.Call) -> list[tuple[str, ast.expr]]:
    return [(word.arg, word.value) for word in call.keywords if word.arg]


def _value_of(node: ast.expr, names: Bindings) -> HostValue:
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
        case ast.Attribute(attr="dtype"):
            return HostValue("type")
        case ast.Attribute(attr=name) if name in _TYPES:
            return HostValue("type", f"tl.{name}")
        case ast.Call():
            return _value_of_call(node)
        case ast.Name(id=name):
            same = names.pop(name, ())
        case ast.IfExp(body=first, orelse=second):
            same = (first, second)
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            same = values
    for expression in same:
        shown = _value_of(expression, names)
        if shown.kind:
            return shown
    return HostValue()


def _value_of_call(call: ast.Call) -> HostValue:
    """Return a tensor if the call names the type of its elements, and an integer for a
    function that returns one.
    """
    types = [value for name, value in _keywords(call) if name == "dtype"]
    if _callee(call) == "to":
        types += call.args
    for node in types:
        if isinstance(node, ast.Attribute) and node.attr in _TYPES:
            return HostValue("tensor", _TYPES[node.attr])
    return HostValue("int" if _COUNTS.fullmatch(_callee(call)) else "")


def _uses_of(kernel: ast.FunctionDef) -> Uses:
    """Return how a kernel uses its parameters."""
    addresses: list[ast.expr] = []
    floats: list[ast.expr] = []
    conditions: list[ast.expr] = []
    for node in ast.walk(kernel):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test):
                conditions += [test, *getattr(test, "values", [])]
                conditions.append(getattr(test, "operand", test))
            case ast.Call() if _WIDE.fullmatch(_callee(node)):
                floats += node.args
            case ast.Call() if _MEMORY.fullmatch(_callee(node)):
                addresses += node.args[:1]
                addresses += [
                    value for name, value in _keywords(node) if name == "base"
                ]
    bound = _bindings(kernel)
    return Uses(
        _pointers_in(addresses, bound),
        _pointers_in(_loaded_addresses(addresses, bound), bound),
        _pointers_in(_loaded_addresses(floats, bound), bound),
        _names_of(conditions),
    )


def _loaded_addresses(values: Iterable[ast.expr], bound: Bindings) -> list[ast.expr]:
    """Return the addresses from which the kernel loads to compute these values."""
    calls = [
        node
        for node in _expressions_in(values, bound, ast.iter_child_nodes)
        if _callee(node).startswith(("load", "atomic_"))
    ]
    return [call.args[0] for call in calls if isinstance(call, ast.Call) and call.args]


def _pointers_in(addresses: Iterable[ast.expr], bound: Bindings) -> set[str]:
    """Return the names that addresses such as `x + offsets` begin with."""
    return _names_of(_expressions_in(addresses, bound, _base_of))


def _base_of(node: ast.AST) -> Sequence[ast.AST]:
    """Return the part of an address that contains its pointer: the left operand of a
    sum, the first argument of a call.
    """
    match node:
        case (
            ast.Call(func=ast.Attribute(attr="to", value=inner))
            | ast.BinOp(left=inner)
            | ast.Call(args=[inner, *_])
        ):
            return (inner,)
    return ()


def _bindings(tree: ast.AST) -> Bindings:
    """Return the values of names: those of assignments, of loops in comprehensions, and
    of defaults of parameters.
    """
    bound: Bindings = {}
    for node in ast.walk(tree):
        pairs: Iterable[tuple[ast.AST, ast.expr | None]] = []
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                values = getattr(value, "elts", [value] * len(targets))
                pairs = zip(targets, values, strict=False)
            case (
                ast.Assign(targets=[target, *_], value=value)
                | ast.AnnAssign(target=target, value=value)
                | ast.comprehension(target=target, iter=value)
            ):
                pairs = [(target, value)]
            case ast.arguments(args=positional, defaults=defaults):
                with_default = positional[len(positional) - len(defaults) :]
                pairs = zip(with_default, defaults, strict=True)
        for node, assigned in pairs:
            if assigned is not None:
                name = getattr(node, "arg", None) or ast.unparse(node)
                bound.setdefault(name, []).append(assigned)
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
