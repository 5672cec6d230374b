"""Guess the types and constants to compile a kernel for.

A launch in host code, such as `kernel[grid](x, x.stride(0), BLOCK=128)`, shows
constants and types. What no launch shows is guessed from how the kernel uses a
parameter, and from the parameter's name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from triage.compilers.base import KernelSpec
from triage.model.errors import BadInput
from triage.recipes.values import Constant

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
_SCALARS = {"int": "i32", "float": "fp32", "bool": "i1"}
# Other names of types in torch -> their names in triton.language.
_TYPES = {
    "bool": "int1",
    "int": "int32",
    "long": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "float8_e4m3fn": "float8e4nv",
    "float8_e5m2": "float8e5",
}
_TYPE = re.compile(r"(bfloat|float|uint|int)(\d+\w*)")
# How names of types begin in triton.language, and in a signature.
_IN_SIGNATURE = {"bfloat": "bf", "float": "fp", "uint": "u", "int": "i"}
# Functions of host code that return an integer.
_COUNTS = re.compile(
    "stride|numel|size|dim|element_size|data_ptr|len|int|cdiv|next_power_of_2|ceil|floor"
)
# Those that return a tensor of 32-bit floats unless `dtype` names another type.
_FLOAT_MAKERS = re.compile(r"torch\.(?:empty|zeros|ones|randn?|linspace|eye)")
# Functions of the kernel's language for floats of 32 bits and more.
_WIDE = re.compile("exp2?|log2?|r?sqrt|sin|cos|erf|sigmoid")
# Those whose first argument is an address.
_MEMORY = re.compile("load|store|make_block_ptr|advance|atomic_.*")
_LOAD = re.compile("load|atomic_")


@dataclass(frozen=True)
class KernelGuess(KernelSpec):
    """The types, constants and launch options to compile a kernel for."""

    guessed: dict[str, str] = field(default_factory=dict)
    """Parameter or option that host code does not show -> why it has its value."""


@dataclass(frozen=True)
class HostValue:
    """A value that host code passes to a kernel."""

    kind: str = ""
    """int, float, bool, str, NoneType, tensor or type; empty if host code does not
    show it.
    """
    value: Constant = None
    """A literal; for a type, and for a tensor with such elements, `tl.float16`."""


Pairs = list[tuple[str, ast.expr]]
"""Names with values that are given to them."""
Bindings = dict[str, list[ast.expr]]
"""Name -> the values that are assigned to it."""


def guess_kernel(
    source: str, name: str | None = None, file: object = None
) -> KernelGuess | None:
    """Guess what a kernel of a file is compiled for. Returns None if the source is not
    Python, or has no kernel.

    Args:
        source: The text, with the kernel's launches if there are any.
        name: The kernel, if there are several.
        file: The name of the file in messages.

    Raises:
        BadInput: No kernel has that name; or no name is given, and there are several
            kernels that no kernel calls.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        if name is None:
            return None
        raise BadInput(f"{file}:{error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):  # it is nested too deeply
        return None
    kernels = {
        node.name: node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(map(is_jit, node.decorator_list))
    }
    if not kernels or "triton" not in source:
        return None
    if name is None:
        name = _outermost_kernel(kernels)
    if name not in kernels:
        raise BadInput(f"there is no kernel {name!r}; there is {', '.join(kernels)}")
    kernel = kernels[name]
    pointers = _pointers_of(kernel)
    for other in kernels.values():
        other.body.clear()  # what it assigns is not what host code passes
    return _guess_types(kernel, _host_values(tree, kernel), pointers)


def is_jit(decorator: ast.expr) -> bool:
    """Return whether a decorator marks a kernel."""
    return ast.unparse(decorator).partition("(")[0] in ("triton.jit", "jit", "tl.jit")


def _outermost_kernel(kernels: Mapping[str, ast.FunctionDef]) -> str:
    """Return the only kernel that no kernel calls."""
    called = {_callee(call) for kernel in kernels.values() for call in _calls(kernel)}
    names = [name for name in kernels if name not in called] or list(kernels)
    if len(names) > 1:
        raise BadInput(
            f"the file has several kernels; name one as FILE.py:KERNEL: "
            f"{', '.join(names)}"
        )
    return names[0]


def _guess_types(
    kernel: ast.FunctionDef,
    host_values: Mapping[str, HostValue],
    pointers: Mapping[str, str],
) -> KernelGuess:
    """Return what host code shows of a kernel's types and constants, and guesses for
    the rest.
    """
    guess = KernelGuess(kernel.name)
    for name in ("num_warps", "num_stages"):
        value = host_values.get(name, HostValue()).value
        if value is None:
            guess.guessed[name] = "Triton's default"
        else:
            guess.options[name] = value
    for parameter in [*kernel.args.args, *kernel.args.kwonlyargs]:
        name = parameter.arg
        passed = host_values.get(name, HostValue())
        if parameter.annotation and "constexpr" in ast.unparse(parameter.annotation):
            if passed.kind == "NoneType" or passed.value is not None:
                guess.constexprs[name] = passed.value
                continue
            guess.constexprs[name] = _guess_constant(name, passed.kind)
        elif passed.kind == "tensor":
            guess.signature[name] = f"*{_signature_type(passed.value)}:16"
            continue
        else:
            number = "fp32" if _NAMES_FRACTION.search(name) else "i32"
            number = _SCALARS.get(passed.kind, number)
            guess.signature[name] = pointers.get(name, number)
        guess.guessed[name] = "by its name and its use"
    return guess


def _guess_constant(name: str, kind: str) -> Constant:
    """Guess the value of a constexpr. `kind` is the kind of value that host code
    passes, see `HostValue`.
    """
    if kind == "type" or (not kind and _NAMES_TYPE.search(name)):
        return "tl.float32"
    if kind == "bool":
        return False
    if _NAMES_COUNT.search(name):
        return 2
    return 64


def _host_values(host: ast.Module, kernel: ast.FunctionDef) -> dict[str, HostValue]:
    """Return the values of parameters and options that host code shows: those of the
    first `Config({...}, num_warps=...)`, then those of the first launch with each. A
    value counts more than its kind.
    """
    decorators = ast.List(kernel.decorator_list)
    passed: Pairs = []
    if "autotune" in ast.unparse(decorators):
        calls = [*_calls(decorators), *_calls(host)]
        for call in [call for call in calls if _callee(call) == "Config"][:1]:
            match call.args:
                case [ast.Dict(keys=keys, values=values), *_]:
                    names = [ast.unparse(key).strip("'") for key in keys if key]
                    passed += zip(names, values, strict=False)
            passed += _argument_pairs(call)
    bound = _bindings(host)
    functions = {
        node.name: node.args for node in host.body if isinstance(node, ast.FunctionDef)
    }
    for call in _calls(host):
        if isinstance(call.func, ast.Subscript) and _callee(call) == kernel.name:
            passed += _argument_pairs(call, kernel.args)
        elif isinstance(call.func, ast.Name) and call.func.id in functions:
            # what a function's callers pass is looked up after its own assignments
            for name, value in _argument_pairs(call, functions[call.func.id]):
                bound.setdefault(name, []).append(value)
    host_values: dict[str, HostValue] = {}
    for name, node in passed:
        if host_values.get(name, HostValue()).value is None:
            host_value = _host_value(node, dict(bound))
            if host_value.kind:
                host_values[name] = host_value
    return host_values


def _calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _callee(call: ast.Call) -> str:
    """Return the name of the function that is called, or launched, without its
    module.
    """
    function = call.func
    if isinstance(function, ast.Subscript):
        function = function.value
    return ast.unparse(function).rpartition(".")[2]


def _argument_pairs(call: ast.Call, parameters: ast.arguments | None = None) -> Pairs:
    """Return the keyword arguments of a call, and its others by their parameters."""
    names = [item.arg for item in parameters.args] if parameters else []
    keywords = [(word.arg, word.value) for word in call.keywords if word.arg]
    return [*zip(names, call.args, strict=False), *keywords]


def _host_value(node: ast.expr, names: Bindings) -> HostValue:
    """Return the kind and the value of an expression in host code, as far as its text
    shows them. A list counts as its first element that shows them.

    `names` are the bindings of names; a name is removed when it is looked up.
    """
    alternatives: Sequence[ast.expr] = ()  # expressions that this one may be equal to
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return HostValue(type(value).__name__, value)
        case ast.Attribute(attr="dtype"):
            return HostValue("type")
        case ast.Attribute(attr=name) if _type_named(name):
            return HostValue("type", _type_named(name))
        case ast.Call():
            return _host_value_of_call(node, names)
        case ast.Name(id=name):
            alternatives = names.pop(name, ())
        case ast.IfExp(body=first, orelse=second):
            alternatives = (first, second)
        case ast.BoolOp(values=values) | ast.List(elts=values):
            alternatives = values
    return _first_known_value(alternatives, names)


def _first_known_value(
    nodes: Iterable[ast.expr], names: Bindings, kind: str = ""
) -> HostValue:
    """Return the first value of some expressions that shows its kind."""
    for node in nodes:
        host_value = _host_value(node, names)
        if host_value.kind not in ("", "NoneType") and kind in ("", host_value.kind):
            return host_value
    return HostValue()


def _host_value_of_call(call: ast.Call, names: Bindings) -> HostValue:
    """Return a tensor if the call names the type of its elements or has a tensor with
    one, and an integer for a function that returns one.
    """
    name = _callee(call)
    types = [value for key, value in _argument_pairs(call) if key == "dtype"]
    tensors = call.args[:1]
    owner = getattr(call.func, "value", None)
    if owner is not None and ast.unparse(owner) != "torch":
        tensors = [owner]
        if _type_named(name):  # x.float()
            return HostValue("tensor", _type_named(name))
    if name in ("to", "type"):
        types += call.args
    host_value = _first_known_value(types, dict(names), "type")
    if host_value.value:
        return HostValue("tensor", host_value.value)
    if _COUNTS.fullmatch(name):
        return HostValue("int")
    if types:
        return HostValue()
    if _FLOAT_MAKERS.fullmatch(ast.unparse(call.func)):
        return HostValue("tensor", "tl.float32")
    return _first_known_value(tensors, names, "tensor")


def _type_named(name: str) -> str | None:
    """Return a type of torch or triton.language, such as `tl.float16` for `half`."""
    name = _TYPES.get(name, name)
    if _TYPE.fullmatch(name):
        return f"tl.{name}"
    return None


def _signature_type(type_: Constant) -> str:
    """`fp16` for `tl.float16`."""
    match = _TYPE.search(str(type_))
    assert match
    return _IN_SIGNATURE[match[1]] + match[2]


def _pointers_of(kernel: ast.FunctionDef) -> dict[str, str]:
    """Return the types of pointers that a kernel uses: indices, or floats of one kind,
    because both factors of a product must have one type.
    """
    text = ast.unparse(kernel)
    element = "fp32"
    if "bfloat16" in text:
        element = "bf16"
    elif "float16" in text:
        element = "fp16"
    addresses: list[ast.AST] = []
    wide: list[ast.AST] = []
    for call in _calls(kernel):
        if _WIDE.fullmatch(_callee(call)):
            wide += call.args
        if _MEMORY.fullmatch(_callee(call)):
            bases = [value for name, value in _argument_pairs(call) if name == "base"]
            addresses += [*call.args[:1], *bases]
    bound = _bindings(kernel)
    names = _base_names(addresses, bound)
    names |= {item.arg for item in kernel.args.args if item.arg.lower().endswith("ptr")}
    floats = dict.fromkeys(names, f"*{element}:16")
    of_wide = _base_names(_loaded_addresses(wide, bound), bound)
    floats |= dict.fromkeys(of_wide, "*fp32:16")
    indices = _base_names(_loaded_addresses(addresses, bound), bound)
    indices |= set(filter(_NAMES_INDICES.search, names))
    return floats | dict.fromkeys(indices, "*i32:16")


def _loaded_addresses(values: Iterable[ast.AST], bound: Bindings) -> list[ast.AST]:
    """Return the addresses from which the kernel loads to compute these values."""
    addresses: list[ast.AST] = []
    for node in _reachable_nodes(values, bound, ast.iter_child_nodes):
        if isinstance(node, ast.Call) and _LOAD.match(_callee(node)):
            addresses += node.args[:1]
    return addresses


def _base_names(addresses: Iterable[ast.AST], bound: Bindings) -> set[str]:
    """Return the names that addresses such as `x + offsets` begin with."""

    def left_operand(node: ast.AST) -> list[ast.expr]:
        if isinstance(node, ast.BinOp):
            return [node.left]
        return []

    nodes = _reachable_nodes(addresses, bound, left_operand)
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _reachable_nodes(
    nodes: Iterable[ast.AST],
    bound: Bindings,
    parts: Callable[[ast.AST], Iterable[ast.AST]],
) -> list[ast.AST]:
    """Return nodes, their parts, the values of names, and so on."""
    waiting = list(nodes)
    names: set[str] = set()
    for node in waiting:
        if isinstance(node, ast.Name) and node.id not in names:
            names.add(node.id)
            waiting += bound.get(node.id, [])
        waiting += parts(node)
    return waiting


def _bindings(tree: ast.AST) -> Bindings:
    """Return the values that are assigned to names."""
    bound: Bindings = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
                pass
            case ast.Assign(names, value):
                values = [value] * len(names)
            case _:
                continue
        for name, value in zip(names, values, strict=False):
            bound.setdefault(ast.unparse(name), []).append(value)
    return bound
