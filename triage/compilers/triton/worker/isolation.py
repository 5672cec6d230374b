"""Isolate the process that compiles a kernel, so that only the toolchain and the recipe affect the result."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

from .report import KernelReport

# Triton's own variables change the result, and no evidence key contains them unless the recipe names them under `env`.
_SWITCHES = ("TRITON_", "MLIR_", "LLVM_", "AMDGCN_", "NVPTX_", "DISABLE_", "ALLOW_", "USE_", "PROTON_", "ENABLE_", "OPTIMIZE_")
# Imported by Triton or by the program around a kernel, but not needed to compile.
_NOT_NEEDED = ("torch", "numpy", "setuptools", "filelock")


def prepare() -> None:
    """Set variables, the module path, the cache, which begins empty in the current folder, and what a crash prints."""
    here = str(Path.cwd())
    kept = os.environ.pop("TRIAGE_KEEP", "").split()
    for name in list(os.environ):
        if name.startswith(_SWITCHES) and name not in kept:
            del os.environ[name]
    os.environ.update(HOME=here, TRITON_HOME=here, TRITON_CACHE_DIR=str(Path(here, "cache")))
    sys.path[0] = os.environ.pop("TRIAGE_TRITON")
    sys.meta_path.append(_Finder())
    address, _, library = os.environ.pop("TRIAGE_STACK_PRINTER", "").partition(":")
    if library:
        _print_stack_of_crash(int(address), library)


def _print_stack_of_crash(address: int, library: str) -> None:
    """Call LLVM's own function that makes a crash print the addresses on its stack. address: in the library's symbols."""
    # As in `PRINT_ADDRESSES` of execution/crash_stack.py, which this interpreter cannot import.
    os.environ.update(LLVM_DISABLE_SYMBOLIZATION="1", LLVM_ENABLE_SYMBOLIZER_MARKUP="1")
    entry = ctypes.CDLL(library)._handle  # noqa: SLF001 - the loader's entry for the library, which begins with its address
    start = ctypes.c_void_p.from_address(entry).value or 0
    install = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool)(start + address)
    install(b"", 0, 0)  # the program's name and its length, and whether to suppress the system's crash reports


def read_assembler(report: KernelReport) -> None:
    """Read the log that ptxas writes before Triton deletes it."""
    plain = subprocess.run

    def run(command: Any, *rest: Any, **options: Any) -> Any:
        done = plain(command, *rest, **options)
        text = command if isinstance(command, str) else " ".join(map(str, command))
        if "--gpu-name" in text:
            redirected = re.search(r"2> *(\S+)", text)
            log = Path(redirected.group(1) if redirected else getattr(options.get("stderr"), "name", ""))
            if log.is_file():
                report.assembled(log.read_text())
        return done

    subprocess.run = run  # type: ignore[assignment]


class _Finder:
    """Finds modules that a compile does not need, when no other finder does."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] not in _NOT_NEEDED:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Module(types.ModuleType):
    """A module that has every name; each is a placeholder."""

    __version__ = "2.0.0"

    def __getattr__(self, name: str) -> Any:
        return _nothing(name)


class _Class(type):
    """The type of a placeholder, which can be called, inherited from, subscripted and has every attribute."""

    def __getattr__(cls, name: str) -> Any:
        return _nothing(name)

    def __or__(cls, other: object) -> Any:
        return cls


def _nothing(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "hip":  # torch.version.hip: 2.2 takes anything else for an AMD machine
        return None

    def call(_: object, *arguments: Any, **__: object) -> Any:
        return arguments[0] if arguments else None  # a decorator leaves what it decorates

    def ignore(_: object, *arguments: object, **__: object) -> None:
        pass

    def look(_: object, name: str) -> Any:
        return _nothing(name)

    ways = {"__init__": ignore, "__call__": call, "__getattr__": look, "__getitem__": ignore, "__class_getitem__": ignore}
    return _Class(name, (), ways)


def without_driver() -> None:
    """Replace the GPU's driver: from 3.0 on, declaring an autotuner asks it for a benchmarking function."""
    from triton.runtime.driver import driver

    driver.set_active(_nothing("driver")())
