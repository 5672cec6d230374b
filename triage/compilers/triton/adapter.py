"""Find Triton below a folder, read its version, and make the command line of a case: a
worker, in a process of its own, compiles the kernel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from packaging.version import Version

from triage.compilers.base import (
    Compiler,
    Description,
    KernelSpec,
    Needs,
    Packaging,
    Wheel,
    kernel_of,
)
from triage.compilers.interpreters import Version as PythonVersion
from triage.compilers.interpreters import base_interpreter, interpreter
from triage.compilers.invocation import Invocation, first_file
from triage.compilers.repro_script import (
    StandaloneCall,
    StandaloneCompile,
    script_call,
)
from triage.model.case import Case, InputKind
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Capabilities, Toolchain
from triage.processes.crash_stack import stack_printer_address
from triage.processes.sealing import Seal
from triage.recipes.recipe import Recipe, RecipeFamily
from triage.recipes.values import parse_version

if TYPE_CHECKING:
    from triage.compilers.pasted_text import RecipeStarter

_WORKER = Path(__file__).with_name("worker.py")
_FIRST = Version("3.0")
_PHASES = ("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco")
_LIBRARY = "triton/_C/libtriton*.so"
_LIBRARIES = (_LIBRARY, f"lib/python3*/site-packages/{_LIBRARY}", f"python/{_LIBRARY}")
_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)
_WHEEL = re.compile(r"(?:pytorch_)?triton(?:_nightly)?-([^-]+)\.dist-info")
_PYTHON_TAG = re.compile(r"^Tag: cp3(\d+)-", re.MULTILINE)
_PYTHON_FOLDER = re.compile(r"/lib/python3\.(\d+)/site-packages/")
_COMMIT = re.compile(r"\+git([0-9a-f]{7,40})")

_TEMPLATE = Path(__file__).with_name("repro.py.j2")
_LIMITS = Path(__file__).with_name("shared_memory.yaml")


@dataclass(frozen=True)
class Chip:
    """The facts about a chip that a compile needs."""

    arch: str
    """`90` of `sm_90`; `gfx942` as it is."""
    warp_size: int
    shared_limit: int | None
    """Bytes of shared memory (LDS) that one block may ask for, if known."""


@cache
def chip_of(backend: str, name: str) -> Chip | None:
    """Describe the chip of a name such as `sm_90` of cuda or `gfx942` of hip. Returns
    None if no chip of the backend can have this name.
    """
    limits = yaml.safe_load(_LIMITS.read_text("utf-8"))
    if backend == "cuda":
        match = re.fullmatch(r"(?:sm_?)?(\d{2,3})a?", name)
        if match:
            return Chip(match[1], 32, limits.get(int(match[1])))
        return None
    if not re.fullmatch(r"gfx[0-9a-f]{3,4}", name):
        return None
    warp_size = 32 if re.fullmatch(r"gfx1[0-2]\d\d", name) else 64
    return Chip(name, warp_size, limits.get(name, 65536))


@dataclass(frozen=True, kw_only=True)
class TritonRecipe(KernelSpec, Recipe):
    """A kernel, compiled ahead of time."""

    def mistakes(self) -> Iterator[tuple[str, str]]:
        if self.flags:
            yield "flags", "Triton has no flags: write launch options under `options`."
        if self.target.devices is not None:
            yield "target", "a kernel is compiled for one device; remove `devices`."
        signature = self.signature
        for name in signature.keys() & self.constexprs.keys():
            yield (
                "constexprs",
                f'"{name}" has a type in signature and a value here; remove one of '
                "them.",
            )
        for name in self.hints.keys() - signature.keys():
            yield "hints", f'"{name}" is not an argument of signature.'

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with what its kernel is compiled for."""
        hints = {name: dict(values) for name, values in self.hints.items()}
        types: dict[str, str] = {}
        for name, text in self.signature.items():
            kind, _, divisibility = (part.strip() for part in text.partition(":"))
            types[name] = kind
            if divisibility:
                hints.setdefault(name, {}).setdefault("divisibility", int(divisibility))
        spec = KernelSpec(self.kernel, types, self.constexprs, hints, self.options)
        return replace(case, spec=spec)


