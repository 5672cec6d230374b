"""Isolate the process that compiles a kernel, so that only the toolchain and the recipe
affect the result.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
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

# Triton's own variables change the result, and no key of the result cache contains them
# unless the recipe's `env` does.
_SWITCHES = (
    "TRITON_",
    "MLIR_",
    "LLVM_",
    "AMDGCN_",
    "NVPTX_",
    "DISABLE_",
    "ALLOW_",
    "USE_",
    "PROTON_",
    "ENABLE_",
    "OPTIMIZE_",
)
# Imported by Triton or by the program around a kernel, but not needed to compile.
_NOT_NEEDED = ("torch", "numpy", "setuptools", "filelock")
_VERSIONS = "packaging"  # compares versions for programs around a kernel


def prepare(spec: dict[str, Any]) -> None:
    """Set variables, the module path, the cache, which begins empty in the current
    folder, and what a crash prints.
    """
    here = str(Path.cwd())
    kept = os.environ.pop("TRIAGE_KEEP", "").split()
    for name in list(os.environ):
        if name.startswith(_SWITCHES) and name not in kept:
            del os.environ[name]
    os.environ.update(
        HOME=here, TRITON_HOME=here, TRITON_CACHE_DIR=str(Path(here, "cache"))
    )
    sys.path[0] = os.environ.pop("TRIAGE_TRITON")
    sys.meta_path.append(
        _Finder(_facts_of(spec), os.environ.pop("TRIAGE_PACKAGING", ""))
    )
    address, _, library = os.environ.pop("TRIAGE_STACK_PRINTER", "").partition(":")
    if library:
        _print_stack_of_crash(int(address), library)


def _print_stack_of_crash(address: int, library: str) -> None:
    """Call the library's function at an address of its symbols, which makes a crash
    print the addresses on its stack.
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


def _facts_of(spec: dict[str, Any]) -> dict[str, Any]:
    """Answer what programs around a kernel ask about the GPU, so that they take the
    branches for the target.
    """
    is_cuda = spec["backend"] == "cuda"
    if is_cuda:
        digits = spec["arch"]
    else:
        digits = "94"
    return {
        "get_device_capability": lambda *_: (int(digits[:-1]), int(digits[-1])),
        "get_device_name": lambda *_: "NVIDIA" if is_cuda else "AMD",
        "multi_processor_count": 132,
        "current_device": lambda: 0,
        # torch.version.hip: 2.2 takes anything but None for an AMD machine
        "hip": None if is_cuda else "6.0",
    }


def read_assembler(report: KernelReport) -> None:
    """Read the log that ptxas writes before Triton deletes it."""
    plain = subprocess.run

    def run(command: Any, *rest: Any, **options: Any) -> Any:
        done = plain(command, *rest, **options)
        if isinstance(command, str):
            text = command
        else:
            text = " ".join(map(str, command))
        if "--gpu-name" in text:
            redirected = re.search(r"2> *(\S+)", text)
            log = Path(
                redirected.group(1)
                if redirected
                else getattr(options.get("stderr"), "name", "")
            )
            if log.is_file():
                report.assembled(log.read_text())
        return done

    subprocess.run = run  # type: ignore[assignment]


class _Finder:
    """Finds modules that a compile does not need, when no other finder does."""

    def __init__(self, facts: dict[str, Any], packaging: str) -> None:
        self._facts, self._packaging = facts, packaging

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name == _VERSIONS and self._packaging:
            return importlib.machinery.PathFinder.find_spec(name, [self._packaging])
        if name.partition(".")[0] not in _NOT_NEEDED:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        """Return a module that has every name; each is a placeholder. Triton lets
        kernels read modules, of this type only.
        """
        module = types.ModuleType(spec.name)
        names = _placeholder(spec.name.rpartition(".")[2], self._facts)
        vars(module).update(
            __version__="2.0.0", __getattr__=lambda name: getattr(names, name)
        )
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Placeholder(type):
    """A class that has every attribute, and can be called, inherited from, subscripted
    and compared. As a decorator it changes nothing. Triton lets kernels refer to
    classes.
    """

    _facts: dict[str, Any]

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("is_available", "device_count"):
            return lambda *_: cls.__name__ == "cuda"
        if name in cls._facts:
            return cls._facts[name]
        return _placeholder(name, cls._facts)

    def __call__(cls, *arguments: Any, **_: object) -> Any:
        is_decorator = (
            len(arguments) == 1
            and callable(arguments[0])
            and not isinstance(arguments[0], _Placeholder)
        )
        if is_decorator:
            return arguments[0]
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


def without_driver(spec: dict[str, Any]) -> None:
    """Replace the GPU's driver: from 3.0 on, declaring an autotuner asks it for a
    benchmarking function.
    """
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    if spec["backend"] == "cuda":
        arch = int(spec["arch"])
    else:
        arch = spec["arch"]
    target = GPUTarget(spec["backend"], arch, spec["warp_size"])
    driver.set_active(
        _placeholder(
            "driver", {**_facts_of(spec), "get_current_target": lambda: target}
        )
    )
