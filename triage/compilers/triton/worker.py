"""Compiles one kernel ahead of time with the Triton in a folder; run by the Python that
its wheel is for, and imports nothing of triage.

    worker.py --triton FOLDER [--stack-printer ADDRESS:LIBRARY] --spec JSON
        [--phase STAGE] SOURCE -o OUTPUT

SOURCE is a file with a kernel, or IR that this release wrote (.ttir, .ttgir). If it
compiles, OUTPUT is the product of the last stage, and the exit status is 0. Otherwise
stderr has Triton's error, or one line. Lines on stdout that begin with `triage: ` are
JSON:

- {"stage": NAME} when a stage begins
- {"metrics": {...}} at the end
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import re
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Triton or the program around a kernel imports these; a compile does not need them.
REPLACED = ("torch", "numpy", "setuptools", "filelock", "packaging")
# Where metrics are read -> each metric, its pattern, and the bytes of what is counted.
_METRICS = {
    "amdgcn": (
        ("registers", r"\.vgpr_count:\s+(\d+)", 1),
        ("spill_bytes", r"\.vgpr_spill_count:\s+(\d+)", 4),
    ),
    "ptxas": (
        ("registers", r"Used (\d+) registers", 1),
        ("spill_bytes", r"(\d+) bytes spill stores", 1),
    ),
}
# Hint -> the only value that Triton uses.
_HINTS = {"divisibility": 16, "pointer_range": 32}


class Ended(BaseException):
    """The last stage that is wanted is done. It is raised before Triton needs a GPU."""


class Refused(Exception):
    """The release lacks what the recipe needs, or the recipe does not fit its kernel.

    The message is one that `rules.yaml` knows.
    """


class Report:
    """Reports the stages and the metrics of a compile, and ends it after the last stage
    that is wanted.
    """

    def __init__(self, phase: str | None) -> None:
        """Create a report that ends the compile after the stage `phase` (default: the
        last one).
        """
        self.phase = phase
        self.product: Any = None
        self.metrics: dict[str, int] = {}

    def watch(self, stages: dict[str, Callable[..., Any]], last: str) -> None:
        """Replace stages by ones that report themselves. The one for the phase ends the
        compile; without a phase, the stage `last` does.
        """
        names = list(stages)
        if last in names:
            del names[names.index(last) + 1 :]
        end = self.phase or names[-1]
        if end not in names:
            raise Refused(
                f"this Triton has no stage {end}; there is: {', '.join(names)}"
            )
        for name in names:
            stages[name] = self._reporting(name, stages[name], ends=name == end)

    def _reporting(
        self, name: str, make: Callable[..., Any], *, ends: bool
    ) -> Callable[..., Any]:
        def run_stage(source: Any, metadata: dict[str, Any]) -> Any:
            print_fact({"stage": name})
            self.product = product = make(source, metadata)
            if name == "llir" and metadata.get("shared") is not None:
                self.metrics["shared_bytes"] = int(metadata["shared"])
            self.read_metrics(name, product)
            if ends:
                raise Ended
            return product

        return run_stage

    def read_metrics(self, source: str, text: object) -> None:
        """Read the metrics in the product of a stage, or in the log of ptxas."""
        for metric, pattern, unit in _METRICS.get(source, ()):
            match = re.search(pattern, str(text))
            if match:
                self.metrics[metric] = int(match[1]) * unit

    def record_assembler(self) -> None:
        """Patch `subprocess.run` so that ptxas's log is read before Triton deletes
        it.
        """
        plain_run = subprocess.run

        def run(command: Any, *rest: Any, **options: Any) -> Any:
            done = plain_run(command, *rest, **options)
            log = getattr(options.get("stderr"), "name", "")
            if "ptxas" in str(command) and log:
                self.read_metrics("ptxas", Path(log).read_text())
            return done

        subprocess.run = run  # type: ignore[assignment]

    def finish(self, output: Path, shared_limit: int | None) -> int:
        """Write the product of the last stage, and print the metrics. Return 1 if the
        chip lacks the shared memory that a launch needs, as far as both are known.
        """
        product = self.product
        if not isinstance(product, bytes):
            product = str(product).encode()
        output.write_bytes(product)
        print_fact({"metrics": self.metrics})
        used = self.metrics.get("shared_bytes", 0)
        if shared_limit is None or used <= shared_limit:
            return 0
        print_fact({"stage": "llir"})  # the stage that allocates shared memory
        sys.stderr.write(
            f"out of resource: shared memory, Required: {used}, Hardware limit: "
            f"{shared_limit}. Reducing block sizes or `num_stages` may help.\n"
        )
        return 1


def print_fact(fact: dict[str, Any]) -> None:
    """Print a line that the program above reads."""
    print("triage: " + json.dumps(fact), flush=True)


# Isolation: modules and GPUs of this machine must not affect the result.


def print_stack_of_crash(address: int, library: str) -> None:
    """Call the function at an address of a library that makes a crash print the
    addresses on its stack. The address is that in the library's file.
    """
    # as in `PRINT_ADDRESSES` of iree/adapter.py, which this interpreter cannot import
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
        "hip": None if is_cuda else "6.0",
    }


class _ReplacementFinder:
    """Finds and makes replacements for modules that a compile does not need. It is
    asked after all other finders.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] not in REPLACED:
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


