"""The process in which a kernel is compiled: only the toolchain and the recipe decide, and what is written stays here."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

from .report import KernelReport

# Triton's own switches change what is compiled, and no key of the evidence knows them.
_SWITCHES = ("TRITON_", "MLIR_", "LLVM_", "AMDGCN_", "NVPTX_", "DISABLE_", "ALLOW_", "USE_", "PROTON_", "ENABLE_", "OPTIMIZE_")
# Imported by Triton, or by the program around a kernel, and needed by no compile.
_NOT_NEEDED = ("torch", "numpy", "setuptools", "filelock")


def prepare(*, name_pass: bool) -> None:
    """Set variables, the module path and the cache, which begins empty in the current folder.

    name_pass: print the IR before each pass, so that the last one printed is the one that crashed.
    """
    here = str(Path.cwd())
    for name in list(os.environ):
        if name.startswith(_SWITCHES):
            del os.environ[name]
    os.environ.update(HOME=here, TRITON_HOME=here, TRITON_CACHE_DIR=str(Path(here, "cache")))
    if name_pass:
        os.environ["MLIR_ENABLE_DUMP"] = "1"
    sys.path[0] = os.environ.pop("TRIAGE_TRITON")
    sys.meta_path.append(_Finder())


def read_assembler(report: KernelReport) -> None:
    """Triton has ptxas write to a file that it throws away; here the file is read first."""
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
    """Finds what is not needed where nobody else does."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] not in _NOT_NEEDED:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Module(types.ModuleType):
    """A module in which every name is there and means nothing."""

    __version__ = "2.0.0"

    def __getattr__(self, name: str) -> Any:
        return _nothing(name)


class _Class(type):
    """Of what such a name is: it can be called, inherited from, subscribed and looked into."""

    def __getattr__(cls, name: str) -> Any:
        return _nothing(name)

    def __or__(cls, other: object) -> Any:
        return cls


def _nothing(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "hip":  # torch.version.hip: 2.2 takes anything else for an AMD machine
        return None

    def call(_: object, *given: Any, **__: object) -> Any:
        return given[0] if given else None  # a decorator leaves what it decorates

    def ignore(_: object, *given: object, **__: object) -> None:
        pass

    def look(_: object, name: str) -> Any:
        return _nothing(name)

    ways = {"__init__": ignore, "__call__": call, "__getattr__": look, "__getitem__": ignore, "__class_getitem__": ignore}
    return _Class(name, (), ways)


def without_driver() -> None:
    """From 3.0 on a tuner asks the GPU's driver for a stopwatch as soon as it is declared; compiling asks it nothing."""
    from triton.runtime.driver import driver

    driver.set_active(_nothing("driver")())
