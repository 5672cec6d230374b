"""Translate a case into the flags of one version of `iree-compile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.base import Compiler, Description, Importer, IssueForm, Part
from triage.compilers.invocation import Invocation, RunFacts, flag_name
from triage.compilers.iree import installation
from triage.compilers.iree.devices import target_flags
from triage.compilers.iree.recipe import IREE
from triage.compilers.repro_script import ReproScript
from triage.execution.crash_stack import PRINT_ADDRESSES
from triage.model.case import Case
from triage.model.execution import Execution
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Toolchain
from triage.recipes.expectations import flag_applies
from triage.recipes.values import yaml_text

if TYPE_CHECKING:  # a compile needs none of them, and they parse MLIR and YAML
    from triage.compilers.analysis import Ir, Linter, RemedyHints
    from triage.compilers.parts import RecipeFromInput, Runner, Suites

# Without it an error is followed by the whole operation: hundreds of MB for a large model, and nothing that identifies it.
_QUIET = "--mlir-print-op-on-diagnostic=false"


class IreeScript(ReproScript):
    """Repeats a compile with `iree-compile`, and runs the program."""

    module = "module.vmfb"

    def recipe_keys(self, case: Case) -> tuple[str, ...]:
        if (run := case.run) is None:
            return super().recipe_keys(case)
        keys: dict[str, object] = {"inputs": run.inputs, "expected": run.expected}
        keys |= {"function": run.function, "device": run.device, "flags": run.flags, "tolerance": dict(run.tolerances)}
        keys["limits"] = {"timeout": run.limits.timeout_text}
        return (*super().recipe_keys(case), "run:", *(f"  {name}: {yaml_text(value)}" for name, value in keys.items() if value))


class Iree(Compiler):
    """The IREE family."""

    name = "iree"
    distribution = "iree-base-compiler"
    recipe = IREE
    title = "IREE"
    issue_form = IssueForm(
        steps="Steps to reproduce your issue",
        component=("What component(s) does this issue relate to?", "Compiler"),
        version="Version information",
        repository="https://github.com/iree-org/iree",
        tag="iree-{}",
    )
    onnx_importer = Importer(
        "iree.compiler.tools.import_onnx",
        ("iree-base-compiler", "onnx"),
        ("iree/compiler/tools/import_onnx/*.py", "iree/compiler/extras/onnx_importer.py"),
    )
    ir: Part[Ir] = Part("triage.compilers.iree.passes:IreeIr")
    run: Part[Runner] = Part("triage.compilers.iree.runner:IreeRunner")
    lint: Part[Linter] = Part("triage.compilers.iree.lint:IreeLinter")
    remedies: Part[RemedyHints] = Part("triage.compilers.iree.remedies:remedy_hints")
    recipe_from_input: Part[RecipeFromInput] = Part("triage.compilers.iree.command_line:IreeRecipes")
    suites: Part[Suites] = Part("triage.compilers.iree.suite:IreeSuites")
    script = IreeScript()
    folders = "an unpacked wheel, a virtual environment, a build tree (tools/) or an install (bin/) holds `iree-compile`"

    def locate(self, root: Path) -> Path | None:
        return installation.locate(root)

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        return installation.identity_files(program)

    def describe(self, program: Path) -> Description:
        return installation.describe(program)

    def invocation(self, case: Case, toolchain: Toolchain) -> Invocation | Untestable:
        known = toolchain.capabilities
        if case.target.backend not in known.backends:
            return Untestable(
                Cause.TARGET,
                f"{toolchain.revision.name} has no backend {case.target.backend} (it has {', '.join(sorted(known.backends))})",
            )
        if case.phase is not None and case.phase not in known.phases:
            return Untestable(Cause.FLAG, f"{toolchain.revision.name} has no phase {case.phase}")
        flags = [flag.text for flag in case.flags if flag_applies(flag, toolchain.version)]
        names = {flag_name(flag) for flag in flags}
        target = target_flags(case.target, known.flags, flags)
        if isinstance(target, Untestable):
            return target
        phase = [f"--compile-to={case.phase}"] if case.phase else []
        printing = () if flag_name(_QUIET) in names else (_QUIET,)
        return Invocation((*target, *phase, *flags), printing, PRINT_ADDRESSES)

    def run_facts(self, execution: Execution) -> RunFacts:
        return RunFacts()  # failures name the phase; nothing else is printed
