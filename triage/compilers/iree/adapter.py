"""Find `iree-compile`, ask it about itself, translate cases into the flags of its
version, and run what it compiled with the tools of the runtime package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.base import (
    Compiler,
    Description,
    Needs,
)
from triage.compilers.interpreters import is_script
from triage.compilers.invocation import (
    Invocation,
    IrPrinter,
    MlirTools,
    Runner,
    ask_compiler,
    first_file,
)
from triage.compilers.iree.targets import (
    DEVICE,
    IREE,
    devices_in,
    driver_of,
    missing_options,
    selecting_flags,
    target_flags,
)
from triage.model.case import Case, RunSpec
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Capabilities, Toolchain
from triage.processes.sealing import Seal
from triage.recipes.expectations import applied_flags
from triage.recipes.run_values import ValueText

if TYPE_CHECKING:
    from triage.compilers.iree.lint import IreeLinter
    from triage.compilers.pasted_text import RecipeStarter

# Without it an error is followed by the whole operation: hundreds of MB for a large
# model, and nothing that identifies it.
_SHORTENING = ("--iree-global-opt-erase-unused-linalg-operands",)
_QUIET = "--mlir-print-op-on-diagnostic=false"
_ELIDED = "--mlir-elide-elementsattrs-if-larger=16"
# Print types inline, and constants on at most a line.
_PLAIN = (
    "--mlir-print-local-scope",
    _ELIDED,
    "--mlir-elide-resource-strings-if-larger=16",
)
_ONE_THREAD = "--mlir-disable-threading"
# These variables make LLVM's signal handler print the addresses on the stack and where
# each library is loaded, see `processes.crash_stack`. By default it searches for names,
# which takes longer than a compile and needs a program of LLVM.
PRINT_ADDRESSES = {
    "LLVM_DISABLE_SYMBOLIZATION": "1",
    "LLVM_ENABLE_SYMBOLIZER_MARKUP": "1",
}

# The wheel's entry script in bin/ starts an interpreter first and turns a signal into
# an ordinary exit status, so the native binary inside the package is preferred wherever
# both are there.
_INNER = "iree/compiler/_mlir_libs/iree-compile"
_PACKAGED = f"lib/python3*/site-packages/{_INNER}"
_LOCATIONS = (
    _INNER,
    _PACKAGED,
    "tools/iree-compile",
    "install/bin/iree-compile",
    "bin/iree-compile",
    "iree-compile",
)
_LIBRARIES: tuple[str, ...] = (
    "libIREECompiler.so",
    "libIREECompiler.dylib",
    "../lib/libIREECompiler.so",
    "../lib/libIREECompiler.dylib",
)
_LIBRARY_FOLDERS: tuple[str, ...] = (
    "../lib",
    "../compiler/bindings/python",
    "../llvm-project/bin",
)

_VERSION = re.compile(r"IREE compiler version (\S+)(?: @ ([0-9a-f]{7,40}))?")
_OPTION = re.compile(r"^\s+-{1,2}([A-Za-z][\w.-]*)", re.MULTILINE)
# an option with a value prints `=<kind>`
_SWITCH = re.compile(r"^\s+-{1,2}(iree-[\w.-]*)\s+- ", re.MULTILINE)
_CHOICE = re.compile(
    r"^\s+-{1,2}(iree-[\w.-]*|compile-to)=<value>\s+- .*\n((?:\s+=[\w-]+\s.*\n)+)",
    re.MULTILINE,
)
_VALUE = re.compile(r"^\s+=([\w-]+)\s", re.MULTILINE)
_NIGHTLY = re.compile(r"(?:rc|dev)(20\d\d)(\d\d)(\d\d)$")

# The first is that of a wheel, the last the same folder as seen from the compiler next
# to it.
_TOOLS = (
    "iree/_runtime_libs",
    "tools",
    "install/bin",
    "bin",
    ".",
    "../../_runtime_libs",
)
# Patterns of the runtime, which few commands need and re compiles on first use.
_NO_DEVICE = (
    r"(?:UNAVAILABLE|NOT_FOUND); (?P<reason>[^;\n]+)[^\0]*creating driver for device "
    r"'(?P<device>[^']+)'"
)
_UNKNOWN_FLAG = r"flag '([\w-]+)' not recognized"
_EXECUTABLE = r"\bhal\.executable (?:public |private )?@([\w$.-]+)"
_DISPATCH = (
    r"\butil\.func public @([\w$.-]+)\(%\w+: i32\)[^{]*\{[^\n]*iree\.benchmark = "
    r'"dispatch"'
)
# Types whose numbers the runtime's programs cannot read in a command line.
_ONLY_IN_FILES = ("i1", "cf64", "cf128")


class IreeRunner(Runner):
    """The runtime: `iree-run-module` and `iree-benchmark-module`."""

    distribution = "iree-base-runtime"
    measures = True
    unoptimised = ("--iree-opt-level=O0",)

    @cache  # noqa: B019 - there is one runner
    def program(self, root: Path, *, measured: bool) -> Path | None:
        name = "iree-run-module"
        if measured:
            name = "iree-benchmark-module"
        for path in (root / folder / name for folder in _TOOLS):
            # The scripts in a virtual environment's bin/ stay the same when its runtime
            # is replaced.
            if path.is_file() and not is_script(path):
                return path
        return None

    def device(self, case: Case, run: RunSpec) -> str | None:
        name = _device_name(case, run).partition(":")[0]
        if name.startswith("local"):
            return None
        return name

    def options(self, case: Case, run: RunSpec) -> list[str]:
        options: list[str] = []
        # Devices that the flags name replace the usual one.
        if not any(flag.startswith("--device=") for flag in run.flags):
            options.append(f"--device={_device_name(case, run)}")
        if run.function:
            options.append(f"--function={run.function}")
        options += run.flags
        for scope, path in run.parameters:
            named = filter(None, (scope, str(path)))
            options.append(f"--parameters={'='.join(named)}")
        return options

    def can_read(self, value: ValueText) -> bool:
        return value.file is not None or value.element not in _ONLY_IN_FILES

    def startup_failure(self, stderr: str) -> NoAnswer | None:
        match = re.search(_NO_DEVICE, stderr)
        if match:
            reason = match["reason"].strip(" :")
            text = f"this machine has no device {match['device']}: {reason}"
            return NoAnswer(Cause.TARGET, text)
        match = re.search(_UNKNOWN_FLAG, stderr)
        if match:
            text = f"does not know the flag --{match[1]} to run a program"
            return NoAnswer(Cause.FLAG, text)
        return None


class IreeKernels:
    """The kernels of a program, as the compiler's own options show them."""

    def count_options(self, file: Path) -> list[str]:
        """Return options that make the compiler write statistics to a file, for
        `kernel_count`.
        """
        return [
            "--iree-scheduling-dump-statistics-format=json",
            f"--iree-scheduling-dump-statistics-file={file}",
        ]

    def kernel_count(self, text: str) -> int | None:
        """Return how many kernels the program starts, by the text of its statistics."""
        try:
            report = json.loads(text)
            return int(report["stream-aggregate"]["execution"]["dispatch-count"])
        # not its usual report
        except (ValueError, RecursionError, LookupError, TypeError, OverflowError):
            return None

    def extract_options(self, folder: Path) -> list[str]:
        """Return options that make the compiler write small programs to a folder. Each
        starts one kernel of the compiled program.
        """
        return [f"--iree-hal-dump-executable-benchmarks-to={folder}"]

    def kernels_in(self, text: str) -> list[tuple[str, str]]:
        """Return the kernels that a small program starts: name, and the option that
        measures this kernel alone.
        """
        executable = re.search(_EXECUTABLE, text)
        name = "dispatch"
        if executable:
            name = executable[1]
        functions = enumerate(re.findall(_DISPATCH, text), 1)
        return [
            (
                name if number == 1 else f"{name}-{number}",
                f"--benchmark_filter=^BM_{function}/",
            )
            for number, function in functions
        ]


