"""Compile a kernel ahead of time with any release since 3.0: the format of hints has
changed twice.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .isolation import gpu_target, replace_driver
from .report import KernelReport, Mistaken, Unsupported

Version = tuple[int, ...]


@dataclass(frozen=True)
class KernelArguments:
    """The types, constants and hints of a kernel's arguments."""

    names: list[str]
    """All arguments in the kernel's own order: up to 3.2, positions count."""
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    hints: Mapping[str, Mapping[str, int]]

    def with_hint(self, hint: str, value: int) -> list[int]:
        """Return the positions of the arguments for which a hint has a value."""
        return [
            position
            for position, name in enumerate(self.names)
            if self.hints.get(name, {}).get(hint) == value
        ]

    def arguments(self, version: Version) -> dict[str, Any]:
        """Return the arguments of `ASTSource`. Before 3.3 a kernel with hints needs
        `attrs` as well.
        """
        if version < (3, 3):
            types = {
                name: self.types[name] for name in self.names if name in self.types
            }
            return {"signature": types, "constants": self.constants}
        types = {name: self.types.get(name, "constexpr") for name in self.names}
        attributes: dict[tuple[int], list[list[Any]]] = {}
        for hint, value in (("divisibility", 16), ("pointer_range", 32)):
            for position in self.with_hint(hint, value):
                hints = attributes.setdefault((position,), [])
                hints.append([f"tt.{hint}", value])
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
    subject: Any = source
    if not source.endswith((".ttir", ".ttgir")):
        replace_driver(spec)
        subject = _ast_source(_kernel_function(source, spec), spec, version)
    target = gpu_target(spec)
    # Up to 3.4 the linker for AMD's objects is not part of the wheel.
    lacks_linker = spec["backend"] == "hip" and version < (3, 5)
    compiler = sys.modules["triton.compiler.compiler"]
    backend = type(compiler.make_backend(target))
    _watch(backend, report, spec, "amdgcn" if lacks_linker else None)
    triton.compile(subject, target=target, options=dict(spec["options"]))


def _ast_source(function: Any, spec: dict[str, Any], version: Version) -> Any:
    """Return what `triton.compile` compiles. Raises Mistaken if the arguments do not
    fit the kernel, and Unsupported for a type that `triton.language` lacks.
    """
    names = list(function.arg_names)
    types, hints = spec["signature"], spec["hints"]
    for name in (*types, *spec["constexprs"]):
        if name not in names:
            raise Mistaken(f"{function.__name__} has no argument {name}")
    for name in names:
        if name not in types and name not in spec["constexprs"]:
            raise Mistaken(
                f"{name} has no type in signature and no value in constexprs"
            )
    constants = {name: _constant(value) for name, value in spec["constexprs"].items()}
    kernel = KernelArguments(names, types, constants, hints)
    arguments = kernel.arguments(version)
    compiler = sys.modules["triton.compiler.compiler"]
    divisible = kernel.with_hint("divisibility", 16)
    if version < (3, 2):
        arguments["attrs"] = compiler.AttrsDescriptor(set(divisible), set())
    elif version < (3, 3):
        from triton.backends.compiler import AttrsDescriptor

        arguments["attrs"] = descriptor = AttrsDescriptor.from_hints(
            dict.fromkeys(divisible, 16)
        )
        ranged = kernel.with_hint("pointer_range", 32)
        if ranged:
            descriptor.property_values["tt.pointer_range"] = 32
            descriptor.arg_properties["tt.pointer_range"] = ranged
    return compiler.ASTSource(fn=function, **arguments)


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


def _kernel_function(source: str, spec: dict[str, Any]) -> Any:
    """Return the kernel that the spec names. If it names none, return the file's only
    kernel.
    """
    from triton.runtime.jit import JITFunction

    kernels = {}
    for name, value in vars(_imported(source)).items():
        while type(value).__module__ == "triton.runtime.autotuner":
            value = value.fn
        if isinstance(value, JITFunction):
            kernels[name] = value
    name, names = spec["kernel"], ", ".join(kernels) or "none"
    if name is None and len(kernels) != 1:
        raise Mistaken(f"`kernel:` has to name one of the file's: {names}")
    if name is not None and name not in kernels:
        raise Mistaken(f"the file has no kernel {name}; it has: {names}")
    return kernels[name or names]


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


def _constant(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("tl."):
        return value
    language = sys.modules["triton.language"]
    if not hasattr(language, value[3:]):
        raise Unsupported(f"type {value}")
    return getattr(language, value[3:])
