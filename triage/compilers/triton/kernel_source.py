"""Guess how a kernel is specialised: from its parameters, what it does with them, its decorators and its launches."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from triage.compilers.base import Constant
from triage.compilers.triton.kernel_launch import TYPES, Passed, arguments_passed, defaults_of
from triage.compilers.triton.kernel_uses import Uses, uses_of
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

    Args:
        host: The text with the kernel's launches and decorators, if it is another one.

    Raises:
        BadInput: No kernel has that name; or no name is given and there are several kernels that no other calls.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "triton"]
    marks = {alias.asname or alias.name for node in imports for alias in node.names if alias.name == "jit"} | {"triton.jit"}
    functions = [node for node in _statements(tree.body) if isinstance(node, ast.FunctionDef)]
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
    calls = [node for kernel in kernels.values() for node in ast.walk(kernel) if isinstance(node, ast.Call)]
    called = {callees[call.func.id].name for call in calls if isinstance(call.func, ast.Name) and call.func.id in callees}
    outer = [each for each in kernels if each not in called] or list(kernels)
    if name is None and len(outer) > 1:
        raise BadInput(f"the file has several kernels; name one with --kernel: {', '.join(outer)}")
    return _guess(ast.parse(host or source), kernels[name or outer[0]], callees, several=len(kernels) > 1)


def is_jit(decorator: ast.expr, marks: Collection[str] = ()) -> bool:
    """Whether a decorator marks a kernel. marks: its exact names, any `jit` without."""
    name = ast.unparse(decorator).partition("(")[0]
    return name in marks if marks else name.rpartition(".")[2] == "jit"


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those below conditions."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _statements([inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)])
        else:
            yield node


def _guess(host: ast.Module, kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef], *, several: bool) -> KernelGuess:
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    defaults = defaults_of(kernel.args)
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
        known = [configured[name]] if name in configured else _known(passed.get(name), defaults.get(name))
        constexprs[name] = known[0] if known else _constant(name, passed.get(name), uses, compared)
        if not known:
            guessed.add(name)
            unknown |= {name} if type(constexprs[name]) is int and constexprs[name] in (_SIZE, _FEW) else set()
    options = {word: passed[word].value for word in _LAUNCH if word in passed and passed[word].value}
    options |= {word: configured[word] for word in _LAUNCH if word in configured}
    guessed |= {"num_warps"} - options.keys()
    return KernelGuess(
        kernel.name, several, signature, constexprs, options or {"num_warps": 4}, frozenset(guessed), frozenset(unknown)
    )


def _known(passed: Passed | None, default: ast.expr | None) -> list[Constant]:
    """The value of a constexpr in a launch or by default, if there is one."""
    if passed is not None and passed.value is not None and passed.kind != "tensor":
        return [passed.value]
    match default:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return [value]
        case ast.Attribute(value=ast.Name(id="tl"), attr=word) if word in TYPES:
            return [f"tl.{word}"]
    return []


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
    for statement in _statements(tree.body):
        match statement:
            case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                defined[name] = statement
    waiting: list[ast.AST] = list(getattr(defined.get(kernel), "decorator_list", []))
    seen = {kernel}
    for node in waiting:
        for inner in ast.walk(node):
            match inner:
                case ast.Call(func=ast.Name(id="Config") | ast.Attribute(attr="Config")):
                    if known := _constants_of(inner, node, defined):
                        return known
                case ast.Name(id=name) if name in defined and name not in seen:
                    seen.add(name)
                    waiting.append(defined[name])
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
