"""How a kernel is specialised and compiled ahead of time by each release: the calls
have changed four times since 2.1.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from typing import Any

from .isolation import without_driver
from .report import KernelReport, Mistaken, Unsupported

Version = tuple[int, ...]


@dataclass(frozen=True)
class Specialised:
    """A kernel with its arguments in the kernel's own order: up to 3.2 the order of the
    types counts, not their names.
    """

    function: Any
    names: list[str]
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
    ) -> Specialised:
        """Read the types, constants and hints of a function's arguments from `spec`. An
        argument that is known to be 1 becomes a constant.
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
        """Return the positions of the arguments that have a hint."""
        return sorted(
            self.names.index(name)
            for name, hints in self.hints.items()
            if hints.get(hint) == value
        )

    def by_position(self, values: dict[str, Any]) -> dict[int, Any]:
        """Return values by the positions of the arguments, instead of their names."""
        return {self.names.index(name): value for name, value in values.items()}

    def known(self) -> dict[int, int]:
        """Return position -> what divides the argument."""
        return {
            **dict.fromkeys(self.with_hint("divisibility", 16), 16),
            **dict.fromkeys(self.with_hint("divisibility", 1), 1),
        }

    def arguments(self, version: Version) -> dict[str, Any]:
        """Return the arguments of `ASTSource` from 3.0 on; before 3.3 those with hints
        need `attrs` as well.
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
        types = {
            name: "constexpr"
            if name in self.constants
            else self.types.get(name, "constexpr")
            for name in self.names
        }
        return {"signature": types, "constexprs": self.constants, "attrs": attributes}


def compile_kernel(source: str, spec: dict[str, Any], report: KernelReport) -> None:
    """Compile until `report` ends it. Unsupported for what the release lacks; its own
    errors as they are.
    """
    import triton

    version = tuple(int(part) for part in re.findall(r"\d+", triton.__version__)[:2])
    if version < (2, 1):
        raise Unsupported("way to compile ahead of time; 2.1 is the first that has")
    if spec["backend"] == "hip" and version < (3, 0):
        raise Unsupported("backend hip; 3.0 is the first that has")
    if source.endswith((".ttir", ".ttgir")):
        if version < (3, 0):
            raise Unsupported(
                "way to compile IR without a GPU; 3.0 is the first that has"
            )
        _compile_3_0(triton, source, spec, report, version)
        return
    if version >= (3, 0):
        without_driver(spec)
    kernel = _specialise(source, spec, triton.language)
    if version < (2, 3):
        _compile_2_1(triton, kernel, spec, report)
    elif version < (3, 0):
        _compile_2_3(triton, kernel, spec, report)
    else:
        _compile_3_0(triton, _source_3_0(kernel, version), spec, report, version)


def _compile_2_1(
    triton: Any, kernel: Specialised, spec: dict[str, Any], report: KernelReport
) -> None:
    """Compile with 2.1 or 2.2: a function of keywords. Stages are pairs of a parser and
    a compiler, made inside of it.
    """
    compiler = sys.modules["triton.compiler.compiler"]
    known = {
        "num_warps",
        "num_stages",
        "num_ctas",
        "enable_fp_fusion",
        "enable_warp_specialization",
        "enable_persistent",
    }
    _check_options(spec, known)
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
    triton.compile(
        kernel.function,
        signature=kernel.by_position(kernel.types),
        constants=kernel.by_position(kernel.constants),
        cc=int(spec["arch"]),
        configs=[compiler.instance_descriptor(**_sets(kernel))],
        device_type="cuda",
        **spec["options"],
    )


class _Driverless:
    """Replaces a GPU's backend where only its version is read, for a cache key."""

    def get_version_key(self) -> str:
        return ""


def _compile_2_3(
    triton: Any, kernel: Specialised, spec: dict[str, Any], report: KernelReport
) -> None:
    """Compile with 2.3: a source, its arguments by position; one backend."""
    compiler = sys.modules["triton.compiler.compiler"]
    _watch(compiler.CUDABackend, report, spec, None)
    types = kernel.by_position(kernel.types)
    constants = kernel.by_position(kernel.constants)
    attributes = compiler.AttrsDescriptor(**_sets(kernel))
    source = compiler.ASTSource(
        fn=kernel.function, signature=types, constants=constants, attrs=attributes
    )
    triton.compile(source, target=("cuda", int(spec["arch"])), options=spec["options"])


