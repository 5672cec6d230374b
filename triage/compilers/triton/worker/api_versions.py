"""Compile a kernel ahead of time with any release since 3.0: the format of hints has
changed twice.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from typing import Any

from .isolation import gpu_target, replace_driver
from .report import KernelReport, Mistaken, Unsupported

Version = tuple[int, ...]


@dataclass(frozen=True)
class KernelArguments:
    """A kernel and the types, constants and hints of its arguments."""

    function: Any
    names: list[str]
    """All arguments in the kernel's own order: up to 3.2, positions count."""
    types: dict[str, str]
    constants: dict[str, Any]
    hints: dict[str, dict[str, int]]

    @classmethod
    def of(
        cls,
        function: Any,
        names: list[str],
        spec: dict[str, Any],
        constants: dict[str, Any],
    ) -> KernelArguments:
        """Read types and hints from `spec`. An argument that is known to be 1 becomes a
        constant.
        """
        ones = {
            name: 1
            for name, hints in spec["hints"].items()
            if hints.get("divisibility") == 1
        }
        types = {
            name: spec["signature"][name] for name in names if name in spec["signature"]
        }
        return cls(function, names, types, {**constants, **ones}, spec["hints"])

    def with_hint(self, hint: str, value: int) -> list[int]:
        """Return the positions of the arguments for which a hint has a value."""
        return sorted(
            self.names.index(name)
            for name, hints in self.hints.items()
            if hints.get(hint) == value
        )

    def divisors(self) -> dict[int, int]:
        """Return the number that divides each argument, by position."""
        return {
            **dict.fromkeys(self.with_hint("divisibility", 16), 16),
            **dict.fromkeys(self.with_hint("divisibility", 1), 1),
        }

    def arguments(self, version: Version) -> dict[str, Any]:
        """Return the arguments of `ASTSource` for 3.0 and later. Before 3.3 a kernel
        with hints needs `attrs` as well.
        """
        if version < (3, 3):
            types = {
                name: type_
                for name, type_ in self.types.items()
                if name not in self.constants
            }
            return {"signature": types, "constants": self.constants}
        attributes: dict[tuple[int], list[list[Any]]] = {}
        for hint, name, value in (
            ("tt.divisibility", "divisibility", 16),
            ("tt.pointer_range", "pointer_range", 32),
        ):
            for position in self.with_hint(name, value):
                attributes.setdefault((position,), []).append([hint, value])
        types = dict.fromkeys(self.names, "constexpr")
        for name, type_ in self.types.items():
            if name not in self.constants:
                types[name] = type_
        return {"signature": types, "constexprs": self.constants, "attrs": attributes}


def compile_kernel(source: str, spec: dict[str, Any], report: KernelReport) -> None:
    """Compile a kernel, or IR, until the report ends the compile.

    Raises:
        Ended: The last stage is done.
        Mistaken: The recipe does not fit the kernel.
        Unsupported: The release lacks a feature. Triton's own errors are raised as
            they are.
    """
    import triton

    version = tuple(int(part) for part in re.findall(r"\d+", triton.__version__)[:2])
    if version < (3, 0):
        raise Unsupported("way to compile without a GPU; 3.0 is the first that has")
    subject: Any = source
    if not source.endswith((".ttir", ".ttgir")):
        replace_driver(spec)
        kernel = _kernel_arguments(source, spec, triton.language)
        subject = _ast_source(kernel, version)
    target = gpu_target(spec)
    # Up to 3.4 the linker for AMD's objects is not part of the wheel.
    lacks_linker = spec["backend"] == "hip" and version < (3, 5)
    compiler = sys.modules["triton.compiler.compiler"]
    backend = type(compiler.make_backend(target))
    _watch(backend, report, spec, "amdgcn" if lacks_linker else None)
    triton.compile(subject, target=target, options=dict(spec["options"]))


