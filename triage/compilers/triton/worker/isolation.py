"""Isolate the process that compiles a kernel: variables, modules and GPUs of this
machine must not affect the result.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .report import KernelReport

# Triton's own variables change the result. Only those in the recipe's `env` are part of
# the key in the result cache, so the others are removed.
_TRITON_VARIABLE = re.compile(
    "(?:TRITON|MLIR|LLVM|AMDGCN|NVPTX|DISABLE|ALLOW|USE|PROTON|ENABLE|OPTIMIZE)_"
)
# Triton or the program around a kernel imports these; a compile does not need them.
_REPLACED = ("torch", "numpy", "setuptools", "filelock", "packaging")


def prepare(spec: dict[str, Any]) -> None:
    """Remove Triton's variables, put the toolchain's modules first, replace modules
    that a compile does not need, and begin with an empty cache in the current folder.
    """
    here = str(Path.cwd())
    recipe_variables = os.environ.pop("TRIAGE_KEEP", "").split()
    for name in list(os.environ):
        if _TRITON_VARIABLE.match(name) and name not in recipe_variables:
            del os.environ[name]
    os.environ.update(HOME=here, TRITON_HOME=here, TRITON_CACHE_DIR=f"{here}/cache")
    sys.path[0] = os.environ.pop("TRIAGE_TRITON")
    sys.meta_path.append(_ReplacementFinder(_gpu_facts(spec)))
    address, _, library = os.environ.pop("TRIAGE_STACK_PRINTER", "").partition(":")
    if library:
        _print_stack_of_crash(int(address), library)


def _print_stack_of_crash(address: int, library: str) -> None:
    """Call the function at an address of a library that makes a crash print the
    addresses on its stack. The address is that in the library's file.
    """
    # As in `PRINT_ADDRESSES` of processes/crash_stack.py, which this interpreter cannot
    # import.
    os.environ.update(LLVM_DISABLE_SYMBOLIZATION="1", LLVM_ENABLE_SYMBOLIZER_MARKUP="1")
    entry = ctypes.CDLL(library)._handle  # noqa: SLF001 - the loader's entry for the library, which begins with its address
    start = ctypes.c_void_p.from_address(entry).value or 0
    install = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool)(
        start + address
    )
    # the program's name and its length, and whether to suppress the system's crash
    # reports
    install(b"", 0, 0)


def _gpu_facts(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of `torch` that describe the GPU, for the spec's target. A
    program around a kernel asks for them to choose between branches.
    """
    is_cuda = spec["backend"] == "cuda"
    digits = spec["arch"] if is_cuda else "94"
    return {
        "get_device_capability": lambda *_: (int(digits[:-1]), int(digits[-1])),
        "get_device_name": lambda *_: "NVIDIA" if is_cuda else "AMD",
        "multi_processor_count": 132,
        "hip": None if is_cuda else "6.0",
    }


def record_assembler(report: KernelReport) -> None:
    """Patch `subprocess.run` so that ptxas's log reaches the report before Triton
    deletes the log.
    """
    plain_run = subprocess.run

    def run(command: Any, *rest: Any, **options: Any) -> Any:
        done = plain_run(command, *rest, **options)
        log = getattr(options.get("stderr"), "name", "")
        if "ptxas" in str(command) and log:
            report.read_ptxas_log(Path(log).read_text())
        return done

    subprocess.run = run  # type: ignore[assignment]


class _ReplacementFinder:
    """Finds and makes replacements for modules that a compile does not need. It is
    asked after all other finders.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] not in _REPLACED:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        """Return a module in which every name is a placeholder. It must be of this
        type: kernels may read no other modules.
        """
        module = types.ModuleType(spec.name)
        names = _placeholder(spec.name, self._facts)
        vars(module).update(
            __version__="2.0.0", __getattr__=lambda name: getattr(names, name)
        )
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Placeholder(type):
    """The type of classes that have every attribute, and can be called, inherited from,
    subscripted and compared. As a decorator, such a class changes nothing.

    Placeholders are classes because kernels may refer to classes.
    """

    _facts: dict[str, Any]
    """Attributes with a value of their own."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "is_available":
            return lambda: cls.__name__.endswith("cuda")
        if name in cls._facts:
            return cls._facts[name]
        return _placeholder(name, cls._facts)

    def __call__(cls, *arguments: Any, **_: object) -> Any:
        function = arguments[0] if len(arguments) == 1 else None
        if callable(function) and not isinstance(function, _Placeholder):
            return function  # it is decorated
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def _itself(cls, *_: object) -> Any:
        return cls

    def _false(cls, *_: object) -> bool:
        return False

    __getitem__ = __or__ = __ror__ = _itself
    __lt__ = __le__ = __gt__ = __ge__ = _false


def _placeholder(name: str, facts: dict[str, Any]) -> Any:
    return _Placeholder(name, (), {"_facts": facts})


def gpu_target(spec: dict[str, Any]) -> Any:
    """Return the target of a spec as Triton takes it."""
    from triton.backends.compiler import GPUTarget

    is_cuda = spec["backend"] == "cuda"
    arch = int(spec["arch"]) if is_cuda else spec["arch"]
    return GPUTarget(spec["backend"], arch, spec["warp_size"])


def replace_driver(spec: dict[str, Any]) -> None:
    """Replace the GPU's driver. An autotuner asks it for a function that measures as
    soon as it is declared.
    """
    from triton.runtime.driver import driver

    target = gpu_target(spec)
    facts = {**_gpu_facts(spec), "get_current_target": lambda: target}
    driver.set_active(_placeholder("driver", facts))
