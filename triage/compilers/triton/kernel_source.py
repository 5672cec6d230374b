"""Read how a kernel can be specialised: its parameters, what it does with them, its decorators and launches."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from triage.compilers.base import Constant
from triage.compilers.triton.kernel_launch import TYPES, Passed, arguments_passed
from triage.compilers.triton.python_names import is_jit, leaves
from triage.model.errors import BadInput

_SIZE, _FEW = 64, 2  # of a constexpr whose value nothing shows; _FEW where its name counts steps or heads
_NAMES_TYPE = re.compile(r"(?i)d_?type$|(?:^|_)type$|_ty$")
_NAMES_COUNT = re.compile(r"(?i)(?:^|_)(?:num|stages?|steps?|iters?|groups?|top_?k|ndim|rank|depth)(?:_|$)|^n_|^(?:H|HQ|G|NH)$")
_NAMES_INDICES = re.compile(
    r"(?i)seq_?len|indices|index|idx|(?:^|_)ids?(?:_|$)|offsets|lens$|lengths|tables?(?:_|$)|mapping|slots?(?:_|$)"
)
_SWITCHES = ("USE_", "IS_", "HAS_", "STORE_", "OUTPUT_", "CAUSAL", "ALLOW_", "EVEN_", "ENABLE_", "SAVE_")
_SCALARS = {"int": "i32", "float": "fp32", "bool": "i1"}
_LAUNCH = ("num_warps", "num_stages")
_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor", "advance")
_ADDRESS = ("base", "pointer")  # keywords of these
_WIDE = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "sigmoid")  # only of 32-bit floats and wider
_SHAPING = (
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
_TYPE_AT = {"to": 0, "cast": 1, "zeros": 1, "empty": 1, "full": 2}  # callee -> the argument that is a type


@dataclass(frozen=True, slots=True)
class KernelGuess:
    """A specialisation of a kernel."""

    name: str
    several: bool
    """Whether the file has more kernels, so that the recipe must name this one."""
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    options: Mapping[str, Constant]
    guessed: frozenset[str] = frozenset()
    """Names whose values follow from their use alone."""
    unknown: frozenset[str] = frozenset()
    """Names of which nothing is known; their values are arbitrary."""


def guess_kernel(source: str, name: str | None = None, host: str | None = None) -> KernelGuess | None:
    """Guess a specialisation of the source's kernel; None if the source has no kernel or cannot be parsed.

    host: the text with its launches and decorators, if another one.

    Raises:
        BadInput: No kernel has that name; or no name is given and there are several kernels that no other calls.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "triton"]
    marks = {alias.asname or alias.name for node in imports for alias in node.names if alias.name == "jit"} | {"triton.jit"}
    functions = [node for node in leaves(tree.body) if isinstance(node, ast.FunctionDef)]
    kernels = {node.name: node for node in functions if any(is_jit(each, marks) for each in node.decorator_list)}
    if not kernels:
        return None
    if name is not None and name not in kernels:
        raise BadInput(f"there is no kernel {name!r}; there is {', '.join(kernels)}")
    callees = dict(kernels)
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=original)) if original in kernels:
                callees[alias] = kernels[original]
    names = [call.func.id for kernel in kernels.values() for call in calls_in(kernel) if isinstance(call.func, ast.Name)]
    called = {callees[callee].name for callee in names if callee in callees}
    outer = [each for each in kernels if each not in called] or list(kernels)
    if name is None and len(outer) > 1:
        raise BadInput(f"the file has several kernels; name one with --kernel: {', '.join(outer)}")
    return _guess(ast.parse(host or source), kernels[name or outer[0]], callees, several=len(kernels) > 1)


