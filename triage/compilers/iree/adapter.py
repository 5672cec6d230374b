"""Translate a case into the flags of one version of `iree-compile`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.base import Compiler, Description, Importer, IssueForm, MlirTools, PastedText
from triage.compilers.invocation import Invocation, RunFacts, flag_name
from triage.compilers.iree import installation
from triage.compilers.iree.devices import target_flags
from triage.compilers.iree.recipe import IREE
from triage.execution.crash_stack import PRINT_ADDRESSES
from triage.model.case import Case, Target
from triage.model.execution import Execution
from triage.model.outcome import Cause, Untestable
from triage.model.revision import Toolchain
from triage.recipes.expectations import flag_applies
from triage.recipes.family import RecipeStart
from triage.recipes.values import yaml_text

if TYPE_CHECKING:  # imported where they are used: a compile needs none of them, and they parse MLIR and YAML
    from triage.compilers.iree.lint import IreeLinter
    from triage.compilers.iree.passes import IreeIr
    from triage.compilers.iree.remedies import IreeRemedyHints
    from triage.compilers.iree.runner import IreeRunner
    from triage.recipes.observed import ObservedCase, UpdatedFile

# Without it an error is followed by the whole operation: hundreds of MB for a large model, and nothing that identifies it.
_QUIET = "--mlir-print-op-on-diagnostic=false"
_ONE_THREAD = "--mlir-disable-threading"
_NAME_PASS = ("--mlir-print-ir-after-failure", _ONE_THREAD, "--mlir-elide-elementsattrs-if-larger=16")


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
    folders = "an unpacked wheel, a virtual environment, a build tree (tools/) or an install (bin/) holds `iree-compile`"

    def locate(self, root: Path) -> Path | None:
        return installation.locate(root)

    def identity_files(self, program: Path) -> tuple[Path, ...]:
        return installation.identity_files(program)

    def describe(self, program: Path) -> Description:
        return installation.describe(program)

    def dialects(self, program: Path) -> frozenset[str]:
        return installation.dialects(program)

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

    def with_pass_reporting(self, invocation: Invocation) -> Invocation:
        return _printing(invocation, _NAME_PASS)

    def on_one_thread(self, invocation: Invocation) -> Invocation:
        return _printing(invocation, (_ONE_THREAD,))

    def run_facts(self, execution: Execution) -> RunFacts:
        return RunFacts()  # failures name the phase; nothing else is printed

    def start_from_command(self, words: Sequence[str], backend: str | None, source: Path | None) -> RecipeStart | None:
        from triage.compilers.iree.command_line import read_command

        return read_command(words, backend, source)

    def read_text(self, text: str) -> PastedText:
        from triage.compilers.pasted_text import read_mlir

        return read_mlir(text)

    def start_from_source(
        self, recipe: Path, source: Path, backend: str | None, chip: str | None, kernel: str | None
    ) -> RecipeStart | None:
        return None if kernel else RecipeStart(self.name, source, Target(backend or "llvm-cpu", chip))

    def suite_cases(self, folder: Path, configs: Sequence[Path], downloads: Path) -> tuple[Case, ...]:
        from triage.compilers.iree.suite import suite_cases

        return suite_cases(folder, configs, downloads)

    def updated_config(
        self, folders: Sequence[Path], config: Path, observed: Sequence[ObservedCase], *, prune: bool
    ) -> UpdatedFile:
        from triage.compilers.iree.suite import updated_config

        return updated_config(folders, config, observed, prune=prune)

    def recipe_keys(self, case: Case) -> tuple[str, ...]:
        run = case.run
        if run is None:
            return super().recipe_keys(case)
        keys: dict[str, object] = {"inputs": run.inputs, "expected": run.expected}
        keys |= {"function": run.function, "device": run.device, "flags": run.flags, "tolerance": dict(run.tolerances)}
        keys["limits"] = {"timeout": run.limits.timeout_text}
        return (*super().recipe_keys(case), "run:", *(f"  {name}: {yaml_text(value)}" for name, value in keys.items() if value))

    def mlir_tools(self, toolchain: Toolchain) -> MlirTools | None:
        optimizer = toolchain.program.with_name("iree-opt")
        if not optimizer.is_file():  # a build tree may hold the compiler alone
            return None
        return MlirTools(optimizer, installation.python_root(toolchain.program), "iree.compiler")

    def ir(self) -> IreeIr:
        from triage.compilers.iree.passes import IreeIr

        return IreeIr()

    def linter(self) -> IreeLinter:
        from triage.compilers.iree.lint import IreeLinter

        return IreeLinter()

    def remedy_hints(self) -> IreeRemedyHints:
        from triage.compilers.iree.remedies import IreeRemedyHints

        return IreeRemedyHints()

    def runner(self) -> IreeRunner:
        from triage.compilers.iree.runner import IreeRunner

        return IreeRunner()


def _printing(invocation: Invocation, extra: Sequence[str]) -> Invocation:
    """Return the same compile with the options that the recipe does not set."""
    names = {flag_name(option) for option in invocation.options}
    return replace(invocation, printing=(*invocation.printing, *(option for option in extra if flag_name(option) not in names)))