def _device_name(case: Case, run: RunSpec) -> str:
    driver = driver_of(case.target.backend)
    if driver == "local":
        driver = "local-sync"
    return run.device or driver


class Iree(Compiler):
    """The IREE family."""

    name = "iree"
    distribution = "iree-base-compiler"
    recipe = IREE
    title = "IREE"
    module = "module.vmfb"
    onnx_importer = "iree.compiler.tools.import_onnx"
    folders = (
        "an unpacked wheel, a virtual environment, a build tree (tools/) or an "
        "install (bin/) holds `iree-compile`"
    )

    passes = IrPrinter(
        (
            "--mlir-print-ir-after-all",
            "--mlir-print-ir-after-change",
            "--mlir-print-op-generic",
            # In one thread passes follow each other as they do in the source, and no
            # two dumps are mixed.
            _ONE_THREAD,
            *_PLAIN,
        ),
        ("--mlir-print-ir-after-failure", _ONE_THREAD, _ELIDED),
    )
    run = IreeRunner()
    kernels = IreeKernels()

    @cached_property
    def lint(self) -> IreeLinter:
        from triage.compilers.iree.lint import IreeLinter  # few commands need it

        return IreeLinter()

    @cached_property
    def recipe_starter(self) -> RecipeStarter:
        from triage.compilers.iree.command_line import IreeRecipes

        return IreeRecipes()

    def mlir_tools(self, toolchain: Toolchain) -> MlirTools | None:
        """Return those next to the compiler; a build tree may hold the compiler
        alone.
        """
        optimizer = toolchain.program.with_name("iree-opt")
        if not optimizer.is_file():
            return None
        if optimizer.parent.name == "_mlir_libs":  # of a wheel
            root = optimizer.parents[3]
        else:
            root = optimizer.parents[1] / "compiler" / "bindings" / "python"
        return MlirTools(optimizer, root, "iree.compiler", toolchain.reads, _SHORTENING)

    def declaring_options(
        self, case: Case, program: Path, devices: Iterable[str]
    ) -> tuple[str, ...]:
        with program.open(encoding="utf-8", errors="replace") as lines:
            names = {*devices, *(name for line in lines for name in devices_in(line))}
        target = case.target
        flags = [flag.text for flag in case.flags]
        if target.devices and not any(text.startswith(DEVICE) for text in flags):
            flags += selecting_flags(target)
        return missing_options(names, target.backend, flags)

    def locate(self, root: Path) -> Path | None:
        program = first_file(root, _LOCATIONS)
        if program is None or not is_script(program):
            return program
        # the entry script starts the native binary
        return first_file(program.parent.parent, (_PACKAGED, _INNER))

    def needs(self, root: Path, program: Path) -> Needs:
        """Return an unpacked wheel as a whole; of an environment, a build tree or an
        install only what the compiler and its Python modules are made of.
        """
        first = program.parent
        others = _LIBRARY_FOLDERS
        if root.is_file():
            first = program
            others = _LIBRARIES
        elif "_mlir_libs" in program.parts:
            first = root
            others = ()
            if root.name == "site-packages":
                first = program.parents[1]
        paths = ((program.parent / other).resolve() for other in others)
        return Needs((first, *(path for path in paths if path.exists())))

    def describe(self, program: Path, seal: Seal) -> Description:
        queries = ("--version", "--help-hidden", "--iree-hal-list-target-backends")
        version_text, help_text, backends = [
            ask_compiler([str(program), query], seal) for query in queries
        ]
        match = _VERSION.search(version_text)
        if match is None or "--iree-hal-target-backends" not in help_text:
            raise EnvironmentFailure(f"{program} does not answer like an IREE compiler")
        version, commit = match.groups()
        day = _NIGHTLY.search(version)
        # option -> the values that the help text lists below it, in its order
        choices = {
            option: tuple(_VALUE.findall(values))
            for option, values in _CHOICE.findall(help_text)
        }
        return Description(
            version=version,
            commit=commit,
            date="-".join(day.groups()) if day else None,
            capabilities=Capabilities(
                backends=frozenset(re.findall(r"^  (\S+)$", backends, re.MULTILINE)),
                phases=choices.pop("compile-to", ()),
                flags=frozenset(_OPTION.findall(help_text)),
                switches=frozenset(_SWITCH.findall(help_text)),
                choices=choices,
            ),
        )

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | NoAnswer:
        capabilities = toolchain.capabilities
        phase = case.phase
        if phase is not None and phase not in capabilities.phases:
            text = f"{toolchain.revision.name} has no phase {phase}"
            return NoAnswer(Cause.FLAG, text)
        flags = applied_flags(case, toolchain.version)
        options = target_flags(case.target, capabilities.flags, flags)
        if isinstance(options, NoAnswer):
            return options
        if phase:
            options.append(f"--compile-to={phase}")
        plain = Invocation(options=(*options, *flags), env=PRINT_ADDRESSES)
        return plain.with_printing([_QUIET])