def _guess(host: ast.Module, kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef], *, several: bool) -> KernelGuess:
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    positional = parameters[: len(parameters) - len(kernel.args.kwonlyargs)]
    defaults: dict[str, ast.expr | None] = {}
    if kernel.args.defaults:
        defaults = dict(zip([each.arg for each in positional[-len(kernel.args.defaults) :]], kernel.args.defaults, strict=True))
    defaults |= {each.arg: node for each, node in zip(kernel.args.kwonlyargs, kernel.args.kw_defaults, strict=True)}
    passed = arguments_passed(host, kernel.name, [each.arg for each in parameters])
    configured = _configured(host, kernel.name)
    uses = uses_of(kernel, callees)
    compared: dict[str, Constant] = {}
    for node in (node for function in (kernel, *callees.values()) for node in ast.walk(function)):
        match node:
            case ast.Compare(
                left=ast.Name(id=left), comparators=[ast.Constant(value=bool() | int() | float() | str() as literal)]
            ):
                compared.setdefault(left, literal)
    element = "bf16" if "bfloat16" in ast.unparse(kernel) else "fp16"  # products want both factors of one type
    signature: dict[str, str] = {}
    constexprs: dict[str, Constant] = {}
    guessed: set[str] = set()
    unknown: set[str] = set()
    for parameter in parameters:
        name = parameter.arg
        annotation = ast.unparse(parameter.annotation) if parameter.annotation else ""
        if "constexpr" not in annotation:
            signature[name] = _type(name, annotation, passed.get(name), uses, element)
            guessed.add(name)
            continue
        is_known, value = _known(configured.get(name, _NOTHING), passed.get(name), defaults.get(name))
        if not is_known:
            guessed.add(name)
            value = _constant(name, passed.get(name), uses, compared)
            unknown |= {name} if value in (_SIZE, _FEW) and not isinstance(value, bool) else set()
        constexprs[name] = value
    options = {word: passed[word].value for word in _LAUNCH if word in passed and passed[word].value}
    options = {**options, **{word: configured[word] for word in _LAUNCH if word in configured}}
    guessed |= {"num_warps"} - options.keys()
    return KernelGuess(
        kernel.name, several, signature, constexprs, options or {"num_warps": 4}, frozenset(guessed), frozenset(unknown)
    )


_NOTHING: Constant = "<nothing>"


def _known(configured: Constant, passed: Passed | None, default: ast.expr | None) -> tuple[bool, Constant]:
    """The value of a constexpr in a configuration, in a launch or by default, and whether there is one."""
    if configured is not _NOTHING:
        return True, configured
    if passed is not None and passed.value is not None and passed.kind != "tensor":
        return True, passed.value
    match default:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return True, value
        case ast.Attribute(value=ast.Name(id="tl"), attr=word) if word in TYPES:
            return True, f"tl.{word}"
    return False, None


def _constant(name: str, passed: Passed | None, uses: Uses, compared: Mapping[str, Constant]) -> Constant:
    """A value that fits how a constexpr is used."""
    kind = passed.kind if passed else None
    if kind == "type" or name in uses["types"] or (kind is None and _NAMES_TYPE.search(name) and name not in uses["sizes"]):
        return "tl.float32"
    if name in compared and name not in uses["sizes"]:
        return compared[name]
    if kind == "bool":
        return False
    if kind == "float":
        return 1.0
    if name in uses["axes"]:
        return 0
    is_switch = name in uses["tested"] or name.upper().startswith(_SWITCHES)
    if kind != "int" and name not in uses["sizes"] and is_switch:
        return False
    return _FEW if _NAMES_COUNT.search(name) else _SIZE


def _type(name: str, annotation: str, passed: Passed | None, uses: Uses, element: str) -> str:
    kind = passed.kind if passed else None
    if passed is not None and kind == "tensor" and passed.value:
        return f"*{passed.value}:16"
    is_pointer = name in uses["pointers"] or kind == "tensor" or annotation.strip("'\"").endswith("Tensor")
    if not is_pointer and annotation in _SCALARS:
        return _SCALARS[annotation]
    if name in uses["of_indices"] or (is_pointer and _NAMES_INDICES.search(name)):
        return "*i32:16"
    if name in uses["of_floats"]:
        return "*fp32:16"
    if is_pointer or name.lower().endswith("ptr"):
        return f"*{element}:16"
    return _SCALARS.get(kind or "") or ("i32" if name in uses["whole"] else "fp32")


