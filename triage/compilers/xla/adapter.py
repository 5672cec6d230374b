"""XLA: find a jaxlib in a virtual environment, read its version and options, and make
the command line of a case: a worker in that environment compiles. Recipes have keys of
their own and are made from scripts and HLO; a reproducer has a script of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from triage.compilers.base import (
    SCRIPT_WORKER,
    VERSION,
    Compiler,
    Description,
    Environment,
    Needs,
    Packaging,
    environment_needs,
    script_options,
)
from triage.compilers.invocation import (
    Invocation,
    IrPrinter,
    MlirTools,
    WorkerRunner,
    ask_compiler,
    first_file,
)
from triage.compilers.pasted_text import (
    PastedProgram,
    RecipeRequest,
    RecipeStarter,
    blocks_in,
    mlir_in,
    python_in,
)
from triage.compilers.repro_script import (
    StandaloneCall,
    StandaloneCompile,
    comparison_code,
    python_array,
    script_call,
)
from triage.model.case import Case, InputKind, Target
from triage.model.revision import Capabilities, Toolchain
from triage.processes.sealing import Seal
from triage.recipes import run_values
from triage.recipes.expectations import applied_flags
from triage.recipes.recipe import RecipeFamily, RecipeStart
from triage.recipes.run_keys import RunnableRecipe

_DISABLE = "xla_disable_hlo_passes"
_WORKER = Path(__file__).with_name("worker.py")
_FILES = (
    _WORKER,
    _WORKER.with_name("hlo_text.py"),
    SCRIPT_WORKER,
    Path(run_values.__file__),
)
"""The worker, and what it runs."""
_ISOLATED_WORKER = ("-I", str(_WORKER))  # -I hides the user's own modules
_PACKAGE = "lib/python3*/site-packages/jaxlib"
_INPUTS = {
    ".mlir": InputKind.MLIR,
    ".mlirbc": InputKind.BYTECODE,
    ".py": InputKind.GENERATOR,
    ".hlo": InputKind.OTHER,
    ".txt": InputKind.OTHER,
}

# A reproducer's script, its part that converts HLO, and the part that runs.
_START = '''"""Compile {source} with jaxlib, and run it if the failure needs that."""

import os
from math import inf, nan
from pathlib import Path

os.environ["XLA_FLAGS"] = {flags}

import jax
import ml_dtypes
import numpy as np
from jaxlib import xla_client as xla

jax.config.update("jax_enable_x64", True)
client, program = jax.devices("cpu")[0].client, Path("{source}").read_bytes()
{convert}if hasattr(client, "compile_and_load"):  # since 0.6.1
    devices = xla.DeviceList(tuple(client.devices()))
    executable = client.compile_and_load(program, devices, xla.CompileOptions())
else:
    executable = client.compile(program, xla.CompileOptions())
'''
_CONVERT = """\
hlo = xla.hlo if hasattr(xla, "hlo") else xla._xla
proto = hlo.hlo_module_from_text(program.decode()).as_serialized_hlo_module_proto()
if hasattr(xla._xla.mlir, "hlo_to_stablehlo"):
    program = xla._xla.mlir.hlo_to_stablehlo(proto)
else:
    computation = xla.XlaComputation(proto)
    program = xla._xla.mlir.xla_computation_to_mlir_module(computation)