# The compile: the format of hints has changed twice since 3.0.


def hinted_positions(names: list[str], spec: dict[str, Any], hint: str) -> list[int]:
    """Return the positions of the arguments for which a hint has its usual value."""
    return [
        position
        for position, name in enumerate(names)
        if spec["hints"].get(name, {}).get(hint) == _HINTS[hint]
    ]


def source_arguments(
    names: list[str], spec: dict[str, Any], version: tuple[int, ...]
) -> dict[str, Any]:
    """Return the arguments of `ASTSource`. Before 3.3 a kernel with hints needs `attrs`
    as well.

    Args:
        names: All arguments in the kernel's own order: up to 3.2, positions count.
        spec: The types, constants and hints of the arguments.
        version: The release.
    """
    types = spec["signature"]
    constants = spec["constexprs"]
    if version < (3, 3):
        ordered = {name: types[name] for name in names if name in types}
        return {"signature": ordered, "constants": constants}
    attributes: dict[tuple[int], list[list[Any]]] = {}
    for hint, value in _HINTS.items():
        for position in hinted_positions(names, spec, hint):
            attributes.setdefault((position,), []).append([f"tt.{hint}", value])
    signature = {name: types.get(name, "constexpr") for name in names}
    return {"signature": signature, "constexprs": constants, "attrs": attributes}


def compile_kernel(source: str, spec: dict[str, Any], report: Report) -> None:
    """Compile a kernel, or IR, until the report ends the compile. Triton's own errors
    are raised as they are.
    """
    import triton
    from triton.backends.compiler import GPUTarget

    version = tuple(int(part) for part in re.findall(r"\d+", triton.__version__)[:2])
    arch = spec["arch"]
    last = ""
    if spec["backend"] == "cuda":
        arch = int(arch)
    elif version < (3, 5):
        last = "amdgcn"  # the linker for AMD's objects is not part of the wheel
    target = GPUTarget(spec["backend"], arch, spec["warp_size"])
    subject: Any = source
    if not source.endswith((".ttir", ".ttgir")):
        from triton.runtime.driver import driver

        # An autotuner asks the GPU's driver for a function that measures as soon as it
        # is declared.
        facts = {**_gpu_facts(spec), "get_current_target": lambda: target}
        driver.set_active(_placeholder("driver", facts))
        subject = _ast_source(_kernel_function(source, spec["kernel"]), spec, version)
    compiler = sys.modules["triton.compiler.compiler"]
    _watch(type(compiler.make_backend(target)), report, spec["options"], last)
    triton.compile(subject, target=target, options=dict(spec["options"]))


def _ast_source(function: Any, spec: dict[str, Any], version: tuple[int, ...]) -> Any:
    """Return what `triton.compile` compiles."""
    names = list(function.arg_names)
    given = (*spec["signature"], *spec["constexprs"])
    for name in given:
        if name not in names:
            _refuse_recipe(f"{function.__name__} has no argument {name}")
    for name in names:
        if name not in given:
            _refuse_recipe(
                f"{name} has no type in signature and no value in constexprs"
            )
    values = {name: _constant(value) for name, value in spec["constexprs"].items()}
    arguments = source_arguments(names, {**spec, "constexprs": values}, version)
    compiler = sys.modules["triton.compiler.compiler"]
    divisible = hinted_positions(names, spec, "divisibility")
    if version < (3, 2):
        arguments["attrs"] = compiler.AttrsDescriptor(set(divisible), set())
    elif version < (3, 3):
        from triton.backends.compiler import AttrsDescriptor

        descriptor = AttrsDescriptor.from_hints(dict.fromkeys(divisible, 16))
        arguments["attrs"] = descriptor
        ranged = hinted_positions(names, spec, "pointer_range")
        if ranged:
            descriptor.property_values["tt.pointer_range"] = 32
            descriptor.arg_properties["tt.pointer_range"] = ranged
    return compiler.ASTSource(fn=function, **arguments)