def _configured(tree: ast.Module, kernel: str) -> dict[str, Constant]:
    """The constants of the first `Config({...}, num_warps=...)` in the decorators, and in what these name."""
    defined: dict[str, ast.stmt] = {}
    for statement in leaves(tree.body):
        match statement:
            case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                defined[name] = statement
    waiting: list[ast.AST] = list(getattr(defined.get(kernel), "decorator_list", []))
    seen = {kernel}
    while waiting:
        node = waiting.pop(0)
        for call in calls_in(node):
            if ast.unparse(call.func).rpartition(".")[2] == "Config" and (known := _constants_of(call, node, defined)):
                return known
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id in defined and inner.id not in seen:
                seen.add(inner.id)
                waiting.append(defined[inner.id])
    return {}


def _constants_of(call: ast.Call, around: ast.AST, defined: Mapping[str, ast.stmt]) -> dict[str, Constant]:
    """The constants of a configuration; a name that runs over a list stands for the first element."""
    first: dict[str, ast.expr] = {}
    for node in ast.walk(around):
        match node:
            case ast.comprehension(target=ast.Name(id=name), iter=values) | ast.For(target=ast.Name(id=name), iter=values):
                listed = getattr(defined.get(values.id), "value", None) if isinstance(values, ast.Name) else values
                if isinstance(listed, (ast.List, ast.Tuple)) and listed.elts:
                    first[name] = listed.elts[0]
    pairs = [(word.arg, word.value) for word in call.keywords if word.arg]
    if call.args and isinstance(call.args[0], ast.Dict):
        keys = (key.value if isinstance(key, ast.Constant) else None for key in call.args[0].keys)
        pairs += [(str(key), value) for key, value in zip(keys, call.args[0].values, strict=True) if key]
    named = [(name, first.get(value.id, value) if isinstance(value, ast.Name) else value) for name, value in pairs]
    known = [(name, value.value) for name, value in named if isinstance(value, ast.Constant)]
    return {name: value for name, value in known if isinstance(value, (bool, int, float, str))}


Uses = Mapping[str, set[str]]
"""Use -> parameters. `pointers` are addresses, `of_indices` and `of_floats` pointers to integers and 32-bit floats, `whole`
integers, `bounds` those in addresses and loop bounds, `tested` conditions; `types`, `sizes` and `axes` are constexprs."""
_DIRECT = ("types", "sizes", "axes", "tested")


def uses_of(kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef], above: frozenset[str] = frozenset()) -> Uses:
    """The uses of a kernel's parameters, also in the kernels that it calls. above: the kernels that call it."""
    bound = bindings_of(kernel)
    seen: dict[str, list[ast.expr]] = defaultdict(list)  # use -> expressions
    bits: list[ast.expr] = []
    for node in ast.walk(kernel):
        match node:
            case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor() | ast.LShift() | ast.RShift(), right=right):
                bits += [left, right]
            case ast.Attribute(value=ast.Name() as value, attr="primitive_bitwidth" | "is_fp8" | "is_floating" | "is_int"):
                seen["types"].append(value)
            case ast.If(test=test) | ast.IfExp(test=test):
                seen["tested"] += [test, *getattr(test, "values", []), getattr(test, "operand", test)]
            case ast.Compare(left=left, comparators=[right, *_]):
                seen["whole"].append(node)
                if isinstance(right, ast.Attribute) and right.attr in TYPES:
                    seen["types"].append(left)
            case ast.Call():
                _see_call(node, seen)
                inner = callees.get(ast.unparse(node.func))
                if inner is None or inner.name in {kernel.name, *above}:
                    continue
                values = dict(zip([each.arg for each in inner.args.args], node.args, strict=False))
                values |= {word.arg: word.value for word in node.keywords if word.arg}
                for use, names in uses_of(inner, callees, above | {kernel.name}).items():
                    seen[use] += [value for name, value in values.items() if name in names]
    uses = {use: {each.id for each in seen[use] if isinstance(each, ast.Name)} for use in _DIRECT}
    uses["sizes"] -= uses["types"]
    pointers = _bases(seen["pointers"], bound)
    bounds = _reached([*seen["pointers"], *seen["bounds"]], bound)
    positions = [value for name, values in bound.items() if name in bounds for value in values]
    loads = [*_loads(positions, {}), *_loads(bits, bound)]
    uses["of_indices"] = _bases([*seen["of_indices"], *(load.args[0] for load in loads)], bound)
    wide = [load.args[0] for load in _loads(seen["wide"], bound)]
    uses["of_floats"] = _bases([*seen["of_floats"], *wide], bound) - uses["of_indices"]
    whole = bounds | _reached(seen["whole"], bound)
    return {**uses, "pointers": pointers, "bounds": bounds - pointers, "whole": whole - pointers}


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
    elif callee in _WIDE and isinstance(call.func, ast.Attribute):
        seen["wide"] += call.args
    elif callee in ("range", "static_range", "arange", "cdiv"):
        seen["bounds"] += call.args
    elif callee in _MEMORY or callee.startswith("atomic_"):
        seen["pointers"] += call.args[:1] + [value for word, value in keywords.items() if word in _ADDRESS]
        seen["bounds"] += call.args[1:] if callee.startswith(("make", "adv")) else []
        seen["whole"] += [value for word, value in keywords.items() if word not in ("other", *_ADDRESS)]


