"""The kernel of a file, and how a recipe specialises it."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from typing import Any

from .report import Mistaken, Unsupported


@dataclass(frozen=True)
class Specialised:
    """A kernel with its arguments in the kernel's own order: up to 3.2 the order of the types counts, not their names."""

    function: Any
    names: list[str]
    types: dict[str, str]
    constants: dict[str, Any]
    hints: dict[str, dict[str, int]]
    options: dict[str, Any]

    def with_hint(self, hint: str, value: int) -> list[int]:
        """Return the positions of the arguments that have a hint."""
        return [self.names.index(name) for name, hints in self.hints.items() if hints.get(hint) == value]

    def by_position(self, values: dict[str, Any]) -> dict[int, Any]:
        """The same, keyed by position instead of name."""
        return {self.names.index(name): value for name, value in values.items()}


def specialise(source: str, spec: dict[str, Any], language: Any) -> Specialised:
    """The kernel of `source` as `spec` has it. Mistaken where the two do not fit, Unsupported for a type that
    `triton.language` lacks.
    """
    function = _find(source, spec)
    names = list(function.arg_names)
    specified = (*spec["signature"], *spec["constexprs"], *spec["hints"])
    wrong = [f"{function.__name__} has no argument {name}" for name in specified if name not in names]
    wrong += [f"{name} has no type in signature and no value in constexprs" for name in names if name not in specified]
    if wrong:
        raise Mistaken(wrong[0])
    constants = {name: _constant(value, language) for name, value in spec["constexprs"].items()}
    # What is known to be 1 is folded as a constant is.
    constants.update({name: 1 for name, hints in spec["hints"].items() if hints.get("divisibility") == 1})
    types = {name: spec["signature"][name] for name in names if name in spec["signature"]}
    return Specialised(function, names, types, constants, spec["hints"], spec["options"])


def _find(source: str, spec: dict[str, Any]) -> Any:
    """Return the named kernel, or the only one whose arguments are those of the recipe."""
    from triton.runtime.jit import JITFunction

    def bare(candidate: Any) -> Any:
        while type(candidate).__module__.startswith("triton."):
            if isinstance(candidate, JITFunction):
                return candidate
            candidate = getattr(candidate, "fn", None)  # below autotune and heuristics
        return None

    candidates = ((name, bare(value)) for name, value in vars(_module(source)).items())
    kernels = {name: candidate for name, candidate in candidates if candidate is not None}
    name_in_recipe = spec["kernel"]
    if name_in_recipe is not None:
        if name_in_recipe not in kernels:
            raise Mistaken(f"the file has no kernel {name_in_recipe}; it has: {', '.join(kernels) or 'none'}")
        return kernels[name_in_recipe]
    arguments = {*spec["signature"], *spec["constexprs"]}
    fitting = [candidate for candidate in kernels.values() if set(candidate.arg_names) == arguments]
    if len(fitting) == 1 or len(kernels) == 1:
        return (fitting or list(kernels.values()))[0]
    raise Mistaken(f"`kernel:` has to name one of the file's: {', '.join(kernels) or 'it has none'}")


def _module(source: str) -> Any:
    """Import the file: Triton reads a function's text from the file that it came from."""
    spec = importlib.util.spec_from_file_location("kernel_under_test", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.dont_write_bytecode = True  # the folder is not ours to write into
    try:
        spec.loader.exec_module(module)
    except (AttributeError, ImportError) as error:
        if "triton" in str(error):
            raise Unsupported(f"part that the kernel's file uses: {error}") from error
        raise
    return module


def _constant(value: Any, language: Any) -> Any:
    if isinstance(value, str) and value.startswith("tl."):
        type_ = getattr(language, value[len("tl.") :], None)
        if type_ is None:
            raise Unsupported(f"type {value}")
        return type_
    return value
