"""The run of a compiled case: execute it with the values of its recipe, and measure how
far its results are off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from triage.compilers.base import Compiler
from triage.compilers.parts import Measures, Runner, RunValues, Surroundings
from triage.execution.inputs import KeptFiles, recipe_mistake
from triage.execution.judge import RUN_MS, agreement_of
from triage.execution.reads import files_in, surroundings, what_was_refused
from triage.model.case import Case, RunSpec
from triage.model.content import is_regular, settled_sha256
from triage.model.execution import Captured, Ending, Execution
from triage.model.outcome import Cause, NoAnswer
from triage.model.revision import Toolchain
from triage.processes.containment import settings
from triage.processes.process import StopSignal, run
from triage.processes.sealing import Seal, is_sealing
from triage.recipes.run_values import (
    file_value,
    identity_of,
    read_value,
    split_value,
    type_name,
    value_ending,
)
from triage.toolchains.home import KeptKind
from triage.toolchains.registry import ToolchainRegistry


def checked_run(
    case: Case, start: Callable[[], Execution], is_sure: Callable[[Execution], bool]
) -> tuple[Execution, bool]:
    """Run once, and again if one run does not prove how it ends; return the first run,
    and whether the second one ends otherwise.
    """
    execution = start()
    if is_sure(execution):
        return execution, False
    return execution, agreement_of(case, execution) != agreement_of(case, start())


def sealed_execution(
    case: Case, seal: Seal, start: Callable[[Seal], Execution]
) -> Execution:
    """Start a program under a seal. If it fails because of that, its execution has what
    the seal refused.

    If the output names no path, it is started once more and may read everything. If it
    fails all the same, the seal is not why.
    """
    execution = start(seal)
    if execution.ok or not is_sealing():
        return execution
    refused = what_was_refused(execution, seal)
    if refused is None:
        return execution
    if not refused.startswith("/"):
        free = start(seal.reading_all())
        if agreement_of(case, execution) == agreement_of(case, free):
            return execution
    return replace(execution, refused=refused)


@dataclass(frozen=True, slots=True)
class RunTask:
    """A run that can be made."""

    case: Case
    spec: RunSpec
    runner: Runner
    measures: Measures | None
    tool: Path
    """The executable of the runtime."""
    reads: tuple[Path, ...]
    """The folders of the runtime, its own first."""
    options: tuple[str, ...]
    """Without values."""
    surroundings: Surroundings
    """What the device needs of this machine."""
    libraries: tuple[Path, ...]
    inputs: tuple[str, ...]
    expected: tuple[str, ...]
    identity: str = ""
    """Decides the result, together with the compiled file."""
    results: Path | None = None
    """Folder for the results of a reference, which are compared with nothing."""

    def make(self, module: Path, stop: StopSignal) -> tuple[Execution, bool]:
        """Run a compiled file, and again one that fails. Return the run, with numbers
        on wrong results as its metrics, and whether it is flaky.
        """
        if self.results:
            return self.save_results(module, self.results, stop)[0], False
        start = partial(self._run_and_compare, module, stop)
        execution, is_flaky = checked_run(self.case, start, lambda run: run.ok)
        metrics = {**execution.metrics, "run_seconds": execution.seconds}
        if self.spec.measured and self.measures:
            times = self.measures.seconds(execution.stdout.text)
            if times:
                metrics[RUN_MS] = 1000 * min(times)
        return replace(execution, metrics=metrics), is_flaky

    def save_results(
        self, module: Path, folder: Path, stop: StopSignal
    ) -> tuple[Execution, list[Path]]:
        """Run a compiled file twice, to count its results and to write them to files
        in a folder. Return the last run, and the files; none if a run fails.
        """
        printed = self.start(module, stop)
        if not printed.ok:
            return printed, []
        files = self.runner.result_files(printed.stdout.text, folder)
        saved = self.start(module, stop, files)
        return saved, files if saved.ok else []

    def start(
        self, module: Path, stop: StopSignal, results: Sequence[Path] = (), **env: str
    ) -> Execution:
        """Run a compiled file once, and write its results to files if there are any. It
        may read the runtime, and the files that its command names.
        """
        values = RunValues(self.inputs, results)
        argv = self.runner.argv(self.tool, module, self.options, values, self.libraries)
        if self.spec.measured and self.measures:
            argv += self.measures.report_options
        around = self.surroundings
        named = files_in((*self.options, *self.inputs, *self.expected))
        task_files = (*self.reads, module, *self.libraries)
        reads = (*task_files, *self.case.reads, *named, *around.reads)
        writes = tuple({file.parent for file in results})
        execution = sealed_execution(
            self.case,
            Seal(reads, writes, around.devices),
            lambda seal: run(
                argv,
                self.spec.limits,
                module.parent,
                seal=seal,
                env={**around.variables, **dict(self.case.env), **env},
                stop=stop,
            ),
        )
        if execution.ok and not all(map(is_regular, results)):
            return replace(execution, ending=Ending.NO_OUTPUT)
        return execution

    def compare_results(self, execution: Execution, files: Sequence[Path]) -> Execution:
        """Return a run as it ends when these results are compared with the expected
        ones: unchanged if they are equal, else with numbers on the first wrong result
        as its metrics.
        """
        from triage.execution.compare import first_wrong  # most runs compare nothing

        line, numbers = first_wrong(files, self.expected, self.spec)
        if not line:
            return execution
        printed = Captured(line)
        return replace(execution, exit_code=1, stdout=printed, metrics=numbers)

    def _run_and_compare(self, module: Path, stop: StopSignal) -> Execution:
        """Run a compiled file once, and compare its results with the expected ones."""
        if not self.expected:
            return self.start(module, stop)
        files = [module.parent / f"{index}.npy" for index in range(len(self.expected))]
        execution = self.start(module, stop, files)
        if not execution.ok:
            # It fails, or has more results, or of types that .npy files cannot hold.
            execution, files = self.save_results(module, module.parent, stop)
        return self.compare_results(execution, files) if execution.ok else execution


def plan_run(
    case: Case,
    spec: RunSpec,
    toolchain: Toolchain,
    compiler: Compiler,
    registry: ToolchainRegistry,
    libraries: Sequence[Path],
) -> RunTask | NoAnswer:
    """Return the run of a case that is run on a toolchain, or why there is none.
    `libraries` are compiled files, named for their content.

    Raises EnvironmentFailure if the runtime cannot be obtained.
    """
    runner, measures = compiler.run, compiler.measures
    if runner is None or (spec.measured and measures is None):
        problem = f"programs of {case.compiler} cannot be run or measured here"
        return NoAnswer(Cause.TOOLCHAIN, problem)
    root = registry.runtime(toolchain, runner.distribution)
    places = (root, toolchain.program.parent)
    tools = (runner.program(folder, measured=spec.measured) for folder in places)
    tool = next(filter(None, tools), None)
    if tool is None:
        problem = (
            f"{toolchain.revision.name} has no programs of {runner.distribution} next "
            "to its compiler: build or install them there"
        )
        return NoAnswer(Cause.TOOLCHAIN, problem)
    readable = partial(_readable_value, registry.home.folder(KeptKind.VALUES), runner)
    try:
        task = RunTask(
            case,
            spec,
            runner,
            measures,
            # a relative one would be looked for where the program runs
            tool.absolute(),
            (root, *toolchain.reads),
            tuple(runner.options(case, spec)),
            runner.surroundings(case, spec),
            tuple(libraries),
            tuple(map(readable, spec.inputs)),
            tuple(map(readable, spec.expected)),
        )
        identity = _identity(task, toolchain, registry.contents.digest)
        return replace(task, identity=identity)
    except OSError as error:
        return recipe_mistake(f"{error.filename}: {error.strerror}")
    except ValueError as error:
        return recipe_mistake(str(error))


def _identity(
    task: RunTask, toolchain: Toolchain, digest: Callable[[Path], str]
) -> str:
    """Return the content key of a run. The key of the compile names the toolchain."""
    spec, runtime = task.spec, task.reads[0]
    content = [settled_sha256(str(task.tool))]
    if runtime != toolchain.root:
        content.append(digest(runtime))
    content += [f"{scope}={digest(path)}" for scope, path in spec.parameters]
    parts = [
        *content,
        *surroundings((), uses_processor=True),
        *settings(task.surroundings.variables),
        *task.runner.options(task.case, replace(spec, parameters=())),
        *(path.name for path in task.libraries),
        f"{spec.closeness} {spec.tolerances}",
        str(spec.limits),
        *map(identity_of, task.inputs),
        "compared with",
        *map(identity_of, task.expected),
    ]
    return sha256("\0".join(parts).encode()).hexdigest()


def _readable_value(folder: Path, runner: Runner, text: str) -> str:
    """Return a value as the runtime's program reads it: that of another form is written
    to a folder as raw bytes, once for each content.

    Raises OSError or ValueError if it cannot be read.
    """
    value = split_value(text)
    if not value.is_tensor_proto and runner.reads(value):
        return text

    def write(scratch: Path) -> Path:
        array = read_value(text)
        if array is None:
            raise ValueError(f"the value {text} cannot be read")
        target = scratch / "value"
        target.mkdir()
        file = target / f"0{value_ending(type_name(array))}"
        file.write_bytes(array.tobytes())
        return target

    key = sha256(identity_of(text).encode()).hexdigest()
    [file] = KeptFiles().get(folder / key, write).path.iterdir()
    return file_value(file)
