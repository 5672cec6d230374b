"""Find Triton below a folder, read its version, and make the command line of a case: a
worker, in a process of its own, compiles the kernel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import packaging
from packaging.version import Version

from triage.compilers.base import (
    Compiler,
    Description,
    Needs,
    Packaging,
    Wheel,
    kernel_of,
    pep440,
)
from triage.compilers.interpreters import Version as PythonVersion
from triage.compilers.interpreters import base_of, interpreter, version_of
from triage.compilers.invocation import Invocation
from triage.compilers.triton.standalone import TritonScript, chip_of
from triage.model.case import Case, InputKind
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Capabilities, Toolchain
from triage.processes.crash_stack import stack_printer
from triage.processes.sealing import Seal
from triage.recipes.family import RecipeFamily

if TYPE_CHECKING:
    from triage.compilers.triton.kernel_recipe import TritonRecipes
    from triage.compilers.triton.recipe_format import TritonRecipe

_WORKER = Path(__file__).parent / "worker"
_FIRST = Version("3.0")
_PHASES = {
    "cuda": ("ttir", "ttgir", "llir", "ptx", "cubin"),
    "hip": ("ttir", "ttgir", "llir", "amdgcn", "hsaco"),
}
# The chips for which 3.1.0 to 3.9.0 compile a small kernel.
_HIP_CHIPS = """
gfx906 gfx908 gfx90a gfx940 gfx941 gfx942 gfx950
gfx1010 gfx1011 gfx1012 gfx1013
gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036
gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153
gfx1200 gfx1201 gfx1250
"""
_CUDA_CHIPS = """
sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_88 sm_89
sm_90 sm_100 sm_101 sm_103 sm_110 sm_120 sm_121
"""
_LIBRARY = "triton/_C/libtriton*.so"
_PLACES = (_LIBRARY, f"lib/python3*/site-packages/{_LIBRARY}", f"python/{_LIBRARY}")
_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)
_COMMIT = re.compile(r"\+git([0-9a-f]{7,40})")


def _keys() -> type[TritonRecipe]:
    from triage.compilers.triton.recipe_format import TritonRecipe

    return TritonRecipe


class Triton(Compiler):
    """The Triton family."""

    name = "triton"
    distribution = "triton"
    packaging: Packaging = Wheel(interpreted=True)
    recipe = RecipeFamily(
        name="triton",
        backends=("cuda", "hip"),
        aliases={"amd": "hip", "nvidia": "cuda", "rocm": "hip"},
        chips={"hip": tuple(_HIP_CHIPS.split()), "cuda": tuple(_CUDA_CHIPS.split())},
        phases=("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco"),
        # A kernel file is compiled, not run as a generator. IR compiles with the
        # release that wrote it, and often with its neighbours.
        inputs=dict.fromkeys((".py", ".ttir", ".ttgir"), InputKind.OTHER),
        sections=("kernel", "signature", "constexprs", "hints", "options"),
        keys=_keys,
    )
    noun = "kernel"
    title = "Triton"
    script = TritonScript()
    folders = (
        "an unpacked wheel, a virtual environment or a tree built in place holds "
        "`triton/_C/libtriton.so`"
    )

    @cached_property
    def recipe_starter(self) -> TritonRecipes:
        from triage.compilers.triton.kernel_recipe import TritonRecipes

        return TritonRecipes()

    def unsupported(self, version: str) -> str | None:
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
        if root.is_file():
            return root.absolute() if root.match("libtriton*.so") else None
        for pattern in _PLACES:
            for library in sorted(root.glob(pattern)):
                return library.absolute()
        return None

    def needs(self, root: Path, program: Path) -> Needs:
        """Return the folder that has the package `triton`, an interpreter for it, and
        the worker: results of another worker must not be used again.
        """
        package = Path(packaging.__file__).parent
        version = _python_version(program)
        python = interpreter(version) if version else None
        if python is not None:
            python = base_of(python)
        return Needs((program.parents[2], _WORKER, package), python)

    def describe(self, program: Path, seal: Seal) -> Description:
        package = program.parents[1]
        if not (package / "compiler").exists():
            raise EnvironmentFailure(f"{program} has no Triton compiler next to it")
        # The metadata of a nightly's wheel contains the commit, its source does not.
        wheels = [
            folder.name.removesuffix(".dist-info") for folder in _metadata(program)
        ]
        version = _version_in_source(package / "__init__.py")
        if wheels:
            version = wheels[0].split("-")[1]
        commit = _COMMIT.search(" ".join(wheels))
        backends = ["cuda"]
        if (package / "backends" / "amd").is_dir():
            backends.append("hip")
        phases = dict.fromkeys(phase for name in backends for phase in _PHASES[name])
        known = Capabilities(
            frozenset(backends),
            phases=tuple(phases),
            stack_printer=stack_printer(program),
        )
        return Description(pep440(version), commit[1] if commit else None, None, known)

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | NoAnswer:
        python = _python(toolchain)
        if isinstance(python, NoAnswer):
            return python
        spec = _worker_spec(case, toolchain)
        if isinstance(spec, NoAnswer):
            return spec
        options = ["--spec", json.dumps(spec, sort_keys=True)]
        if case.phase:
            options += ["--phase", case.phase]
        # -I and -S hide the user's variables and modules.
        launcher = (str(python), "-I", "-S", str(_WORKER))
        # The worker removes Triton's own variables, except those that the recipe names.
        env = {
            "TRIAGE_TRITON": str(toolchain.program.parents[2]),
            "TRIAGE_PACKAGING": str(Path(packaging.__file__).parent),
            "TRIAGE_KEEP": " ".join(name for name, _ in case.env),
        }
        printer = toolchain.capabilities.stack_printer
        if printer is not None:
            env["TRIAGE_STACK_PRINTER"] = f"{printer}:{toolchain.program}"
        return Invocation(tuple(options), env=env, launcher=launcher)


def _version_in_source(module: Path) -> str | None:
    if not module.is_file():
        return None
    match = _VERSION.search(module.read_text("utf-8", "replace"))
    return match[1] if match else None


def _metadata(program: Path) -> Iterator[Path]:
    """Yield the folders with metadata of Triton's wheel, `triton-3.2.0.dist-info`."""
    for path in sorted(program.parents[2].glob("*triton*.dist-info")):
        if re.match(r"(?:pytorch_)?triton(?:_nightly)?-", path.name):
            yield path