class Triton(Compiler):
    """The Triton family."""

    name = "triton"
    distribution = "triton"
    packaging: Packaging = Wheel(interpreted=True)
    recipe = RecipeFamily(
        name="triton",
        backends=("cuda", "hip"),
        aliases={"amd": "hip", "nvidia": "cuda", "rocm": "hip"},
        phases=_PHASES,
        # A kernel file is compiled, not run as a generator. IR compiles with the
        # release that wrote it, and often with its neighbours.
        inputs=dict.fromkeys((".py", ".ttir", ".ttgir"), InputKind.OTHER),
        sections=("kernel", "signature", "constexprs", "hints", "options"),
        keys=TritonRecipe,
    )
    noun = "kernel"
    title = "Triton"
    folders = (
        "an unpacked wheel, a virtual environment or a tree built in place holds "
        "`triton/_C/libtriton.so`"
    )

    @cached_property
    def recipe_starter(self) -> RecipeStarter:
        from triage.compilers.triton.kernel_recipe import TritonRecipes  # few need it

        return TritonRecipes()

    def why_unsupported(self, version: str) -> str | None:
        if Version(version) < _FIRST:
            return (
                f"Triton {version} cannot compile ahead of time; {_FIRST} is the "
                "first that can"
            )
        return None

    def locate(self, root: Path) -> Path | None:
        """Return `libtriton.so` of an unpacked wheel, of a virtual environment or of a
        source tree built in place. `root` may be the library itself.
        """
        library = first_file(root, _LIBRARIES)
        if library and library.match("libtriton*.so"):
            return library
        return None

    def needs(self, root: Path, program: Path) -> Needs:
        """Return the folder that has the package `triton`, an interpreter for it, and
        the worker: results of another worker must not be used again.
        """
        python = _interpreter_of(program)
        return Needs((program.parents[2], _WORKER), python and base_interpreter(python))

    def describe(self, program: Path, seal: Seal) -> Description:
        package = program.parents[1]
        source = package / "__init__.py"
        if not (package / "compiler").exists() or not source.is_file():
            raise EnvironmentFailure(f"{program} has no Triton compiler next to it")
        # The metadata of a nightly's wheel contains the commit, its source does not.
        version, _ = _metadata(program)
        match = _VERSION.search(source.read_text("utf-8", "replace"))
        if match and not version:
            version = match[1]
        commit = _COMMIT.search(version)
        backends = ["cuda"]
        if (package / "backends" / "amd").is_dir():
            backends.append("hip")
        capabilities = Capabilities(
            frozenset(backends),
            phases=_PHASES,
            stack_printer_address=stack_printer_address(program),
        )
        return Description(version, capabilities, commit[1] if commit else None)

    def standalone(self, task: StandaloneCompile) -> StandaloneCall:
        """Return a script that compiles the kernel."""
        call = script_call(task, _compile_script(task), "triton")
        if call.packages and _release_numbers(task) < (3, 3):
            # imported by Triton, but not required by its wheel
            return replace(call, packages=(*call.packages, "setuptools"))
        return call

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | NoAnswer:
        program = toolchain.program
        python = _interpreter_of(program)
        packages = str(program.parents[2])
        if python is None:
            reason = f"nothing in {toolchain.root} names the Python of its Triton"
            version = _python_version(program)
            if version:
                needed = (
                    f"{toolchain.revision.name} needs Python {version[0]}.{version[1]}"
                )
                reason = f"{needed}, and none is installed here"
            return NoAnswer(Cause.TOOLCHAIN, reason)
        target = case.target
        chip = chip_of(target.backend, target.chip or "")
        if chip is None:
            reason = f"{target.chip!r} is not a chip of {target.backend}"
            return NoAnswer(
                Cause.RECIPE, f"{reason}: write one such as sm_90 or gfx942"
            )
        kernel = kernel_of(case)
        assert kernel is not None  # see `TritonRecipe.complete`
        facts = {"backend": target.backend, **asdict(chip), **vars(kernel)}
        options = ["--spec", json.dumps(facts, sort_keys=True)]
        if case.phase:
            options += ["--phase", case.phase]
        # -I and -S hide the user's variables and modules.
        launcher = [str(python), "-I", "-S", str(_WORKER), "--triton", packages]
        printer = toolchain.capabilities.stack_printer_address
        if printer is not None:
            launcher += ["--stack-printer", f"{printer}:{program}"]
        return Invocation(tuple(options), launcher=tuple(launcher))


def _metadata(program: Path) -> tuple[str, str]:
    """Return the version and the file `WHEEL` of the metadata next to the package, such
    as `triton-3.2.0.dist-info`; empty if there is none.
    """
    for file in program.parents[2].glob("*triton*.dist-info/WHEEL"):
        match = _WHEEL.fullmatch(file.parent.name)
        if match:
            return match[1], file.read_text("utf-8", "replace")
    return "", ""


def _python_version(program: Path) -> PythonVersion | None:
    """Return the Python version that the wheel was built for."""
    _, wheel = _metadata(program)
    minor = _PYTHON_TAG.search(wheel) or _PYTHON_FOLDER.search(str(program))
    if minor:
        return (3, int(minor[1]))
    return None


def _interpreter_of(program: Path) -> Path | None:
    """Return the interpreter that the wheel was built for, if one is installed."""
    version = _python_version(program)
    if version:
        return interpreter(version)
    return None


def _release_numbers(task: StandaloneCompile) -> tuple[int, int]:
    """Return major and minor version. A build without a version counts as new."""
    version = parse_version(task.version)
    if version:
        return (version.major, version.minor)
    return (1000, 0)


def _compile_script(task: StandaloneCompile) -> str:
    """Return a script that compiles the kernel with the calls of that Triton
    release.
    """
    from jinja2 import Environment, StrictUndefined

    from triage.compilers.triton.worker import hinted_positions, source_arguments

    target = task.case.target
    kernel = kernel_of(task.case)
    release = _release_numbers(task)
    chip = chip_of(target.backend, target.chip or "")
    assert chip is not None  # the kernel was compiled for it
    assert kernel is not None
    names = list(task.function.parameters) if task.function else []
    keys = vars(kernel)
    limit = None
    if task.failure_class == "shared-memory-overflow":
        limit = chip.shared_limit
    template = Environment(  # noqa: S701 - it makes Python
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    template.filters["code"] = _python_code
    return template.from_string(_TEMPLATE.read_text("utf-8")).render(
        task=task,
        target=target,
        chip=chip,
        limit=limit,
        release=release,
        options=dict(kernel.options),
        arguments=source_arguments(names, keys, release),
        divisible=hinted_positions(names, keys, "divisibility"),
        ranged=hinted_positions(names, keys, "pointer_range"),
    )


def _python_code(value: object) -> str:
    """Return a value as Python; texts that begin with `tl.` are names of types."""
    code = re.sub(r"'(tl\.\w+)'", r"\1", repr(value))
    return re.sub(r"(?<!['\w])(inf|nan)\b", r'float("\1")', code)
