"""How a kernel is compiled ahead of time by each release from 3.0 on: the format of hints has changed three times."""

from __future__ import annotations

import re
import sys
from typing import Any

from .isolation import without_driver
from .kernel import Specialised, specialise
from .report import KernelReport, Unsupported

_IR = (".ttir", ".ttgir")


def compile_kernel(source: str, spec: dict[str, Any], report: KernelReport) -> None:
    """Compile until `report` ends it. Raise Unsupported for what the release lacks; its own errors pass through."""
    import triton

    version = tuple(int(part) for part in re.findall(r"\d+", triton.__version__)[:2])
    if version < (3, 0):
        raise Unsupported("way to compile ahead of time that this program knows; 3.0 is the first that has")
    from triton.backends.compiler import GPUTarget

    target = GPUTarget(spec["backend"], int(spec["arch"]) if spec["backend"] == "cuda" else spec["arch"], spec["warp_size"])
    kernel: Any = source
    if not source.endswith(_IR):
        without_driver(spec, target)
        kernel = _ast_source(specialise(source, spec, triton.language), version)
    compiler = sys.modules["triton.compiler.compiler"]
    # Up to 3.4 AMD's object is linked by a program that is not part of the wheel.
    last = "amdgcn" if spec["backend"] == "hip" and version < (3, 5) else None
    _watch(type(compiler.make_backend(target)), report, spec["options"], last)
    triton.compile(kernel, target=target, options=dict(spec["options"]))


def _ast_source(kernel: Specialised, version: tuple[int, ...]) -> Any:
    compiler = sys.modules["triton.compiler.compiler"]
    divisible, ranged = kernel.with_hint("divisibility", 16), kernel.with_hint("pointer_range", 32)
    ones = kernel.with_hint("divisibility", 1)
    if version >= (3, 3):
        types = {name: "constexpr" if name in kernel.constants else kernel.types[name] for name in kernel.names}
        attributes: dict[tuple[int, ...], list[list[Any]]] = {}
        for hint, positions, value in (("tt.divisibility", divisible, 16), ("tt.pointer_range", ranged, 32)):
            for position in positions:
                attributes.setdefault((position,), []).append([hint, value])
        return compiler.ASTSource(fn=kernel.function, signature=types, constexprs=kernel.constants, attrs=attributes)
    types = {name: type_ for name, type_ in kernel.types.items() if name not in kernel.constants}
    if version < (3, 2):
        descriptor = compiler.AttrsDescriptor(divisible_by_16=set(divisible), equal_to_1=set(ones))
        return compiler.ASTSource(fn=kernel.function, signature=types, constants=kernel.constants, attrs=descriptor)
    from triton.backends.compiler import AttrsDescriptor

    descriptor = AttrsDescriptor.from_hints({**dict.fromkeys(divisible, 16), **dict.fromkeys(ones, 1)})
    if ranged:
        descriptor.property_values["tt.pointer_range"] = 32
        descriptor.arg_properties["tt.pointer_range"] = ranged
    return compiler.ASTSource(fn=kernel.function, signature=types, constants=kernel.constants, attrs=descriptor)


def _watch(backend: Any, report: KernelReport, options: dict[str, Any], last: str | None) -> None:
    """Watch a backend's stages, and replace the cache key by an empty one: the cache is empty, and computing the key would
    hash the whole compiler and need a linker.
    """
    plain = backend.add_stages
    module = plain.__globals__
    known = (module.get("CUDAOptions") or module["HIPOptions"]).__dataclass_fields__
    for name in options:
        if name not in known:  # Triton would ignore it
            raise Unsupported(f"option {name}")

    def add_stages(self: Any, stages: dict[str, Any], *rest: Any) -> None:
        plain(self, stages, *rest)
        report.watch(stages, last)

    backend.add_stages = add_stages
    backend.hash = lambda _: ""
    for name in ("triton.compiler.compiler", "triton.runtime.cache"):
        if hasattr(sys.modules.get(name), "triton_key"):
            vars(sys.modules[name])["triton_key"] = lambda: ""
