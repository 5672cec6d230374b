"""Guess how a kernel can be specialised, from its source."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triage.compilers.base import Constant
from triage.compilers.triton.kernel_launch import TYPES, PassedKind, arguments_passed, type_constant
from triage.compilers.triton.kernel_uses import calls_in, constant_roles, uses_of
from triage.compilers.triton.statement_names import leaves
from triage.model.errors import BadInput

_UNKNOWN: Constant = "<unknown>"
_SIZE = 64  # of a constexpr whose name does not suggest a switch
_FEW = 2  # of a constexpr that counts steps or heads, over which a kernel loops
_NAMES_TYPE = re.compile(r"(?i)d_?type$|(?:^|_)type$|_ty$")
_NAMES_COUNT = re.compile(r"(?i)(?:^|_)(?:num|stages?|steps?|iters?|groups?|top_?k|ndim|rank|depth)(?:_|$)|^n_|^(?:H|HQ|G|NH)$")
_NAMES_INDICES = re.compile(
    r"(?i)seq_?len|indices|index|idx|(?:^|_)ids?(?:_|$)|offsets|lens$|lengths|tables?(?:_|$)|mapping|slots?(?:_|$)"
)
_ANNOTATED: Mapping[str, str] = {"float": "fp32", "int": "i32", "bool": "i1"}
_SCALARS = {PassedKind.INTEGER: "i32", PassedKind.FLOAT: "fp32", PassedKind.TRUTH: "i1"}
_SWITCHES = ("USE_", "IS_", "HAS_", "STORE_", "OUTPUT_", "CAUSAL", "ALLOW_", "EVEN_", "ENABLE_", "SAVE_")
_LAUNCH = ("num_warps", "num_stages")


@dataclass(frozen=True, slots=True)
class KernelGuess:
    """several: whether the file has more kernels, so that the recipe must name this one; options: those of the first
    configuration in the source, or 4 warps; guessed: the names whose values the source does not show.
    """

    name: str
    several: bool
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    options: Mapping[str, Constant]
    guessed: frozenset[str] = frozenset()


def guess_kernel(source: str, name: str | None = None) -> KernelGuess | None:
    """A specialisation of the source's kernel; None when the source has no kernel or cannot be parsed. Parameters that address
    memory are pointers; those in addresses, masks, bounds and comparisons are integers; the rest are floats. What a launch
    in the same source passes decides first.

    Raises:
        BadInput: no kernel has that name; or no name is given and there are several kernels that no other calls.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    marks = _marks(tree)
    functions = [node for node in leaves(tree.body) if isinstance(node, ast.FunctionDef)]
    kernels = {node.name: node for node in functions if marks & _decorators(node)}
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
    return _Guesser(tree, kernels[name or outer[0]], reachable).guess(several=len(kernels) > 1)


def find_kernel(source: str, name: str) -> ast.FunctionDef | None:
    """The function of a kernel, the last of several."""
    functions = [node for node in leaves(ast.parse(source).body) if isinstance(node, ast.FunctionDef) and node.name == name]
    return functions[-1] if functions else None


