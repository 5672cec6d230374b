"""Plan the task of a case on a toolchain: make its input, name all that the compile may
read, compile its libraries, compute what its reference expects.

What a compile may read is declared here and nowhere else: `Task` puts it into the seal
of the process and into the key of its result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from triage.compilers.invocation import Invocation, Runner
from triage.execution.compare import first_wrong_result
from triage.execution.inputs import Inputs, named_toolchain
from triage.execution.judge import (
    NoTask,
    missing_toolchain,
    recipe_mistake,
    recipe_mistakes,
    why_unusable,
)
from triage.execution.reads import files_in, surroundings
from triage.execution.task import AnyOf, PassNaming, Prepared, RunTask, Task
from triage.model.case import Case, Flag, Library, Reference, RunSpec
from triage.model.content import cached_sha256, file_sha256
from triage.model.errors import EnvironmentFailure
from triage.model.execution import Execution
from triage.model.outcome import Cause, Failed, NoAnswer, Passed, Probe
from triage.model.revision import Toolchain
from triage.processes.containment import COMPILE_PATH, assignments
from triage.processes.process import StopSignal
from triage.processes.sealing import Seal
from triage.recipes.run_values import (
    file_value,
    read_value,
    split_value,
    type_name,
    value_suffix,
    with_file_digest,
)
from triage.toolchains.contents import state_digest
from triage.toolchains.home import KeptKind

if TYPE_CHECKING:
    from triage.execution.engine import Engine

UNWRITTEN = (85, 170)  # bytes that glibc fills new memory with


def plan_task(
    engine: Engine, case: Case, toolchain: Toolchain, *, fresh: bool = False
) -> Task:
    """Return the task of a case. Raises NoTask if there is nothing to compile. fresh:
    repeat an import that failed.
    """
    prepared = engine.inputs.prepare(case, toolchain, fresh=fresh)
    compiler = engine.compilers[case.compiler]
    if case.script:
        invocation = _script_invocation(case, case.script, toolchain)
    else:
        missing = missing_backend(case, toolchain)
        planned = missing or compiler.invocation(case, toolchain)
        if isinstance(planned, NoAnswer):
            raise NoTask(planned)
        invocation = planned
    with recipe_mistakes():
        reads = _readable_files(case, invocation, toolchain, prepared)
        state = state_digest(reads)
        content = " ".join(map(engine.registry.contents.digest, reads))
    run: RunTask | NoAnswer | Failed | None = None
    if case.run and not case.script:
        try:
            run = _plan_run(engine, case, case.run, toolchain)
        except NoTask as error:
            run = error.outcome
    return Task(
        case, toolchain, compiler, prepared, invocation, reads, content, state, run
    )


def missing_backend(case: Case, toolchain: Toolchain) -> NoAnswer | None:
    """Return the answer for a backend that a version lacks, if it lists any."""
    backend = case.target.backend
    backends = toolchain.capabilities.backends
    if not backends or backend in backends:
        return None
    has = f"no backend {backend} (it has {', '.join(sorted(backends))})"
    return NoAnswer(Cause.TARGET, f"{toolchain.revision.name} has {has}")


def last_execution(
    engine: Engine, case: Case, toolchain: Toolchain
) -> tuple[Task, Execution] | None:
    """Return the task of a case, and the recorded execution of the last stage that
    it reached; None if there is no record.
    """
    try:
        task = plan_task(engine, case, toolchain)
    except NoTask:
        return None
    execution, *ran = engine.cache.find_all(*task.keys)
    if execution and execution.ok and ran:
        execution = ran[0] or execution
    if execution:
        return (task, execution)
    return None


def input_hash(inputs: Inputs, case: Case, toolchain: Toolchain) -> str:
    """Return a hash of what a case compiles and runs, which an edit of its recipe
    or its files changes and another toolchain does not; empty if it has no input.
    """
    prepared = inputs.input_of(case, toolchain)
    if isinstance(prepared, NoAnswer):
        return ""
    digest = prepared.digest
    run = case.run
    if case.input.imported:  # each toolchain makes it
        digest = cached_sha256(str(case.input.path))
    settings = (case.target, case.flags, case.phase, case.limits, case.env)
    parts: list[object] = [digest, settings, case.spec, case.thresholds]
    if run:
        parts += [run.function, run.device, run.flags, run.reference, run.limits]
        parts += [run.tolerances, run.closeness]
        with suppress(OSError):  # they are downloaded later
            parts += map(with_file_digest, (*run.inputs, *run.expected))
    if case.script:
        parts.append(file_sha256(case.script))
    # a checkout may lie elsewhere on another machine
    text = repr(parts).replace(str(case.source.parent), "")
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _readable_files(
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
    return Invocation(
        tuple(words),
        env=env,
        placeholders={"script": str(script)},
        writes_output=False,  # its exit status alone says how it ends
    )


def _plan_run(
    engine: Engine, case: Case, spec: RunSpec, toolchain: Toolchain
) -> RunTask:
    """Return the run of a case with all its files. Raises NoTask if it cannot be
    run.
    """
    compiler = engine.compilers[case.compiler]
    registry = engine.registry
    runner = compiler.run
    if runner is None or (spec.measured and not runner.measures):
        problem = f"programs of {case.compiler} cannot be run or measured here"
        raise NoTask(NoAnswer(Cause.TOOLCHAIN, problem))
    with recipe_mistakes():
        spec = spec.with_arguments()
    engine.inputs.obtain(spec.artifacts)
    libraries = [
        _library_file(engine, case, library, toolchain) for library in spec.libraries
    ]
    if spec.reference:
        expected = reference_results(engine, case, toolchain, spec.reference)
        spec = replace(spec, expected=expected)
    try:
        root = registry.runtime(toolchain, runner.distribution)
    except EnvironmentFailure as error:
        raise NoTask(missing_toolchain(error)) from error
    places = (root, toolchain.program.parent)
    tools = (runner.program(folder, measured=spec.measured) for folder in places)
    tool = next(filter(None, tools), None)
    if tool is None:
        problem = (
            f"{toolchain.revision.name} has no programs of {runner.distribution} next "
            "to its compiler: build or install them there"
        )
        raise NoTask(NoAnswer(Cause.TOOLCHAIN, problem))
    readable = partial(_readable_value, engine, runner)
    with recipe_mistakes():
        inputs = map(readable, spec.inputs)
        wanted = map(readable, spec.expected)
        spec = replace(spec, inputs=tuple(inputs), expected=tuple(wanted))
        reads = (root, *toolchain.reads)
        # a relative one would be looked for where the program runs
        task = RunTask(case, spec, runner, tool.absolute(), reads, tuple(libraries))
        identity = _content_key(task, toolchain, registry.contents.digest)
        return replace(task, identity=identity)


def _content_key(
    task: RunTask, toolchain: Toolchain, digest: Callable[[Path], str]
) -> str:
    """Return the content key of a run. The key of the compile names the toolchain."""
    spec = task.spec
    runtime = task.reads[0]
    content = [cached_sha256(str(task.tool))]
    if runtime != toolchain.root:
        content.append(digest(runtime))
    if spec.parameters:
        content += [f"{scope}={digest(path)}" for scope, path in spec.parameters]
        spec = replace(spec, parameters=())
    parts = [
        *content,
        *surroundings((), uses_processor=True),
        *assignments(task.runner.surroundings(task.case, spec).variables),
        *task.runner.options(task.case, spec),
        *(path.name for path in task.libraries),
        f"{spec.closeness} {spec.tolerances}",
        str(spec.limits),
        *map(with_file_digest, spec.inputs),
        "compared with",
        *map(with_file_digest, spec.expected),
    ]
    return sha256("\0".join(parts).encode()).hexdigest()


def _readable_value(engine: Engine, runner: Runner, text: str) -> str:
    """Return a value as the runtime's program reads it: that of another form is written
    as raw bytes, once for each content.

    Raises OSError or ValueError if it cannot be read.
    """
    value = split_value(text)
    if not value.is_tensor_proto and runner.can_read(value):
        return text

    def write(scratch: Path) -> Path:
        array = read_value(text)
        if array is None:
            raise ValueError(f"the value {text} cannot be read")
        target = scratch / "value"
        target.mkdir()
        file = target / f"0{value_suffix(type_name(array))}"
        file.write_bytes(array.tobytes())
        return target

    key = sha256(with_file_digest(text).encode()).hexdigest()
    folder = engine.registry.home.folder(KeptKind.VALUES)
    [file] = engine.inputs.kept_files.get(folder / key, write).path.iterdir()
    return file_value(file)


# What the run of a case needs of other compiles


def _library_file(
    engine: Engine, case: Case, library: Library, toolchain: Toolchain
) -> Path:
    """Return the compiled file of a library, compiled once for each content. Raises
    NoTask if there is none.
    """
    plain = replace(
        case,
        input=library.input,
        flags=library.flags,
        artifacts=library.artifacts,
        run=None,
        thresholds=(),
        benchmarks=(),
    )
    task = plan_task(engine, plain, toolchain)

    def make(scratch: Path) -> Path:
        target = scratch / "module"
        outcome = engine.probe_for_files(
            task, engine.stop, lambda output: output.replace(target)
        ).outcome
        if not isinstance(outcome, Passed):
            raise NoTask(outcome)
        return target

    folder = engine.registry.home.folder(KeptKind.MODULES)
    return engine.inputs.kept_files.get(folder / f"{task.keys[0]}.module", make).path


def reference_results(
    engine: Engine,
    case: Case,
    toolchain: Toolchain,
    reference: Reference,
    folder: Path | None = None,
    on_compile: Callable[[Probe], None] = lambda _: None,
    cancelled: StopSignal | None = None,
) -> tuple[str, ...]:
    """Return the results of a reference, computed once for each content. Raises NoTask
    if there are none.

    `folder` keeps the results instead of TRIAGE_HOME. Results that depend on memory
    that was never written to do not count then. `on_compile` receives the compile that
    was needed; `cancelled` ends it early, with Interrupted.
    """
    task = reference_task(engine, case, toolchain, reference)
    stop = AnyOf(engine.stop, cancelled)

    def compute(scratch: Path) -> Path:
        """Compile and run; return a folder with the results, empty if none counts."""
        results = scratch / "results"
        results.mkdir()
        run_task = replace(task.runnable(), results=results)

        def check(module: Path) -> None:
            files = _files_of_results(results)
            if folder and not _ignores_unwritten_memory(run_task, module, files, stop):
                for file in files:
                    file.unlink()

        probe = engine.probe_for_files(replace(task, run=run_task), stop, check)
        if not probe.cached:
            on_compile(probe)
        if isinstance(probe.outcome, Passed):
            return results
        why = why_unusable(probe.outcome).reason
        raise recipe_mistake(f"the reference on {task.toolchain.revision.name}: {why}")

    kept = folder or engine.registry.home.folder(KeptKind.RESULTS)
    results = engine.inputs.kept_files.get(kept / task.keys[1], compute)
    files = _files_of_results(results.path)
    if not files:
        problem = "returns nothing, or reads memory that was never written to"
        raise recipe_mistake(f"the reference {problem}")
    return tuple(map(file_value, files))


def _files_of_results(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=lambda file: int(file.name.split(".")[0]))


def reference_task(
    engine: Engine, case: Case, toolchain: Toolchain, reference: Reference
) -> Task:
    """Return the task that computes the results of a reference. Raises NoTask if it
    cannot be run.
    """
    assert case.run is not None
    flags = case.flags
    if reference.flags is not None:
        flags = tuple(map(Flag, reference.flags))
    spec = replace(case.run, reference=None, expected=())
    plain = replace(case, flags=flags, thresholds=(), run=spec)
    if reference.toolchain is not None:
        toolchain = named_toolchain(
            engine.registry, reference.toolchain, case, "of the reference"
        )
    try:
        task = plan_task(engine, plain, toolchain)
        task.runnable()
    except NoTask as error:
        problem = f"the reference cannot be run: {error.why.reason}"
        raise recipe_mistake(problem) from error
    return replace(task, variant="reference", naming=PassNaming.NEVER)


def _ignores_unwritten_memory(
    run_task: RunTask, module: Path, files: Sequence[Path], stop: StopSignal
) -> bool:
    """Return whether results stay the same when memory that was not written to has
    another content.
    """
    results = list(map(file_value, files))
    again = [module.parent / f"again-{file.name}" for file in files]
    for pattern in UNWRITTEN:
        ran = run_task.start(module, stop, results=again, MALLOC_PERTURB_=str(pattern))
        if not ran.ok:
            return False
        if first_wrong_result(list(map(file_value, again)), results, run_task.spec)[0]:
            return False
    return True
