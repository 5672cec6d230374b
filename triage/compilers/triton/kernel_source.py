"""Guess how a kernel is specialised: from its parameters, what it does with them, its decorators and its launches."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from triage.compilers.base import Constant
from triage.compilers.triton.kernel_launch import HostValue, Names, arguments_passed, assigned, defaults_of, read_value
from triage.compilers.triton.kernel_uses import Uses, uses_of
from triage.model.errors import BadInput

_NAMES_TYPE = re.compile(r"(?i)d_?type$|(?:^|_)type$|_ty$")
_NAMES_COUNT = re.compile(r"(?i)(?:^|_)(?:num|stages?|steps?|iters?|groups?|top_?k|ndim|rank|depth)(?:_|$)|^n_|^(?:H|HQ|G|NH)$")
_NAMES_INDICES = re.compile(
    r"(?i)seq_?len|ind(?:ex|ices)|idx|(?:^|_)ids?(?:_|$)|offsets|len(?:s$|gths)|tables?(?:_|$)|mapping|slots?"
)
_SWITCHES = ("USE_", "IS_", "HAS_", "STORE_", "OUTPUT_", "CAUSAL", "ALLOW_", "EVEN_", "ENABLE_", "SAVE_")
_SCALARS = {"int": "i32", "float": "fp32", "bool": "i1"}
_NOTHING = HostValue("")  # host code shows nothing


@dataclass(frozen=True, slots=True)
class KernelGuess:
    """A specialisation of a kernel."""

    name: str
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
    called = {ast.unparse(node.func) for each in kernels.values() for node in ast.walk(each) if isinstance(node, ast.Call)}
    outer = [each for each in kernels if each not in called] or list(kernels)
    if name is None and len(outer) > 1:
        raise BadInput(f"the file has several kernels; name one with --kernel: {', '.join(outer)}")
    renamed = [(alias, value.id) for alias, value in assigned(tree.body) if isinstance(value, ast.Name)]
    callees = kernels | {alias: kernels[each] for alias, each in renamed if each in kernels}
    return _guess(ast.parse(host or source), kernels[name or outer[0]], callees)


def is_jit(decorator: ast.expr) -> bool:
    """Whether a decorator marks a kernel."""
    return ast.unparse(decorator).partition("(")[0] in ("triton.jit", "jit", "tl.jit")


def _guess(host: ast.Module, kernel: ast.FunctionDef, callees: Mapping[str, ast.FunctionDef]) -> KernelGuess:
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    defaults = defaults_of(kernel.args)
    passed = arguments_passed(host, kernel.name, [each.arg for each in parameters])
    configured = _configured(host, kernel.name)
    uses = uses_of(kernel, callees)
    element = "bf16" if "bfloat16" in ast.unparse(kernel) else "fp16"  # products want both factors of one type
    signature: dict[str, str] = {}
    constexprs: dict[str, Constant] = {}
    guessed: set[str] = set()
    for parameter in parameters:
        name, shown, default = parameter.arg, passed.get(parameter.arg, _NOTHING), defaults.get(parameter.arg)
        annotation = ast.unparse(parameter.annotation) if parameter.annotation else ""
        if "constexpr" not in annotation:
            signature[name] = _type(name, annotation, shown, uses, element)
            guessed.add(name)
            continue
        by_default = (read_value(default, ()) if default else None) or _NOTHING
        values = (configured.get(name), shown.value if shown.kind != "tensor" else None, by_default.value)
        constexprs[name] = next((value for value in values if value is not None), None)
        if constexprs[name] is None and not isinstance(default, ast.Constant):
            guessed.add(name)
            constexprs[name] = _constant(name, shown.kind, uses)
    launched = {word: configured.get(word) or passed.get(word, _NOTHING).value for word in ("num_warps", "num_stages")}
    options = {word: value for word, value in launched.items() if value}
    guessed |= {"num_warps"} - options.keys()
    return KernelGuess(kernel.name, signature, constexprs, options or {"num_warps": 4}, frozenset(guessed))


def _constant(name: str, kind: str, uses: Uses) -> Constant:
    """A value that fits how a constexpr is used. kind: of what host code passes."""
    if kind == "type" or name in uses["types"] or (not kind and _NAMES_TYPE.search(name) and name not in uses["sizes"]):
        return "tl.float32"
    if name in uses["axes"]:
        return 0
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
    names = [*assigned(tree.body), *((ast.unparse(loop.target), loop.iter) for loop in loops)]
    calls = [node for place in (*decorators, tree) for node in ast.walk(place) if isinstance(node, ast.Call)]
    configs = (call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "Config")
    return next(filter(None, (_constants_of(call, names) for call in configs)), {})


def _constants_of(config: ast.Call, names: Names) -> dict[str, Constant]:
    pairs: list[tuple[str | None, ast.expr]] = [(word.arg, word.value) for word in config.keywords]
    if config.args and isinstance(entries := config.args[0], ast.Dict):
        pairs += [(getattr(key, "value", None), value) for key, value in zip(entries.keys, entries.values, strict=True)]
    found = [(name, read_value(value, names)) for name, value in pairs if name]
    return {name: passed.value for name, passed in found if passed and passed.value is not None}