def _sets(kernel: Specialised) -> dict[str, set[int]]:
    ones = set(kernel.with_hint("divisibility", 1))
    return {
        "divisible_by_16": set(kernel.with_hint("divisibility", 16)),
        "equal_to_1": ones,
    }


def _source_3_0(kernel: Specialised, version: Version) -> Any:
    """Return a source for 3.0 and later: arguments by name. Their hints have had three
    different formats.
    """
    compiler = sys.modules["triton.compiler.compiler"]
    arguments = kernel.arguments(version)
    if version < (3, 2):
        arguments["attrs"] = compiler.AttrsDescriptor(**_sets(kernel))
    elif version < (3, 3):
        from triton.backends.compiler import AttrsDescriptor

        arguments["attrs"] = descriptor = AttrsDescriptor.from_hints(kernel.known())
        ranged = kernel.with_hint("pointer_range", 32)
        if ranged:
            descriptor.property_values["tt.pointer_range"] = 32
            descriptor.arg_properties["tt.pointer_range"] = ranged
    return compiler.ASTSource(fn=kernel.function, **arguments)


def _compile_3_0(
    triton: Any,
    source: Any,
    spec: dict[str, Any],
    report: KernelReport,
    version: Version,
) -> None:
    """Compile with 3.0 or later: targets by name, a backend for each."""
    from triton.backends.compiler import GPUTarget

    compiler = sys.modules["triton.compiler.compiler"]
    if spec["backend"] == "cuda":
        arch = int(spec["arch"])
    else:
        arch = spec["arch"]
    target = GPUTarget(spec["backend"], arch, spec["warp_size"])
    # Up to 3.4 AMD's object is linked by a program that is not part of the wheel.
    if spec["backend"] == "hip" and version < (3, 5):
        last = "amdgcn"
    else:
        last = None
    _watch(type(compiler.make_backend(target)), report, spec, last)
    triton.compile(source, target=target, options=dict(spec["options"]))


def _watch(
    backend: Any, report: KernelReport, spec: dict[str, Any], last: str | None
) -> None:
    """Watch a backend's stages, and replace the cache key by an empty one: the cache is
    empty, and computing the key would hash the whole compiler and need a linker.
    """
    plain = backend.add_stages
    module = plain.__globals__
    _check_options(
        spec,
        set((module.get("CUDAOptions") or module["HIPOptions"]).__dataclass_fields__),
    )

    def add_stages(self: Any, stages: dict[str, Any], *rest: Any) -> None:
        plain(self, stages, *rest)
        report.watch(stages, last)

    backend.add_stages = add_stages
    backend.hash = lambda _: ""
    for name in ("triton.compiler.compiler", "triton.runtime.cache"):
        if hasattr(sys.modules.get(name), "triton_key"):
            vars(sys.modules[name])["triton_key"] = lambda: ""


def _check_options(spec: dict[str, Any], known: set[str]) -> None:
    """Raise Unsupported for an unknown option, which Triton would ignore."""
    unknown = next((name for name in spec["options"] if name not in known), None)
    if unknown is not None:
        raise Unsupported(f"option {unknown}")


def _specialise(source: str, spec: dict[str, Any], language: Any) -> Specialised:
    """Return the kernel of `source` as `spec` has it. Mistaken where the two do not
    fit, Unsupported for a type that `triton.language` lacks.
    """
    function = _find(source, spec)
    names = list(function.arg_names)
    specified = (*spec["signature"], *spec["constexprs"], *spec["hints"])
    wrong = [
        f"{function.__name__} has no argument {name}"
        for name in specified
        if name not in names
    ]
    wrong += [
        f"{name} has no type in signature and no value in constexprs"
        for name in names
        if name not in specified
    ]
    if wrong:
        raise Mistaken(wrong[0])
    constants = {
        name: _constant(value, language) for name, value in spec["constexprs"].items()
    }
    return Specialised.of(function, names, spec, constants)


def _find(source: str, spec: dict[str, Any]) -> Any:
    """Return the named kernel, or the only one whose arguments are those of the
    recipe.
    """
    from triton.runtime.jit import JITFunction

    kernels = {}
    for name, value in vars(_module(source)).items():
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
    if len(fitting) == 1 or len(kernels) == 1:
        return (fitting or list(kernels.values()))[0]
    raise Mistaken(f"`kernel:` has to name one of the file's: {names or 'it has none'}")


def _module(source: str) -> Any:
    """Import the file: Triton reads a function's text from the file that it came
    from.
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