"""
_RUN = """\
arguments = [jax.device_put(each) for each in [{inputs}]]
results = [np.asarray(each) for each in executable.execute(arguments)]
print(*results, sep="\\n")
"""
_TOOL = re.compile(r"\b(?:run_hlo_module|hlo_runner_main|hlo-opt|hlo-translate)\b")
_JAX = re.compile(r"^[ \t]*(?:>>> )?(?:import jax\b|from jax\b)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class XlaRecipe(RunnableRecipe):
    """A program for XLA."""

    def mistakes(self) -> Iterator[tuple[str, str]]:
        yield from super().mistakes()
        if self.phase is not None:
            yield "phase", "XLA compiles in one step; remove `phase`."

    def complete(self, case: Case, folder: Path) -> Case:
        """Return the case with its run. A .py file without arguments runs as it is."""
        case = super().complete(case, folder)
        takes_values = self.run and (self.run.inputs or self.run.function)
        if case.input.kind is not InputKind.GENERATOR or self.args or takes_values:
            return case
        return replace(case, input=replace(case.input, kind=InputKind.OTHER))


class XlaRecipes(RecipeStarter):
    """Makes recipes for HLO, for scripts that use JAX, and for other programs if the
    text names a tool of XLA, or the user the backend `xla`.
    """

    def programs_in(self, text: str) -> Sequence[PastedProgram]:
        """Return the Python programs that import JAX; if there are none, HLO; else MLIR
        in a text that names a tool of XLA.
        """
        scripts = [PastedProgram(code, ".py") for code in python_in(text, _JAX)]
        modules = [
            PastedProgram(block, ".hlo")
            for block in blocks_in(text)
            if block.lstrip().startswith("HloModule")
        ]
        if scripts or modules or not _TOOL.search(text):
            return scripts or modules
        return [PastedProgram(program, ".mlir") for program in mlir_in(text)]

    def from_program(
        self, request: RecipeRequest, path: Path, program: str
    ) -> RecipeStart | None:
        is_free = request.backend in (None, "cpu") and not request.kernel
        is_meant = is_free and (_JAX.search(program) or _TOOL.search(request.text))
        if is_meant or path.suffix == ".hlo" or request.backend == "xla":
            return RecipeStart("xla", path, Target("cpu"))
        return None


class XlaRunner(WorkerRunner):
    """Runs programs with the worker."""

    measures = True

    def persistent_worker(
        self, toolchain: Toolchain, program: Path, invocation: Invocation
    ) -> tuple[str, ...]:
        return (str(program), *_ISOLATED_WORKER, "serve", *invocation.options[1:])


class Xla(Compiler):
    """The XLA family."""

    name = "xla"
    title = "XLA"
    distribution = "jaxlib"
    packaging: Packaging = Environment((f"jax=={VERSION}",))
    recipe = RecipeFamily(
        name="xla",
        nicknames=("jaxlib", "jax"),
        backends=("cpu",),
        aliases=dict.fromkeys(("host", "llvm-cpu", "local"), "cpu"),
        inputs=_INPUTS,
        sections=("run", "bench"),
        keys=XlaRecipe,
    )
    uses_processor = True
    run = XlaRunner(_WORKER, ("--xla_backend_optimization_level=0",))
    passes = IrPrinter(("--passes=all",), ("--passes=failed",))
    folders = "a virtual environment holds the packages `jaxlib` and `jax`"
    generator = ("-I",)

    recipe_starter = XlaRecipes()

    def mlir_tools(self, toolchain: Toolchain) -> MlirTools:
        """Return the tools of IREE, which are installed with this program and read
        StableHLO.
        """
        package = find_spec("iree.compiler")
        assert package  # this program depends on it
        assert package.origin
        optimizer = Path(package.origin).with_name("_mlir_libs") / "iree-opt"
        root = optimizer.parents[3]
        return MlirTools(optimizer, root, "iree.compiler", (root,))

    def locate(self, root: Path) -> Path | None:
        """Return the interpreter of a virtual environment that has a jaxlib."""
        python = first_file(root, ("bin/python",))
        if python and list(python.parents[1].glob(f"{_PACKAGE}/version.py")):
            return python
        return None

    def needs(self, root: Path, program: Path) -> Needs:
        """Return the environment, its interpreter and the worker: results of another
        worker must not be used again.
        """
        return environment_needs(program.parents[1], *_FILES)

    def describe(self, program: Path, seal: Seal) -> Description:
        answer = ask_compiler([str(program), *_ISOLATED_WORKER, "describe"], seal)
        description = json.loads(answer)
        options = dict(description["options"])
        passes = tuple(description["passes"])
        switches = frozenset(name for name, kind in options.items() if kind == "bool")
        choices = {_DISABLE: passes} if _DISABLE in options else {}
        capabilities = Capabilities(
            frozenset({"cpu"}),
            flags=frozenset(options),
            switches=switches,
            choices=choices,
        )
        return Description(description["version"], capabilities, description["commit"])

    def standalone(self, task: StandaloneCompile) -> StandaloneCall:
        """Return a script that compiles with jaxlib, runs and compares."""
        if self.runs_script(task.case):
            return super().standalone(task)
        flags = [word for word in task.options if word.startswith("--xla_")]
        run = task.case.run if task.run else None
        text = _START.format(
            source=task.source,
            convert=_CONVERT if task.source.endswith((".hlo", ".txt")) else "",
            flags=json.dumps(" ".join(flags)),
        )
        if run:
            text += _RUN.format(inputs=", ".join(map(python_array, run.inputs)))
            if run.expected:
                text += comparison_code(run)
        return script_call(task, text, "jax")

    def runs_script(self, case: Case) -> bool:
        source = case.input
        return source.kind is InputKind.OTHER and source.path.suffix == ".py"

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation:
        work: tuple[str, ...] = ("compile",)
        if self.runs_script(case):
            work = script_options(case, "--flags-in=XLA_FLAGS")
        return Invocation(
            (*work, *applied_flags(case, toolchain.version)),
            env={"JAX_PLATFORMS": "cpu"},
            launcher=(str(toolchain.program), *_ISOLATED_WORKER),
        )
