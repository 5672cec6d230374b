"""Guess how a kernel is specialised: from its parameters, what it does with them, its decorators and its launches."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from triage.compilers.base import Constant
from triage.compilers.triton.kernel_launch import Names, Passed, arguments_passed, assigned, defaults_of, read, values_by_name
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
    calls = [node for kernel in kernels.values() for node in ast.walk(kernel) if isinstance(node, ast.Call)]
    called = {ast.unparse(call.func) for call in calls}
    outer = [each for each in kernels if each not in called] or list(kernels)
    if name is None and len(outer) > 1:
        raise BadInput(f"the file has several kernels; name one with --kernel: {', '.join(outer)}")
    return _guess(ast.parse(host or source), kernels[name or outer[0]], kernels, several=len(kernels) > 1)


def is_jit(decorator: ast.expr) -> bool:
    """Whether a decorator marks a kernel."""
    return ast.unparse(decorator).partition("(")[0] in ("triton.jit", "jit", "tl.jit")


def _guess(host: ast.Module, kernel: ast.FunctionDef, kernels: Mapping[str, ast.FunctionDef], *, several: bool) -> KernelGuess:
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    defaults = defaults_of(kernel.args)
    passed = arguments_passed(host, kernel.name, [each.arg for each in parameters])
    configured = _configured(host, kernel.name)
    uses = uses_of(kernel, kernels)
    element = "bf16" if "bfloat16" in ast.unparse(kernel) else "fp16"  # products want both factors of one type
    signature: dict[str, str] = {}
    constexprs: dict[str, Constant] = {}
    guessed: set[str] = set()
    for parameter in parameters:
        name = parameter.arg
        annotation = ast.unparse(parameter.annotation) if parameter.annotation else ""
        if "constexpr" not in annotation:
            signature[name] = _type(name, annotation, passed.get(name), uses, element)
            guessed.add(name)
            continue
        default = defaults.get(name)
        shown = (passed.get(name), read(default, {}) if default else None)
        known = [configured.get(name), *(each.value for each in shown if each and each.kind != "tensor")]
        constexprs[name] = next((value for value in known if value is not None), None)
        if constexprs[name] is None and not isinstance(default, ast.Constant):
            guessed.add(name)
            constexprs[name] = _constant(name, passed.get(name), uses)
    options = {word: passed[word].value for word in _LAUNCH if word in passed and passed[word].value}
    options |= {word: configured[word] for word in _LAUNCH if word in configured}
    guessed |= {"num_warps"} - options.keys()
    return KernelGuess(kernel.name, several, signature, constexprs, options or {"num_warps": 4}, frozenset(guessed))


def _constant(name: str, passed: Passed | None, uses: Uses) -> Constant:
    """A value that fits how a constexpr is used."""
    kind = passed.kind if passed else None
    if kind == "type" or name in uses["types"] or (kind is None and _NAMES_TYPE.search(name) and name not in uses["sizes"]):
        return "tl.float32"
    if name in uses["axes"]:
        return 0
    is_switch = name in uses["tested"] or name.upper().startswith(_SWITCHES)
    if kind == "bool" or (kind != "int" and name not in uses["sizes"] and is_switch):
        return False
    if kind == "float":
        return 1.0
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
    if is_pointer or name.lower().endswith("ptr"):
        return f"*{element}:16"
    return _SCALARS.get(kind or "") or ("i32" if name in uses["whole"] else "fp32")


def _configured(tree: ast.Module, kernel: str) -> dict[str, Constant]:
    """The constants of the first `Config({...}, num_warps=...)` in the decorators, and in what these name."""
    defined = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    names = values_by_name(assigned(tree.body))
    waiting: list[ast.AST] = [*defined[kernel].decorator_list] if kernel in defined else []
    seen = {kernel}
    for node in waiting:
        for inner in ast.walk(node):
            match inner:
                case ast.comprehension(target=ast.Name(id=name), iter=values) | ast.For(target=ast.Name(id=name), iter=values):
                    names.setdefault(name, []).append(values)
                case ast.Name(id=name) if name not in seen:
                    seen.add(name)
                    waiting += [defined[name]] if name in defined else names.get(name, [])
    calls = [call for node in waiting for call in ast.walk(node) if isinstance(call, ast.Call)]
    configs = (call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "Config")
    return next(filter(None, (_constants_of(call, names) for call in configs)), {})


def _constants_of(config: ast.Call, names: Names) -> dict[str, Constant]:
    pairs: list[tuple[str | None, ast.expr]] = [(word.arg, word.value) for word in config.keywords]
    for argument in config.args[:1]:
        if isinstance(argument, ast.Dict):
            pairs += [(getattr(key, "value", None), value) for key, value in zip(argument.keys, argument.values, strict=True)]
    read_values = [(name, read(value, names)) for name, value in pairs if name]
    return {name: passed.value for name, passed in read_values if passed and passed.value is not None}
