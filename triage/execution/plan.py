"""Plan the task of a case on a toolchain: prepare its input, name all that the compile
may read, compile its libraries, compute what its reference expects.

What a compile may read is declared here and nowhere else: `Task` puts it into the seal
of the process and into the key of its result.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.invocation import Invocation
from triage.execution.files import Prepared
from triage.execution.inputs import Inputs, recipe_mistake
from triage.execution.reads import files_in
from triage.execution.references import library_file, reference_results
from triage.execution.run_task import RunTask, plan_run
from triage.execution.task import Task, missing_toolchain, why_unusable
from triage.model.case import Case, RunSpec
from triage.model.content import file_sha256, settled_sha256
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import Failed, NoAnswer, Probe
from triage.model.revision import Toolchain
from triage.processes.containment import COMPILE_PATH
from triage.processes.sealing import Seal, is_sealing
from triage.recipes.run_values import identity_of
from triage.toolchains.contents import file_state

if TYPE_CHECKING:
    from triage.execution.engine import Engine


class Planner:
    """Plans tasks. Safe for several threads."""

    def __init__(self, engine: Engine, *, is_fresh: bool) -> None:
        """Plan with an engine that makes the tasks which other tasks need. `is_fresh`:
        every input is prepared again, once.
        """
        self._engine, self._registry = engine, engine.registry
        self.inputs = Inputs(
            engine.registry, engine.compilers, engine.cache, engine.stop, is_fresh
        )

    def plan(self, case: Case, toolchain: Toolchain) -> Task | Probe:
        """Return the task of a case, or the probe that says why there is nothing to
        compile.
        """
        revision, version = toolchain.revision, toolchain.version
        planned = self._plan(case, toolchain)
        if isinstance(planned, Task):
            return planned
        is_new = case.name in self.inputs.failed_now
        is_cached = isinstance(planned, Failed) and not is_new
        return Probe(case, revision, version, planned, cached=is_cached)

    def _plan(self, case: Case, toolchain: Toolchain) -> Task | NoAnswer | Failed:
        prepared = self.inputs.prepare(case, toolchain)
        if not isinstance(prepared, Prepared):
            return prepared
        compiler = self._engine.compilers[case.compiler]
        if case.script:
            invocation = _script_invocation(case, case.script, toolchain)
        else:
            planned = compiler.invocation(case, toolchain)
            if isinstance(planned, NoAnswer):
                return planned
            invocation = planned
        try:
            reads = _reads(case, invocation, toolchain, prepared)
            state = file_state(reads)
            content = " ".join(map(self._registry.contents.digest, reads))
        except OSError as error:
            return recipe_mistake(f"{error.filename}: {error.strerror}")
        run = None
        if case.run and not case.script:
            run = self._plan_run(case, case.run, toolchain)
        return Task(
            case,
            toolchain,
            compiler,
            prepared,
            invocation,
            reads,
            content,
            state,
            run,
            is_sealing(),
        )

    def input_of(
        self, case: Case, toolchain: Toolchain | None = None
    ) -> Prepared | NoAnswer:
        """Return the file that the compiler reads for a case, or why there is none.
        `toolchain` imports an ONNX model.
        """
        prepared = self.inputs.prepare(case, toolchain)
        if isinstance(prepared, Prepared):
            return prepared
        return why_unusable(prepared)

    def input_hash(self, case: Case, toolchain: Toolchain) -> str:
        """Return a hash of what a case compiles and runs, which an edit of its recipe
        or its files changes and another toolchain does not; empty if it has no input.
        """
        prepared = self.input_of(case, toolchain)
        if isinstance(prepared, NoAnswer):
            return ""
        digest = prepared.digest
        if case.input.imported:  # each toolchain makes it
            digest = settled_sha256(str(case.input.path))
        run = case.run
        settings = (case.target, case.flags, case.phase, case.limits, case.env)
        parts: list[object] = [digest, settings, case.spec, case.thresholds]
        if run:
            parts += [run.function, run.device, run.flags, run.reference, run.limits]
            parts += [run.tolerances, run.closeness]
            with suppress(OSError):  # they are downloaded later
                parts += map(identity_of, (*run.inputs, *run.expected))
        if case.script:
            parts.append(file_sha256(case.script))
        # a checkout may lie elsewhere on another machine
        text = repr(parts).replace(str(case.source.parent), "")
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _plan_run(
        self, case: Case, spec: RunSpec, toolchain: Toolchain
    ) -> RunTask | NoAnswer | Failed:
        """Return the run of a case with all its files, or why it cannot be run."""
        try:
            spec = spec.with_arguments()
        except ValueError as error:
            return recipe_mistake(str(error))
        if spec is not case.run:
            case = replace(case, run=spec)
        missing = self.inputs.obtain(spec.artifacts)
        if missing:
            return missing
        libraries = []
        for library in spec.libraries:
            compiled = library_file(self._engine, case, library, toolchain)
            if not isinstance(compiled, Path):
                return compiled
            libraries.append(compiled)
        if spec.reference:
            expected = reference_results(self._engine, case, toolchain, spec.reference)
            if isinstance(expected, NoAnswer):
                return expected
            case = replace(case, run=replace(spec, expected=expected))
        compiler = self._engine.compilers[case.compiler]
        try:
            return plan_run(case, toolchain, compiler, self._registry, libraries)
        except EnvironmentFailure as error:
            return missing_toolchain(error)


def _reads(
    case: Case, invocation: Invocation, toolchain: Toolchain, prepared: Prepared
) -> tuple[Path, ...]:
    """Return what a compile may read besides its toolchain and its input. Raises
    OSError if a file that the recipe names is missing.
    """
    for path in case.reads:
        path.stat()
    named = files_in((*invocation.options, *(invocation.placeholders or {}).values()))
    usual = Seal(toolchain.reads)
    unusual = (path for path in named if not usual.may_read(path))
    return tuple(dict.fromkeys((*case.reads, *unusual, *prepared.mentioned)))


def _script_invocation(case: Case, script: Path, toolchain: Toolchain) -> Invocation:
    """Return the command line of the user's test of a toolchain."""
    words = ["{script}"]
    if case.input.path != script:
        words += ["{input}", "{output}"]
    # scripts that a package installs in `bin` may need their own interpreter
    folders = (toolchain.program.parent, toolchain.root / "bin")
    path = dict.fromkeys([*map(str, folders), COMPILE_PATH])
    env = {"PATH": os.pathsep.join(path), "TRIAGE_TOOLCHAIN": str(toolchain.root)}
    return Invocation(tuple(words), env=env, placeholders={"script": str(script)})
