"""Guess how a kernel can be specialised, from its source."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from triage.compilers.base import Constant
from triage.config.values import yaml_text
from triage.model.errors import BadInput

_SIZE = 64  # of a constexpr whose name does not suggest a switch
_SWITCHES = ("USE_", "IS_", "HAS_", "STORE_", "OUTPUT_", "CAUSAL", "ALLOW_", "EVEN_", "ENABLE_", "SAVE_")
_LAUNCH = ("num_warps", "num_stages")


@dataclass(frozen=True, slots=True)
class KernelGuess:
    """several: whether the file has more kernels, so that the recipe must name this one; options: those of the first
    configuration in the source, or 4 warps.
    """

    name: str
    several: bool
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    options: Mapping[str, Constant]


def guess_kernel(source: str, name: str | None = None) -> KernelGuess | None:
    """A specialisation of the source's kernel; None when the source has no kernel or cannot be parsed. Parameters that address
    memory are pointers; those in addresses, masks, bounds and comparisons are integers; the rest are floats.

    Raises:
        BadInput: no kernel has that name; or no name is given and there are several kernels that no other calls.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    marks = _marks(tree)
    kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and marks & _decorators(node)}
    if not kernels:
        return None
    if name is not None and name not in kernels:
        raise BadInput(f"there is no kernel {name!r}; there is {', '.join(kernels)}")
    reachable = {**kernels, **{alias: kernels[name] for alias, name in _aliases(tree) if name in kernels}}
    names = [node.func.id for kernel in kernels.values() for node in calls_in(kernel) if isinstance(node.func, ast.Name)]
    called = {reachable[name].name for name in names if name in reachable}
    outer = [kernel_name for kernel_name in kernels if kernel_name not in called] or list(kernels)
    if name is None and len(outer) > 1:
        raise BadInput(f"the file has several kernels; name one with --kernel: {', '.join(outer)}")
    kernel = kernels[name or outer[0]]
    configured, tested = _configured(kernel), _tested_names(kernel)
    uses = uses_of(kernel, reachable)
    arguments = kernel.args
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = positional[len(positional) - len(arguments.defaults) :]
    defaults = dict(zip([parameter.arg for parameter in with_default], arguments.defaults, strict=True))
    element = "bf16" if "bfloat16" in ast.unparse(kernel) else "fp16"  # products want both factors of one type
    signature: dict[str, str] = {}
    constexprs: dict[str, Constant] = {}
    for parameter in (*positional, *arguments.kwonlyargs):
        name = parameter.arg
        if parameter.annotation is not None and "constexpr" in ast.unparse(parameter.annotation):
            guess = False if name in tested or name.upper().startswith(_SWITCHES) else _SIZE
            constexprs[name] = configured.get(name, _value(defaults.get(name), guess))
        else:
            signature[name] = _type(name, uses, element)
    options = {word: configured[word] for word in _LAUNCH if word in configured} or {"num_warps": 4}
    return KernelGuess(kernel.name, len(kernels) > 1, signature, constexprs, options)


def guess_keys(guess: KernelGuess) -> list[str]:
    """The recipe keys of a guess, with a comment that it is one."""
    types = [f"  {name}: {json.dumps(kind)}" for name, kind in guess.signature.items()]
    return [
        *([f"kernel: {guess.name}"] if guess.several else []),
        "# Guessed from the kernel's code; check each type. `*` is a pointer, :16 means divisible by 16.",
        "signature:",
        *types,
        *([f"constexprs: {yaml_text(guess.constexprs)}"] if guess.constexprs else []),
        *([f"options: {yaml_text(guess.options)}"] if guess.options else []),
    ]


