"""How a kernel is compiled ahead of time by each release: the calls have changed four times since 2.1."""

from __future__ import annotations

import re
import sys
from typing import Any

from .isolation import without_driver
from .kernel import Specialised, specialise
from .report import KernelReport, Unsupported

_IR = (".ttir", ".ttgir")


def compile_kernel(source: str, spec: dict[str, Any], report: KernelReport) -> None:
    """Compile until `report` ends it. Unsupported for what the release lacks; its own errors as they are."""
    import triton

    version = tuple(int(part) for part in re.findall(r"\d+", triton.__version__)[:2])
    if version < (2, 1):
        raise Unsupported("way to compile ahead of time; 2.1 is the first that has")
    if spec["backend"] == "hip" and version < (3, 0):
        raise Unsupported("backend hip; 3.0 is the first that has")
    if source.endswith(_IR):
        if version < (3, 0):
            raise Unsupported("way to compile IR without a GPU; 3.0 is the first that has")
        _run(triton, source, spec, spec["options"], report, version)
        return
    if version >= (3, 0):
        without_driver(spec)
    kernel = specialise(source, spec, triton.language)
    if version < (2, 3):
        _compile_2_1(triton, kernel, spec, report)
    elif version < (3, 0):
        _compile_2_3(triton, kernel, spec, report)
    else:
        _run(triton, _source_3_0(kernel, version), spec, kernel.options, report, version)


def _compile_2_1(triton: Any, kernel: Specialised, spec: dict[str, Any], report: KernelReport) -> None:
    """2.1 and 2.2: a function of keywords. Stages are pairs of a parser and a compiler, made inside of it."""
    compiler = sys.modules["triton.compiler.compiler"]
    known = {"num_warps", "num_stages", "num_ctas", "enable_fp_fusion", "enable_warp_specialization", "enable_persistent"}
    _check_options(kernel.options, known)
    # Each would ask a GPU, or want a C compiler for the launcher.
    changes = {
        "make_stub": lambda *_, **__: "",
        "get_arch_default_num_warps": lambda *_: 4,
        "get_arch_default_num_stages": lambda *_, **__: 3,
        "get_backend": lambda _: _Driverless(),
    }
    plain = compiler.add_cuda_stages

    def add_stages(arch: Any, libraries: Any, stages: dict[str, Any]) -> None:
        plain(arch, libraries, stages)
        makers = {name: make for name, (_, make) in stages.items() if make is not None}
        report.watch(makers)
        stages.update({name: (stages[name][0], make) for name, make in makers.items()})

    vars(compiler).update(changes, add_cuda_stages=add_stages)
    config = compiler.instance_descriptor(
        divisible_by_16=set(kernel.with_hint("divisibility", 16)), equal_to_1=set(kernel.with_hint("divisibility", 1))
    )
    triton.compile(
        kernel.function,
        signature=kernel.by_position(kernel.types),
        constants=kernel.by_position(kernel.constants),
        cc=int(spec["arch"]),
        configs=[config],
        device_type="cuda",
        **kernel.options,
    )


class _Driverless:
    """Replaces a GPU's backend where only its version is read, for a cache key."""

    def get_version_key(self) -> str:
        return ""


def _compile_2_3(triton: Any, kernel: Specialised, spec: dict[str, Any], report: KernelReport) -> None:
    """2.3: a source, its arguments by position; one backend."""
    compiler = sys.modules["triton.compiler.compiler"]
    _watch(compiler.CUDABackend, report, kernel.options, None)
    attributes = compiler.AttrsDescriptor(
        divisible_by_16=set(kernel.with_hint("divisibility", 16)), equal_to_1=set(kernel.with_hint("divisibility", 1))
    )
    types, constants = kernel.by_position(kernel.types), kernel.by_position(kernel.constants)
    source = compiler.ASTSource(fn=kernel.function, signature=types, constants=constants, attrs=attributes)
    triton.compile(source, target=("cuda", int(spec["arch"])), options=kernel.options)


def _source_3_0(kernel: Specialised, version: tuple[int, ...]) -> Any:
    """3.0 and later: arguments by name. Their hints have had three different formats."""
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


def _run(
    triton: Any, source: Any, spec: dict[str, Any], options: dict[str, Any], report: KernelReport, version: tuple[int, ...]
) -> None:
    """3.0 and later: targets by name, a backend for each."""
    from triton.backends.compiler import GPUTarget

    compiler = sys.modules["triton.compiler.compiler"]
    arch = int(spec["arch"]) if spec["backend"] == "cuda" else spec["arch"]
    target = GPUTarget(spec["backend"], arch, spec["warp_size"])
    # Up to 3.4 AMD's object is linked by a program that is not part of the wheel.
    last = "amdgcn" if spec["backend"] == "hip" and version < (3, 5) else None
    _watch(type(compiler.make_backend(target)), report, options, last)
    triton.compile(source, target=target, options=dict(options))


def _watch(backend: Any, report: KernelReport, options: dict[str, Any], last: str | None) -> None:
    """Watch a backend's stages, and replace the cache key by an empty one: the cache is empty, and computing the key would
    hash the whole compiler and need a linker.
    """
    plain = backend.add_stages
    module = plain.__globals__
    _check_options(options, set((module.get("CUDAOptions") or module["HIPOptions"]).__dataclass_fields__))

    def add_stages(self: Any, stages: dict[str, Any], *rest: Any) -> None:
        plain(self, stages, *rest)
        report.watch(stages, last)

    backend.add_stages = add_stages
    backend.hash = lambda _: ""
    for name in ("triton.compiler.compiler", "triton.runtime.cache"):
        if hasattr(sys.modules.get(name), "triton_key"):
            vars(sys.modules[name])["triton_key"] = lambda: ""


def _check_options(options: dict[str, Any], known: set[str]) -> None:
    """Raise Unsupported for an unknown option, which Triton would ignore."""
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise Unsupported(f"option {unknown}")
