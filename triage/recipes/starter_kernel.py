"""What a new recipe says of a kernel: read off its source, the rest guessed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triage.model.case import Constant
from triage.model.errors import BadInput
from triage.recipes.kernel_uses import Uses, calls_in, uses_of

_SIZE = 64  # of what a constexpr's name does not tell
_SWITCHES = ("USE_", "IS_", "HAS_", "STORE_", "OUTPUT_", "CAUSAL", "ALLOW_", "EVEN_", "ENABLE_", "SAVE_")
_LAUNCH = ("num_warps", "num_stages")


@dataclass(frozen=True, slots=True)
class KernelGuess:
    """several: whether the file has more kernels, so that a recipe names this one. options: of the first configuration that
    the source lists, and 4 warps where it lists none.
    """

    name: str
    several: bool
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    options: Mapping[str, Constant]


def guess_kernel(source: str, name: str | None = None) -> KernelGuess | None:
    """How a kernel of the source may be specialised; None where the source has no kernel, or cannot be parsed. Pointers are
    what memory is addressed with, whole numbers what takes part in addresses, masks, bounds and comparisons; the rest are
    floats.

    Raises:
        BadInput: there are several that no other calls, and none of them is named; or none has that name.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    marks = _marks(tree)
    kernels = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef) and marks & _decorators(one)}
    if not kernels:
        return None
    if name is not None and name not in kernels:
        raise BadInput(f"there is no kernel {name!r}; there is {', '.join(kernels)}")
    reachable = {**kernels, **{alias: kernels[name] for alias, name in _aliases(tree) if name in kernels}}
    names = [one.func.id for kernel in kernels.values() for one in calls_in(kernel) if isinstance(one.func, ast.Name)]
    called = {reachable[name].name for name in names if name in reachable}
    outer = [one for one in kernels if one not in called] or list(kernels)
    if name is None and len(outer) > 1:
        raise BadInput(f"the file has several kernels; name one with --kernel: {', '.join(outer)}")
    kernel = kernels[name or outer[0]]
    configured, asked = _configured(kernel), _asked(kernel)
    uses = uses_of(kernel, reachable)
    given = kernel.args
    plain = [*given.posonlyargs, *given.args]
    usual = dict(zip([one.arg for one in plain[len(plain) - len(given.defaults) :]], given.defaults, strict=True))
    element = "bf16" if "bfloat16" in ast.unparse(kernel) else "fp16"  # products want both factors of one type
    signature: dict[str, str] = {}
    constexprs: dict[str, Constant] = {}
    for one in (*plain, *given.kwonlyargs):
        if one.annotation is not None and "constexpr" in ast.unparse(one.annotation):
            guess = False if one.arg in asked or one.arg.upper().startswith(_SWITCHES) else _SIZE
            constexprs[one.arg] = configured.get(one.arg, _value(usual.get(one.arg), guess))
        else:
            signature[one.arg] = _type(one.arg, uses, element)
    options = {word: configured[word] for word in _LAUNCH if word in configured} or {"num_warps": 4}
    return KernelGuess(kernel.name, len(kernels) > 1, signature, constexprs, options)


def _marks(tree: ast.Module) -> set[str]:
    """What makes a function a kernel, as this file calls it."""
    imports = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "triton"]
    return {"triton.jit", *(one.asname or one.name for given in imports for one in given.names if one.name == "jit")}


def _decorators(function: ast.FunctionDef) -> set[str]:
    return {ast.unparse(one).partition("(")[0] for one in function.decorator_list}


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for one in tree.body:
        match one:
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=name)):
                yield alias, name


def _configured(kernel: ast.FunctionDef) -> dict[str, Constant]:
    """What the first `Config({...}, num_warps=...)` of the decorators says in plain numbers."""
    for decorator in kernel.decorator_list:
        for one in calls_in(decorator):
            if ast.unparse(one.func).rpartition(".")[2] == "Config":
                pairs: list[tuple[str, ast.expr]] = [(word.arg, word.value) for word in one.keywords if word.arg]
                for given in one.args[:1]:
                    if isinstance(given, ast.Dict):
                        keys = [key.value if isinstance(key, ast.Constant) else None for key in given.keys]
                        pairs += [(str(key), value) for key, value in zip(keys, given.values, strict=True) if key]
                known = [(name, value.value) for name, value in pairs if isinstance(value, ast.Constant)]
                return {name: value for name, value in known if isinstance(value, (bool, int, float))}
    return {}


def _value(usual: ast.expr | None, guess: Constant) -> Constant:
    if isinstance(usual, ast.Constant) and (usual.value is None or isinstance(usual.value, (bool, int, float, str))):
        return usual.value
    return guess


def _asked(kernel: ast.FunctionDef) -> set[str]:
    """The names that a branch asks as they are."""
    tests = [one.test for one in ast.walk(kernel) if isinstance(one, (ast.If, ast.IfExp))]
    found: set[str] = set()
    while tests:
        match tests.pop():
            case ast.Name(id=name):
                found.add(name)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                tests.append(inner)
            case ast.BoolOp(values=values):
                tests += values
    return found


def _type(name: str, uses: Uses, element: str) -> str:
    if name in uses.of_indices:
        return "*i32:16"
    if name in uses.of_floats:
        return "*fp32:16"
    if name in uses.pointers or name.lower().endswith("ptr"):
        return f"*{element}:16"
    return "i32" if name in uses.whole else "fp32"
