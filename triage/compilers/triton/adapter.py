"""Translate a case for one version of Triton; a worker compiles it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import packaging
from packaging.version import Version

from triage.compilers.base import (
    Compiler,
    Description,
    KernelSpec,
    Packaging,
    Part,
    Wheel,
)
from triage.compilers.interpreters import interpreter
from triage.compilers.invocation import Invocation
from triage.compilers.triton import layout
from triage.compilers.triton.chips import chip_of
from triage.compilers.triton.standalone import TritonScript
from triage.execution.crash_stack import stack_printer
from triage.model.case import Case, InputKind
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Capabilities, Toolchain
from triage.recipes.family import RecipeFamily

if TYPE_CHECKING:
    from triage.compilers.parts import RecipeFromInput

_WORKER = Path(__file__).parent / "worker"
_FIRST = Version("2.1")
_PHASES = {"cuda": ("ttir", "ttgir", "llir", "ptx", "cubin"), "hip": ("ttir", "ttgir", "llir", "amdgcn", "hsaco")}


class Triton(Compiler):
    """The Triton family."""

    name = "triton"
    distribution = "triton"
    packaging: Packaging = Wheel(interpreted=True)
    recipe = RecipeFamily(
        name="triton",
        backends=("cuda", "hip"),
        aliases={"amd": "hip", "nvidia": "cuda", "rocm": "hip"},
        phases=("ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco"),
        # A kernel file is compiled, not run as a generator. IR compiles with the release that wrote it, and often with its
        # neighbours.
        inputs={".py": InputKind.OTHER, ".ttir": InputKind.OTHER, ".ttgir": InputKind.OTHER},
        sections=("kernel", "signature", "constexprs", "hints", "options"),
        flags=False,
        axis=("num_warps", "4, 8"),
        keys="triage.compilers.triton.recipe_format:TritonFormat",
    )
    noun = "kernel"
    title = "Triton"
    recipe_from_input: Part[RecipeFromInput] = Part("triage.compilers.triton.kernel_recipe:TritonRecipes")
    script = TritonScript()
    folders = "an unpacked wheel, a virtual environment or a tree built in place holds `triton/_C/libtriton.so`"

    def unsupported(self, version: str) -> str | None:
        if Version(version) < _FIRST:
            return f"Triton {version} cannot compile ahead of time; {_FIRST} is the first that can"
        return None

    def locate(self, root: Path) -> Path | None:
        return layout.locate(root)

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        # The worker is part of the compiler: results of another worker must not be reused.
        return (*layout.identity_files(program), *sorted(_WORKER.glob("*.py")))

    def describe(self, program: Path) -> Description:
        if not (program.parents[1] / "compiler").exists():
            raise EnvironmentFailure(f"{program} has no Triton compiler next to it")
        backends = layout.backends(program)
        phases = dict.fromkeys(phase for name in sorted(backends) for phase in _PHASES[name])
        known = Capabilities(backends=backends, phases=tuple(phases), stack_printer=stack_printer(program))
        return Description(layout.version(program), layout.commit(program), None, known)

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        for answer in (python := self._python(toolchain), spec := _spec(case, toolchain)):
            if isinstance(answer, Untestable):
                return answer
        options = ("--spec", json.dumps(spec, sort_keys=True), *(("--phase", case.phase) if case.phase else ()))
        # The user's site-packages and variables must not decide what is imported.
        launcher = (str(python), "-I", "-S", str(_WORKER))
        # The worker removes Triton's own variables, except those that the recipe names.
        env = {
            "TRIAGE_TRITON": str(layout.import_root(toolchain.program)),
            "TRIAGE_PACKAGING": str(Path(packaging.__file__).parents[1]),
            "TRIAGE_KEEP": " ".join(name for name, _ in case.env),
        }
        if (printer := toolchain.capabilities.stack_printer) is not None:
            env["TRIAGE_STACK_PRINTER"] = f"{printer}:{toolchain.program}"
        return Invocation(options, env=env, launcher=launcher)

    def _python(self, toolchain: Toolchain) -> Path | Untestable:
        wanted = layout.python(toolchain.program)
        if wanted is None:
            return Untestable(Cause.TOOLCHAIN, f"nothing in {toolchain.root} names the Python version of its Triton")
        found = interpreter(wanted)
        if found is None:
            text = f"{toolchain.revision.name} needs Python {wanted[0]}.{wanted[1]}, and none is installed here"
            return Untestable(Cause.TOOLCHAIN, text)
        return found


def _spec(case: Case, toolchain: Toolchain) -> dict[str, object] | Untestable:
    """The case as the worker reads it; it contains no path."""
    backend, name = case.target.backend, toolchain.revision.name
    if backend not in toolchain.capabilities.backends:
        known = ", ".join(sorted(toolchain.capabilities.backends))
        return Untestable(Cause.TARGET, f"{name} has no backend {backend} (it has {known})")
    chip = chip_of(backend, case.target.chip or "")
    if chip is None:
        example = "sm_90" if backend == "cuda" else "gfx942"
        return Untestable(Cause.RECIPE, f"{case.target.chip!r} is not a chip of {backend}: write one such as {example}")
    if case.phase is not None and case.phase not in _PHASES[backend]:
        return Untestable(Cause.FLAG, f"{backend} has no phase {case.phase}; it has {', '.join(_PHASES[backend])}")
    if not isinstance(kernel := case.spec, KernelSpec):
        return Untestable(Cause.RECIPE, f"the recipe of {case.name} does not describe a kernel")
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