def _ast_source(kernel: KernelArguments, version: Version) -> Any:
    """Return what `triton.compile` compiles."""
    compiler = sys.modules["triton.compiler.compiler"]
    arguments = kernel.arguments(version)
    if version < (3, 2):
        arguments["attrs"] = compiler.AttrsDescriptor(
            divisible_by_16=set(kernel.with_hint("divisibility", 16)),
            equal_to_1=set(kernel.with_hint("divisibility", 1)),
        )
    elif version < (3, 3):
        from triton.backends.compiler import AttrsDescriptor

        arguments["attrs"] = descriptor = AttrsDescriptor.from_hints(kernel.divisors())
        ranged = kernel.with_hint("pointer_range", 32)
        if ranged:
            descriptor.property_values["tt.pointer_range"] = 32
            descriptor.arg_properties["tt.pointer_range"] = ranged
    return compiler.ASTSource(fn=kernel.function, **arguments)


def _watch(
    backend: Any, report: KernelReport, spec: dict[str, Any], last: str | None
) -> None:
    """Patch a backend so that its stages are reported. Its cache key becomes empty:
    the cache is empty, and the real key needs a linker and a hash of the compiler.
    """
    plain_add_stages = backend.add_stages
    module = plain_add_stages.__globals__
    options = module.get("CUDAOptions") or module["HIPOptions"]
    for name in spec["options"]:
        if name not in options.__dataclass_fields__:  # Triton would ignore it
            raise Unsupported(f"option {name}")

    def add_stages(self: Any, stages: dict[str, Any], *rest: Any) -> None:
        plain_add_stages(self, stages, *rest)
        report.watch(stages, last)

    backend.add_stages = add_stages
    backend.hash = lambda _: ""
    for name in ("triton.compiler.compiler", "triton.runtime.cache"):
        if hasattr(sys.modules.get(name), "triton_key"):
            vars(sys.modules[name])["triton_key"] = lambda: ""


def _kernel_arguments(
    source: str, spec: dict[str, Any], language: Any
) -> KernelArguments:
    """Return the kernel in a file, with its arguments as in the spec. Raises Mistaken
    if they do not fit, and Unsupported for a type that `triton.language` lacks.
    """
    function = _kernel_function(source, spec)
    names = list(function.arg_names)
    specified = (*spec["signature"], *spec["constexprs"], *spec["hints"])
    for name in specified:
        if name not in names:
            raise Mistaken(f"{function.__name__} has no argument {name}")
    for name in names:
        if name not in specified:
            raise Mistaken(
                f"{name} has no type in signature and no value in constexprs"
            )
    constants = {
        name: _constant(value, language) for name, value in spec["constexprs"].items()
    }
    return KernelArguments.of(function, names, spec, constants)


def _kernel_function(source: str, spec: dict[str, Any]) -> Any:
    """Return the kernel that the spec names. If it names none, return the file's only
    kernel, or the only one with the arguments of the spec.
    """
    from triton.runtime.jit import JITFunction

    kernels = {}
    for name, value in vars(_imported(source)).items():
        while type(value).__module__.startswith("triton.") and not isinstance(
            value, JITFunction
        ):
            value = getattr(value, "fn", None)  # below autotune and heuristics
        if isinstance(value, JITFunction):
            kernels[name] = value
    wanted, names = spec["kernel"], ", ".join(kernels)
    if wanted is not None:
        if wanted not in kernels:
            raise Mistaken(
                f"the file has no kernel {wanted}; it has: {names or 'none'}"
            )
        return kernels[wanted]
    arguments = {*spec["signature"], *spec["constexprs"]}
    fitting = [
        kernel for kernel in kernels.values() if set(kernel.arg_names) == arguments
    ]
    for choice in (fitting, list(kernels.values())):
        if len(choice) == 1:
            return choice[0]
    raise Mistaken(f"`kernel:` has to name one of the file's: {names or 'it has none'}")


def _imported(source: str) -> Any:
    """Import a file. It is not run from text, because Triton reads the text of a
    function from its file.
    """
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
    if not isinstance(value, str) or not value.startswith("tl."):
        return value
    if not hasattr(language, value[3:]):
        raise Unsupported(f"type {value}")
    return getattr(language, value[3:])
