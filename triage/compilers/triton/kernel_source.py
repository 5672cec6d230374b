"""Guess the types and constants to compile a kernel for.

A launch in host code, such as `kernel[grid](x, x.stride(0), BLOCK=128)`, shows
constants and types. What no launch shows is guessed from how the kernel uses a
parameter, and from the parameter's name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
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
    "double": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8e4nv": "fp8e4nv",
    "float8e5": "fp8e5",
}
# Functions of host code that return an integer.
_COUNTS = re.compile(
    "stride|numel|size|dim|element_size|data_ptr|len|int|cdiv|next_power_of_2|ceil|floor"
)
# Those that return a tensor of 32-bit floats unless `dtype` names another type.
_MAKERS = re.compile(r"torch\.(?:empty|zeros|ones|randn?|linspace|eye)")
# Functions of the kernel's language for floats of 32 bits and more.
_WIDE = re.compile("exp2?|log2?|r?sqrt|sin|cos|erf|sigmoid")
# Those whose first argument is an address.
_MEMORY = re.compile("load|store|make_block_ptr|advance|atomic_.*")
_LOAD = re.compile("load|atomic_")


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
    """A literal; `tl.float16` for a type."""
    element: str = ""
    """The type, or that of a tensor's elements, as in a signature."""


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
        if isinstance(node, ast.FunctionDef) and _is_kernel(node)
    }
    if not kernels or "triton" not in source:
        return None
    if name is None:
        name = _outermost(kernels)
    if name not in kernels:
        raise BadInput(f"there is no kernel {name!r}; there is {', '.join(kernels)}")
    launching = ast.parse(host or source)
    for node in ast.walk(launching):
        if isinstance(node, ast.FunctionDef) and _is_kernel(node):
            node.body.clear()  # what it assigns is not what host code passes
    return _guess(launching, kernels[name])


def _is_kernel(node: ast.AST) -> bool:
    return any(map(is_jit, getattr(node, "decorator_list", ())))


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
                guess.signature[name] = f"*{passed.element}:16"
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
    passed: list[tuple[str, ast.expr]] = []
    if "autotune" in ast.unparse(decorators):
        calls = [*_calls(decorators), *_calls(host)]
        for call in [call for call in calls if _callee(call) == "Config"][:1]:
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
    _bind_arguments(host, bound)
    shown: dict[str, HostValue] = {}
    for name, node in passed:
        if name not in shown:
            value = _value_of(node, dict(bound))
            if value.kind:
                shown[name] = value
    return shown


def _bind_arguments(host: ast.Module, bound: Bindings) -> None:
    """Add what host code passes to its own functions to the values of their parameters,
    which are thus looked up last.
    """
    functions = {
        node.name: node for node in host.body if isinstance(node, ast.FunctionDef)
    }
    for call in _calls(host):
        function = functions.get(_callee(call))
        if function and isinstance(call.func, ast.Name):
            names = [parameter.arg for parameter in function.args.args]
            pairs = [*zip(names, call.args, strict=False), *_keywords(call)]
            for name, value in pairs:
                bound.setdefault(name, []).append(value)


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
    tensors: Sequence[ast.expr] = ()  # and those with the same type if they are tensors
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return HostValue(type(value).__name__, value)
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return HostValue("bool")
        case ast.Attribute(attr="dtype", value=tensor):
            shown = _value_of(tensor, names)
            return HostValue("type", None, shown.element)
        case ast.Attribute(attr=name) if name in _TYPES:
            return HostValue("type", f"tl.{name}", _TYPES[name])
        case ast.Call():
            return _value_of_call(node, names)
        case ast.Name(id=name):
            same = names.pop(name, ())
        case ast.IfExp(body=first, orelse=second):
            same = (first, second)
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            same = values
        case ast.BinOp(left=left, right=right):
            tensors = (left, right)
        case ast.Subscript(value=tensor) | ast.Attribute(value=tensor, attr="T"):
            tensors = (tensor,)
    return (
        _first_shown(same, names)
        or _first_shown(tensors, names, "tensor")
        or HostValue()
    )


def _first_shown(
    nodes: Iterable[ast.expr], names: Bindings, kind: str = ""
) -> HostValue | None:
    """Return the first value of some expressions that shows its kind."""
    for node in nodes:
        shown = _value_of(node, names)
        if shown.kind and kind in ("", shown.kind):
            return shown
    return None


def _value_of_call(call: ast.Call, names: Bindings) -> HostValue:
    """Return a tensor if the call names the type of its elements or has a tensor with
    one, and an integer for a function that returns one.
    """
    name, function = _callee(call), ast.unparse(call.func)
    types = [value for key, value in _keywords(call) if key == "dtype"]
    tensors = call.args[:1]
    owner = getattr(call.func, "value", None)
    if owner is not None and ast.unparse(owner) != "torch":
        tensors = [owner]
        if name in _TYPES:  # x.float()
            return HostValue("tensor", None, _TYPES[name])
    if name in ("to", "type"):
        types += call.args
    shown = _first_shown(types, dict(names), "type")
    if shown and shown.element:
        return HostValue("tensor", None, shown.element)
    if _COUNTS.fullmatch(name):
        return HostValue("int")
    if types or name in ("item", "tolist"):
        return HostValue()
    if _MAKERS.fullmatch(function):
        return HostValue("tensor", None, "fp32")
    return _first_shown(tensors, names, "tensor") or HostValue()


def _uses_of(kernel: ast.FunctionDef) -> Uses:
    """Return how a kernel uses its parameters."""
    addresses: list[ast.AST] = []
    floats: list[ast.AST] = []
    conditions: list[ast.AST] = []
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
        {node.id for node in conditions if isinstance(node, ast.Name)},
    )


def _loaded_addresses(values: Sequence[ast.AST], bound: Bindings) -> list[ast.AST]:
    """Return the addresses from which the kernel loads to compute these values."""
    addresses: list[ast.AST] = []
    names: set[str] = set()
    waiting = list(values)
    for node in waiting:
        if isinstance(node, ast.Name) and node.id not in names:
            names.add(node.id)
            waiting += bound.get(node.id, [])
        if isinstance(node, ast.Call) and _LOAD.match(_callee(node)):
            addresses += node.args[:1]
        waiting += ast.iter_child_nodes(node)
    return addresses


def _pointers_in(addresses: Sequence[ast.AST], bound: Bindings) -> set[str]:
    """Return the names that addresses such as `x + offsets` begin with."""
    names: set[str] = set()
    waiting = list(addresses)
    for node in waiting:
        match node:
            case ast.Name(id=name) if name not in names:
                names.add(name)
                waiting += bound.get(name, [])
            case (
                ast.Call(func=ast.Attribute(attr="to", value=inner))
                | ast.BinOp(left=inner)
                | ast.Call(args=[inner, *_])
            ):
                waiting.append(inner)
    return names


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
