"""Find ONNX Runtime in a virtual environment, and translate cases; a worker in that
environment compiles and runs.
"""

from __future__ import annotations

from pathlib import Path

from triage.compilers.base import (
    Compiler,
    Description,
    Environment,
    Needs,
    environment_needs,
)
from triage.compilers.invocation import Invocation, ask_compiler, first_file, flag_name
from triage.compilers.invocation import WorkerRunner
from triage.model.case import Case, InputKind
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Capabilities, Toolchain
from triage.processes.sealing import Seal
from triage.recipes.expectations import applied_flags
from triage.recipes.recipe import RecipeFamily
from triage.recipes.run_keys import RunnableRecipe

WORKER = Path(__file__).with_name("worker.py")
_ISOLATED = ("-I", str(WORKER))  # the user's own modules are not seen
_PACKAGE = "lib/python3*/site-packages/onnxruntime"
_FLAGS = frozenset({"optimize", "disable"})


class OnnxRuntime(Compiler):
    """The ONNX Runtime family."""

    name = "onnxruntime"
    title = "ONNX Runtime"
    noun = "model"
    distribution = "onnxruntime"
    packaging = Environment(("numpy<2",))
    folders = "a virtual environment holds the package `onnxruntime`"
    recipe = RecipeFamily(
        name="onnxruntime",
        backends=("cpu",),
        inputs={".onnx": InputKind.ONNX},
        sections=("run",),
        keys=RunnableRecipe,
    )
    run = WorkerRunner(WORKER, ("--optimize=DISABLE_ALL",))

    def locate(self, root: Path) -> Path | None:
        python = first_file(root, ("bin/python",))
        if python and list(python.parents[1].glob(_PACKAGE)):
            return python
        return None

    def needs(self, root: Path, program: Path) -> Needs:
        """Results of another worker must not be used again."""
        return environment_needs(program.parents[1], WORKER)

    def describe(self, program: Path, seal: Seal) -> Description:
        answer = ask_compiler([str(program), *_ISOLATED, "describe"], seal)
        version = answer.strip()
        known = Capabilities(frozenset({"cpu"}), flags=_FLAGS)
        return Description(version, known)

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | NoAnswer:
        version, python = toolchain.version, str(toolchain.program)
        flags = applied_flags(case, version)
        unknown = [flag for flag in flags if flag_name(flag) not in _FLAGS]
        if unknown:
            return NoAnswer(Cause.FLAG, f"there is no flag {unknown[0]}")
        return Invocation(("compile", *flags), launcher=(python, *_ISOLATED))