def _python(toolchain: Toolchain) -> Path | NoAnswer:
    """Return an interpreter of the Python version that the wheel was built for."""
    version = _python_version(toolchain.program)
    if version is None:
        return NoAnswer(
            Cause.TOOLCHAIN,
            f"nothing in {toolchain.root} names the Python version of its Triton",
        )
    text = (
        f"{toolchain.revision.name} needs Python {version[0]}.{version[1]}, and none "
        "is installed here"
    )
    return interpreter(version) or NoAnswer(Cause.TOOLCHAIN, text)


def _python_version(program: Path) -> PythonVersion | None:
    for folder in _metadata(program):
        wheel = folder / "WHEEL"
        if wheel.is_file():
            tags = wheel.read_text("utf-8", "replace")
            tag = re.search(r"^Tag: cp(\d)(\d+)-", tags, re.MULTILINE)
            if tag:
                return int(tag[1]), int(tag[2])
    place = re.search(r"/lib/python(3\.\d+)/site-packages/", str(program))
    return version_of(place[1]) if place else None


def _worker_spec(case: Case, toolchain: Toolchain) -> dict[str, object] | NoAnswer:
    """Return the case as the worker reads it, or why this version cannot compile it.
    The spec contains no path.
    """
    backend, name = case.target.backend, toolchain.revision.name
    if backend not in toolchain.capabilities.backends:
        known = ", ".join(sorted(toolchain.capabilities.backends))
        return NoAnswer(
            Cause.TARGET, f"{name} has no backend {backend} (it has {known})"
        )
    chip = chip_of(backend, case.target.chip or "")
    if chip is None:
        example = "sm_90" if backend == "cuda" else "gfx942"
        return NoAnswer(
            Cause.RECIPE,
            (
                f"{case.target.chip!r} is not a chip of {backend}: write one such as "
                f"{example}"
            ),
        )
    if case.phase is not None and case.phase not in _PHASES[backend]:
        return NoAnswer(
            Cause.FLAG,
            (
                f"{backend} has no phase {case.phase}; it has "
                f"{', '.join(_PHASES[backend])}"
            ),
        )
    kernel = kernel_of(case)
    if kernel is None:
        return NoAnswer(
            Cause.RECIPE, f"the recipe of {case.name} does not describe a kernel"
        )
    return {
        "backend": backend,
        "arch": chip.arch,
        "warp_size": chip.warp_size,
        "shared_limit": chip.shared_limit,
        "kernel": kernel.name,
        "signature": dict(kernel.signature),
        "constexprs": dict(kernel.constexprs),
        "hints": {name: dict(hints) for name, hints in kernel.hints.items()},
        "options": dict(kernel.options),
    }