class _Guesser:
    """Guesses one kernel of a file."""

    def __init__(self, tree: ast.Module, kernel: ast.FunctionDef, reachable: Mapping[str, ast.FunctionDef]) -> None:
        self.kernel = kernel
        positional = [*kernel.args.posonlyargs, *kernel.args.args]
        self.parameters = [*positional, *kernel.args.kwonlyargs]
        with_default = positional[len(positional) - len(kernel.args.defaults) :]
        pairs = [*zip(with_default, kernel.args.defaults, strict=True)]
        pairs += [(each, node) for each, node in zip(kernel.args.kwonlyargs, kernel.args.kw_defaults, strict=True) if node]
        self.defaults = {parameter.arg: default for parameter, default in pairs}
        self.passed = arguments_passed(tree, kernel.name, [parameter.arg for parameter in self.parameters])
        self.configured = _configured(tree, kernel)
        self.uses = uses_of(kernel, reachable)
        self.roles = constant_roles(kernel, reachable)
        self.annotations = {each.arg: ast.unparse(each.annotation) for each in self.parameters if each.annotation}
        # Products want both factors of one type.
        self.element = "bf16" if "bfloat16" in ast.unparse(kernel) else "fp16"

    def guess(self, *, several: bool) -> KernelGuess:
        signature: dict[str, str] = {}
        constexprs: dict[str, Constant] = {}
        guessed: set[str] = set()
        for parameter in self.parameters:
            name = parameter.arg
            if "constexpr" in self.annotations.get(name, ""):
                known = self._known_constant(name)
                constexprs[name] = known if known is not _UNKNOWN else self._constant(name)
                guessed |= {name} if known is _UNKNOWN else set()
            else:
                signature[name] = self._type(name)
                guessed.add(name)
        known_options = {
            **{word: self.passed[word].value for word in _LAUNCH if word in self.passed and self.passed[word].value},
            **{word: self.configured[word] for word in _LAUNCH if word in self.configured},
        }
        options = {word: known_options[word] for word in _LAUNCH if word in known_options}
        return KernelGuess(
            self.kernel.name,
            several,
            signature,
            constexprs,
            options or {"num_warps": 4},
            frozenset(guessed | ({"num_warps"} - options.keys())),
        )

    def _known_constant(self, name: str) -> Constant:
        """The value in a configuration, in a launch or by default."""
        if name in self.configured:
            return self.configured[name]
        passed = self.passed.get(name)
        if passed is not None and passed.kind is PassedKind.TYPE and isinstance(passed.value, str):
            return _type_name(passed.value)
        if passed is not None and passed.kind not in (PassedKind.TENSOR, PassedKind.TYPE) and passed.value is not None:
            return passed.value
        match self.defaults.get(name):
            case ast.Constant(value=None | bool() | int() | float() | str() as value):
                return value
            case ast.Attribute(value=ast.Name(id="tl"), attr=word) if word in TYPES:
                return f"tl.{word}"
        return _UNKNOWN

    def _constant(self, name: str) -> Constant:
        """A value that fits how a constexpr is used."""
        passed = self.passed.get(name)
        kind = passed.kind if passed else None
        roles = self.roles
        if kind is PassedKind.TYPE or name in roles.types:
            return "tl.float32"
        if name in roles.compared and name not in roles.sizes:
            return roles.compared[name]
        if kind is None and _NAMES_TYPE.search(name) and name not in roles.sizes:
            return "tl.float32"
        if kind is PassedKind.TRUTH:
            return False
        if kind is PassedKind.FLOAT:
            return 1.0
        if name in roles.axes:
            return 0
        if (
            kind is not PassedKind.INTEGER
            and name not in roles.sizes
            and (name in roles.tested or name.upper().startswith(_SWITCHES))
        ):
            return False
        return _FEW if _NAMES_COUNT.search(name) else _SIZE

    def _type(self, name: str) -> str:
        passed = self.passed.get(name)
        uses = self.uses
        if passed is not None and passed.kind is PassedKind.TENSOR and isinstance(passed.value, str):
            return f"*{passed.value}:16"
        annotation = self.annotations.get(name, "")
        is_pointer = name in uses.pointers or (passed is not None and passed.kind is PassedKind.TENSOR)
        is_pointer = is_pointer or annotation.endswith("Tensor")
        if not is_pointer and annotation in _ANNOTATED:
            return _ANNOTATED[annotation]
        if name in uses.of_indices or (is_pointer and _NAMES_INDICES.search(name)):
            return "*i32:16"
        if name in uses.of_floats:
            return "*fp32:16"
        if is_pointer or name.lower().endswith("ptr"):
            return f"*{self.element}:16"
        if passed is not None and passed.kind in _SCALARS:
            return _SCALARS[passed.kind]
        return "i32" if name in uses.whole else "fp32"


def guess_keys(guess: KernelGuess) -> list[str]:
    """The recipe keys of a guess, with a comment on each value that is one."""

    def entries(key: str, values: Mapping[str, object]) -> list[str]:
        lines = [f"  {name}: {json.dumps(value)}{'  # guessed' * (name in guess.guessed)}" for name, value in values.items()]
        return [f"{key}:", *lines] if lines else [f"{key}: {{}}"]

    return [
        *([f"kernel: {guess.name}"] if guess.several else []),
        "# `*` is a pointer, :16 means divisible by 16. Check what is marked as guessed.",
        *entries("signature", guess.signature),
        *(entries("constexprs", guess.constexprs) if guess.constexprs else []),
        *(entries("options", guess.options) if guess.options else []),
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


def _configured(tree: ast.Module, kernel: ast.FunctionDef) -> dict[str, Constant]:
    """The constants of the first `Config({...}, num_warps=...)` in the decorators, and in what these name."""
    defined = {name: statement for statement in leaves(tree.body) for name in _defined_names(statement)}
    waiting: list[ast.AST] = list(kernel.decorator_list)
    seen: set[str] = set()
    while waiting:
        node = waiting.pop(0)
        for call in calls_in(node):
            if ast.unparse(call.func).rpartition(".")[2] == "Config" and (known := _constants_of(call, node, defined)):
                return known
        names = [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and inner.id in defined]
        waiting += [defined[name] for name in dict.fromkeys(names) if name not in seen and name != kernel.name]
        seen.update(names)
    return {}


def _defined_names(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _constants_of(call: ast.Call, around: ast.AST, defined: Mapping[str, ast.stmt]) -> dict[str, Constant]:
    """The constants of a configuration; a name that runs over a list stands for the first element."""
    first: dict[str, ast.expr] = {}
    for node in ast.walk(around):
        match node:
            case ast.comprehension(target=ast.Name(id=name), iter=values) | ast.For(target=ast.Name(id=name), iter=values):
                while (
                    isinstance(values, ast.Name)
                    and isinstance(found := defined.get(values.id), (ast.Assign, ast.AnnAssign))
                    and found.value
                ):
                    values = found.value
                if isinstance(values, (ast.List, ast.Tuple)) and values.elts:
                    first[name] = values.elts[0]
    pairs: list[tuple[str, ast.expr]] = [(word.arg, word.value) for word in call.keywords if word.arg]
    for settings in call.args[:1]:
        if isinstance(settings, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in settings.keys]
            pairs += [(str(key), value) for key, value in zip(keys, settings.values, strict=True) if key]
    named = [(name, first.get(value.id, value) if isinstance(value, ast.Name) else value) for name, value in pairs]
    known = [(name, value.value) for name, value in named if isinstance(value, ast.Constant)]
    return {name: value for name, value in known if isinstance(value, (bool, int, float, str))}


def _type_name(element: str) -> Constant:
    """`tl.float16` for `fp16`."""
    return next((constant for name, kind in TYPES.items() if kind == element and (constant := type_constant(name))), _UNKNOWN)