def _refuse_recipe(why: str) -> None:
    raise Refused(f"the recipe does not fit its kernel: {why}")


def _watch(backend: Any, report: Report, options: dict[str, Any], last: str) -> None:
    """Patch a backend so that its stages are reported. Its cache key becomes empty:
    the cache is empty, and the real key needs a linker and a hash of the compiler.
    """
    plain_add_stages = backend.add_stages
    module = plain_add_stages.__globals__
    options_class = module.get("CUDAOptions") or module["HIPOptions"]
    for name in options:
        if name not in options_class.__dataclass_fields__:  # Triton would ignore it
            raise Refused(f"this Triton has no option {name}")

    def add_stages(self: Any, stages: dict[str, Any], *rest: Any) -> None:
        plain_add_stages(self, stages, *rest)
        report.watch(stages, last)

    backend.add_stages = add_stages
    backend.hash = lambda _: ""
    for name in ("triton.compiler.compiler", "triton.runtime.cache"):
        if hasattr(sys.modules.get(name), "triton_key"):
            vars(sys.modules[name])["triton_key"] = lambda: ""


def _kernel_function(source: str, name: str | None) -> Any:
    """Return the kernel of a name. Without a name, return the file's only kernel."""
    from triton.runtime.jit import JITFunction

    kernels = {}
    for key, value in vars(_import_source(source)).items():
        while type(value).__module__ == "triton.runtime.autotuner":
            value = value.fn
        if isinstance(value, JITFunction):
            kernels[key] = value
    names = ", ".join(kernels) or "none"
    if name is None and len(kernels) != 1:
        _refuse_recipe(f"`kernel:` has to name one of the file's: {names}")
    if name is not None and name not in kernels:
        _refuse_recipe(f"the file has no kernel {name}; it has: {names}")
    return kernels[name or names]


def _import_source(source: str) -> Any:
    """Import a file. It is not run from text, because Triton reads the text of a
    function from its file.
    """
    spec = importlib.util.spec_from_file_location("kernel_under_test", source)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.dont_write_bytecode = True  # the folder is not ours to write into
    try:
        spec.loader.exec_module(module)
    except (AttributeError, ImportError) as error:
        if "triton" in str(error):
            lacks = f"this Triton has no part that the kernel's file uses: {error}"
            raise Refused(lacks) from error
        raise
    return module


def _constant(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("tl."):
        return value
    language = sys.modules["triton.language"]
    if not hasattr(language, value[3:]):
        raise Refused(f"this Triton has no type {value}")
    return getattr(language, value[3:])


def _print_error(error: Exception) -> None:
    """Print an error of Triton. One in the kernel is a message, others a traceback."""
    from triton.compiler.errors import CompilationError

    if isinstance(error, CompilationError):
        while isinstance(error.__cause__, CompilationError):
            error = error.__cause__  # of the innermost call
        print(error, file=sys.stderr)
        # In some releases the cause says what went wrong, in others the last line does.
        lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
        message = [type(error).__name__, *lines][-1]
        if error.__cause__ is not None:
            message = repr(error.__cause__)
    elif isinstance(error, AttributeError) and "module 'triton" in str(error):
        message = repr(error)  # found missing before the kernel is read
    else:
        traceback.print_exception(type(error), error, error.__traceback__)
        return
    print(f"error: the kernel's language refuses it: {message}", file=sys.stderr)


def main() -> int:
    """Compile a kernel and return the exit status."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--triton", required=True)
    add("--stack-printer", default="")
    add("--spec", type=json.loads, required=True)
    add("--phase")
    add("source")
    add("-o", dest="output", type=Path, required=True)
    options = parser.parse_args()
    sys.path.insert(0, options.triton)
    sys.meta_path.append(_ReplacementFinder(_gpu_facts(options.spec)))
    address, _, library = options.stack_printer.partition(":")
    if library:
        print_stack_of_crash(int(address), library)
    report = Report(options.phase)
    report.record_assembler()
    try:
        compile_kernel(options.source, options.spec, report)
    except Ended:
        return report.finish(options.output, options.spec["shared_limit"])
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
    except Exception as error:
        _print_error(error)
    return 1


if __name__ == "__main__":
    sys.exit(main())