def _marks(tree: ast.Module) -> set[str]:
    """The decorators that mark a kernel, by their names in this file."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "triton"]
    return {"triton.jit", *(alias.asname or alias.name for node in imports for alias in node.names if alias.name == "jit")}


def _decorators(function: ast.FunctionDef) -> set[str]:
    return {ast.unparse(decorator).partition("(")[0] for decorator in function.decorator_list}


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=name)):
                yield alias, name


def _configured(kernel: ast.FunctionDef) -> dict[str, Constant]:
    """The constants of the first `Config({...}, num_warps=...)` in the decorators."""
    for decorator in kernel.decorator_list:
        for call in calls_in(decorator):
            if ast.unparse(call.func).rpartition(".")[2] == "Config":
                pairs: list[tuple[str, ast.expr]] = [(word.arg, word.value) for word in call.keywords if word.arg]
                for settings in call.args[:1]:
                    if isinstance(settings, ast.Dict):
                        keys = [key.value if isinstance(key, ast.Constant) else None for key in settings.keys]
                        pairs += [(str(key), value) for key, value in zip(keys, settings.values, strict=True) if key]
                known = [(name, value.value) for name, value in pairs if isinstance(value, ast.Constant)]
                return {name: value for name, value in known if isinstance(value, (bool, int, float))}
    return {}


def _value(default: ast.expr | None, guess: Constant) -> Constant:
    if isinstance(default, ast.Constant) and (default.value is None or isinstance(default.value, (bool, int, float, str))):
        return default.value
    return guess


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


def _type(name: str, uses: Uses, element: str) -> str:
    if name in uses.of_indices:
        return "*i32:16"
    if name in uses.of_floats:
        return "*fp32:16"
    if name in uses.pointers or name.lower().endswith("ptr"):
        return f"*{element}:16"
    return "i32" if name in uses.whole else "fp32"


_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor", "advance")
_WIDE = (
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "erf",
    "sigmoid",
)


@dataclass(frozen=True, slots=True)
class Uses:
    """Parameters by use. pointers: they address memory; of_indices, of_floats: pointers to integers and to 32-bit floats;
    whole: integers.
    """

    pointers: frozenset[str]
    of_indices: frozenset[str]
    of_floats: frozenset[str]
    whole: frozenset[str]


def uses_of(kernel: ast.FunctionDef, kernels: Mapping[str, ast.FunctionDef], above: frozenset[str] = frozenset()) -> Uses:
    """The uses of a kernel's parameters, also in the kernels that it calls. above: the kernels that call it."""
    bound: dict[str, list[ast.expr]] = {}
    for statement in ast.walk(kernel):
        for target, value in _bindings(statement):
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    bound.setdefault(node.id, []).append(value)
    addresses: list[ast.expr] = []
    wide: list[ast.expr] = []
    positions: list[ast.expr] = []  # values in addresses and loop bounds; a compared value may come from memory
    compared: list[ast.expr] = [node for node in ast.walk(kernel) if isinstance(node, ast.Compare)]
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
                compared += [value] if name in inner.whole else []
    in_positions = _reached(positions, bound)
    whole = in_positions | _reached(compared, bound)
    pointers = {name for address in addresses for name in _bases(address, bound, frozenset())}
    indices = {name: values for name, values in bound.items() if name in in_positions}
    loaded = [call for values in indices.values() for value in values for call in _loads(value)]
    of_indices = {name for call in loaded for name in _bases(call.args[0], bound, frozenset())}
    of_floats = {name for call in _read_into(wide, bound) for name in _bases(call.args[0], bound, frozenset())} - of_indices
    return Uses(frozenset(pointers), frozenset(of_indices), frozenset(of_floats), frozenset(whole - pointers))


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
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".load") and value.args:
        yield value


def _reached(values: Sequence[ast.expr], bound: Mapping[str, list[ast.expr]]) -> set[str]:
    """The names that the values are computed from, without what is loaded from memory."""
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
    elif not (isinstance(value, ast.Call) and ast.unparse(value.func).endswith(".load")):
        for child in ast.iter_child_nodes(value):
            yield from _without_loads(child)


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
