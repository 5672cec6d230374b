"""Find Triton below a folder, read what its package reports about itself, and translate
a case; a worker compiles it.
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
    Packaging,
    Wheel,
    kernel_of,
    pep440,
)
from triage.compilers.interpreters import interpreter, version_of
from triage.compilers.invocation import Invocation
from triage.compilers.triton.standalone import TritonScript, chip_of
from triage.model.case import Case, InputKind
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Capabilities, Toolchain
from triage.processes.crash_stack import stack_printer
from triage.recipes.family import RecipeFamily

if TYPE_CHECKING:
    from triage.compilers.triton.kernel_recipe import TritonRecipes
    from triage.compilers.triton.recipe_format import TritonFormat

_WORKER = Path(__file__).parent / "worker"
_FIRST = Version("2.1")
_PHASES = {
    "cuda": ("ttir", "ttgir", "llir", "ptx", "cubin"),
    "hip": ("ttir", "ttgir", "llir", "amdgcn", "hsaco"),
}
# Those that 3.1.0 to 3.9.0 compile a small kernel for.
_HIP_CHIPS = (
    *(
        "gfx906",
        "gfx908",
        "gfx90a",
        "gfx940",
        "gfx941",
        "gfx942",
        "gfx950",
        "gfx1010",
        "gfx1011",
        "gfx1012",
        "gfx1013",
    ),
    *(
        "gfx1030",
        "gfx1031",
        "gfx1032",
        "gfx1033",
        "gfx1034",
        "gfx1035",
        "gfx1036",
        "gfx1100",
        "gfx1101",
        "gfx1102",
    ),
    *(
        "gfx1103",
        "gfx1150",
        "gfx1151",
        "gfx1152",
        "gfx1153",
        "gfx1200",
        "gfx1201",
        "gfx1250",
    ),
)
_CUDA_CHIPS = (
    *(
        "sm_50",
        "sm_52",
        "sm_53",
        "sm_60",
        "sm_61",
        "sm_62",
        "sm_70",
        "sm_72",
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_87",
        "sm_88",
    ),
    *("sm_89", "sm_90", "sm_100", "sm_101", "sm_103", "sm_110", "sm_120", "sm_121"),
)
_LIBRARY = "triton/_C/libtriton*.so"
_PLACES = (_LIBRARY, f"lib/python3*/site-packages/{_LIBRARY}", f"python/{_LIBRARY}")
# The Python part compiles as much as the library does; assemblers and device libraries
# come with it.
_PARTS = ("**/*.py", "**/bin/ptxas*", "**/*.bc")
_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)
_COMMIT = re.compile(r"\+git([0-9a-f]{7,40})")


def _keys() -> type[TritonFormat]:
    from triage.compilers.triton.recipe_format import TritonFormat

    return TritonFormat


class Triton(Compiler):
    """The Triton family."""

    name = "triton"
    distribution = "triton"
    packaging: Packaging = Wheel(interpreted=True)
    recipe = RecipeFamily(
        name="triton",
        backends=("cuda", "hip"),
        aliases={"amd": "hip", "nvidia": "cuda", "rocm": "hip"},
        chips={"hip": _HIP_CHIPS, "cuda": _CUDA_CHIPS},
        phases=("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco"),
        # A kernel file is compiled, not run as a generator. IR compiles with the
        # release that wrote it, and often with its neighbours.
        inputs=dict.fromkeys((".py", ".ttir", ".ttgir"), InputKind.OTHER),
        sections=("kernel", "signature", "constexprs", "hints", "options"),
        flags=False,
        axis=("num_warps", "4, 8"),
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
        """`libtriton.so` of an unpacked wheel, a virtual environment, a source tree
        built in place, or the library itself.
        """
        if root.is_file():
            if root.match("libtriton*.so"):
                return root.absolute()
            return None
        return next(
            (
                path.absolute()
                for pattern in _PLACES
                for path in sorted(root.glob(pattern))
            ),
            None,
        )

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        parts = (
            path
            for pattern in _PARTS
            for path in program.parents[1].glob(pattern)
            if path.is_file()
        )
        # The worker is part of the compiler: results of another worker must not be
        # reused.
        return (program, *sorted(parts), *sorted(_WORKER.glob("*.py")))

    def describe(self, program: Path) -> Description:
        package = program.parents[1]
        if not (package / "compiler").exists():
            raise EnvironmentFailure(f"{program} has no Triton compiler next to it")
        source = package / "__init__.py"
        if source.is_file():
            found = _VERSION.search(source.read_text("utf-8", "replace"))
        else:
            found = None
        # The metadata of a nightly's wheel contains the commit, its source does not.
        named = [
            folder.name.removesuffix(".dist-info") for folder in _metadata(program)
        ]
        if named:
            version = named[0].split("-")[1]
        elif found:
            version = found[1]
        else:
            version = None
        commit = _COMMIT.search(" ".join(named))
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
        python, spec = _python(toolchain), _spec(case, toolchain)
        if isinstance(python, NoAnswer):
            return python
        if isinstance(spec, NoAnswer):
            return spec
        options = (
            "--spec",
            json.dumps(spec, sort_keys=True),
            *(("--phase", case.phase) if case.phase else ()),
        )
        # The user's site-packages and variables must not decide what is imported.
        launcher = (str(python), "-I", "-S", str(_WORKER))
        # The worker removes Triton's own variables, except those that the recipe names.
        env = {
            "TRIAGE_TRITON": str(toolchain.program.parents[2]),
            "TRIAGE_PACKAGING": str(Path(packaging.__file__).parents[1]),
            "TRIAGE_KEEP": " ".join(name for name, _ in case.env),
        }
        printer = toolchain.capabilities.stack_printer
        if printer is not None:
            env["TRIAGE_STACK_PRINTER"] = f"{printer}:{toolchain.program}"
        return Invocation(options, env=env, launcher=launcher)


def _metadata(program: Path) -> Iterator[Path]:
    for path in sorted(program.parents[2].glob("*triton*.dist-info")):
        if re.match(r"(?:pytorch_)?triton(?:_nightly)?-", path.name):
            yield path


def _python(toolchain: Toolchain) -> Path | NoAnswer:
    """Return the interpreter for the Python version of the wheel."""
    wanted = None
    for folder in _metadata(toolchain.program):
        if (folder / "WHEEL").is_file():
            tags = (folder / "WHEEL").read_text("utf-8", "replace")
        else:
            tags = ""
        match = re.search(r"^Tag: cp(\d)(\d+)-", tags, re.MULTILINE)
        if match:
            wanted = int(match[1]), int(match[2])
    if wanted is None:
        match = re.search(r"/lib/python(3\.\d+)/site-packages/", str(toolchain.program))
        if match:
            wanted = version_of(match[1])
    if wanted is None:
        return NoAnswer(
            Cause.TOOLCHAIN,
            f"nothing in {toolchain.root} names the Python version of its Triton",
        )
    text = (
        f"{toolchain.revision.name} needs Python {wanted[0]}.{wanted[1]}, and none is "
        "installed here"
    )
    return interpreter(wanted) or NoAnswer(Cause.TOOLCHAIN, text)


def _spec(case: Case, toolchain: Toolchain) -> dict[str, object] | NoAnswer:
    """Return the case as the worker reads it; it contains no path."""
    backend, name = case.target.backend, toolchain.revision.name
    if backend not in toolchain.capabilities.backends:
        known = ", ".join(sorted(toolchain.capabilities.backends))
        return NoAnswer(
            Cause.TARGET, f"{name} has no backend {backend} (it has {known})"
        )
    chip = chip_of(backend, case.target.chip or "")
    if chip is None:
        if backend == "cuda":
            example = "sm_90"
        else:
            example = "gfx942"
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