def bindings_of(kernel: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """Name -> the values that a kernel binds to it. `p += n` binds `p + n`, whose first operand is still the address."""
    bound: dict[str, list[ast.expr]] = {}
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
                    bound.setdefault(node.id, []).append(value)
    return bound


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """All calls in a piece of code."""
    return (call for call in ast.walk(node) if isinstance(call, ast.Call))


def _is_load(value: ast.AST) -> bool:
    """Whether this reads memory; an atomic operation returns what was there."""
    callee = ast.unparse(value.func).rpartition(".") if isinstance(value, ast.Call) else ("", "", "")
    return callee[1] == "." and (callee[2] == "load" or callee[2].startswith("atomic_"))


def _loads(values: Sequence[ast.expr], bound: Mapping[str, list[ast.expr]]) -> Iterator[ast.Call]:
    """The loads that these values are, or are sums and conversions of."""
    seen: set[str] = set()
    waiting = list(values)
    while waiting:
        match waiting.pop():
            case ast.BinOp(left=left, right=right) if bound:
                waiting += [left, right]
            case ast.Name(id=name) if name not in seen:
                seen.add(name)
                waiting += bound.get(name, [])
            case ast.Call(args=[_, *_]) as call if _is_load(call):
                yield call
            case ast.Call(func=ast.Attribute(attr="to", value=inner)):
                waiting.append(inner)


def _reached(values: Sequence[ast.expr], bound: Mapping[str, list[ast.expr]], *, loads: bool = False) -> set[str]:
    """The names that the values are computed from. Without loads: only as integers, and not from memory."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(values)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            waiting += bound.get(node.id, []) if node.id not in names else []
            names.add(node.id)
        elif loads or not (_is_load(node) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))):
            waiting += ast.iter_child_nodes(node)
    return names


def computed_from(names: Sequence[str], kernel: ast.FunctionDef) -> set[str]:
    """The names that these are computed from, themselves included."""
    return _reached([ast.Name(name) for name in names], bindings_of(kernel), loads=True)


def _bases(addresses: Sequence[ast.expr], bound: Mapping[str, list[ast.expr]]) -> set[str]:
    """The names that addresses start with: the first operand of a sum, and what it is bound to."""
    bases: set[str] = set()
    seen: set[str] = set()
    waiting = list(addresses)
    while waiting:
        match waiting.pop():
            case ast.Name(id=name):
                bases.add(name)
                waiting += bound.get(name, []) if name not in seen else []
                seen.add(name)
            case ast.Call(func=ast.Attribute(attr="where"), args=[_, first, second]) | ast.IfExp(body=first, orelse=second):
                waiting += [first, second]
            case ast.BinOp(left=inner) | ast.Call(func=ast.Attribute(attr="to", value=inner)) | ast.Call(args=[inner, *_]):
                waiting.append(inner)
    return bases
