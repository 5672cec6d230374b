"""A task: one compile of a case on a toolchain, and the run of what it writes, as data
with a content key.

Everything that this program compiles is a task: a probe, a trial of a reduction, a
reference, a library, resource metrics. They differ in their key only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path

from triage.compilers.base import Compiler
from triage.compilers.invocation import (
    REPORT_OPTION,
    Invocation,
    Runner,
    measured_seconds,
    reported_facts,
)
from triage.execution.cache import Record
from triage.execution.judge import (
    DISPATCHES,
    RUN_MS,
    NoTask,
    comparable_ending,
    judge,
    judge_run,
    judge_thresholds,
    reason_script_skips,
    rules_of,
    why_unusable,
)
from triage.execution.reads import files_in, surroundings, what_was_refused
from triage.model.case import Case, RunSpec
from triage.model.content import is_regular, regular_size
from triage.model.execution import Captured, Ending, Execution, Stage
from triage.model.outcome import (
    Failed,
    Measured,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.model.revision import Toolchain
from triage.processes.containment import assignments
from triage.processes.process import StopSignal, run
from triage.processes.sealing import Seal, is_sealing
from triage.recipes.run_values import file_value
from triage.toolchains.contents import state_digest
from triage.toolchains.registry import ToolchainRef


class PassNaming(StrEnum):
    """How a trial compiles: once, with or without the name of the pass that fails."""

    NEVER = "never"
    """Compile as the recipe says, and name no pass."""
    IN_FIRST_COMPILE = "at once"
    """Compile with options that print the failing pass, on one thread, so that a crash
    has the same stack each time.
    """


@dataclass(frozen=True)
class AnyOf:
    """Set as soon as one of two stop signals is."""

    first: StopSignal
    second: StopSignal | None

    def is_set(self) -> bool:
        return self.first.is_set() or bool(self.second and self.second.is_set())


@dataclass(frozen=True)
class ProbeJob:
    """One probe to make."""

    case: Case
    ref: ToolchainRef
    _: KW_ONLY
    fresh: bool = False
    """Ignore the result cache."""
    resources: bool = False
    """Count dispatches, if the family can."""
    here: bool = False
    """Do not use a cluster, because times are compared."""
    once: PassNaming | None = None
    """Compile once, without repeating doubtful endings, and record that apart from
    probes: for a search that tries many programs and probes only its result in full.
    """
    attempt: int = 0
    """Each attempt to compile once is cached by itself."""
    stop: StopSignal | None = None
    """Ends it early, with Interrupted."""

    @property
    def name(self) -> str:
        return f"{self.case.name} on {self.ref.revision.name}"


def checked_run(
    case: Case, start: Callable[[], Execution], is_sure: Callable[[Execution], bool]
) -> Execution:
    """Return a run. If one run does not prove how it ends, it is made again, and is
    flaky if it ends otherwise.
    """
    execution = start()
    if is_sure(execution):
        return execution
    flaky = comparable_ending(case, execution) != comparable_ending(case, start())
    return replace(execution, flaky=flaky)


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
        if comparable_ending(case, execution) == comparable_ending(case, free):
            return execution
    return replace(execution, refused=refused)


@dataclass(frozen=True)
class Prepared:
    """A file or folder to use, and the SHA-256 of its bytes."""

    path: Path
    digest: str
    state: str = ""
    """What changes when it is written, if others may write it."""
    mentioned: tuple[Path, ...] = ()
    """The files next to it that it mentions."""


@dataclass(frozen=True)
class RunTask:
    """A run that can be made."""

    case: Case
    spec: RunSpec
    """With values that the runtime's program reads."""
    runner: Runner
    tool: Path
    """The executable of the runtime."""
    reads: tuple[Path, ...]
    """The folders of the runtime, its own first."""
    libraries: tuple[Path, ...]
    identity: str = ""
    """Decides the result, together with the compiled file."""
    results: Path | None = None
    """Folder for the results of a reference, which are compared with nothing."""

    def make(self, module: Path, stop: StopSignal) -> Execution:
        """Run a compiled file, and again one that fails. Return the run, with numbers
        on wrong results as its metrics.
        """
        if self.results:
            return self.save_results(module, self.results, stop)[0]
        start = partial(self._run_and_compare, module, stop)
        execution = checked_run(self.case, start, lambda run: run.ok)
        metrics = {**execution.metrics, "run_seconds": execution.seconds}
        if self.spec.measured:
            times = measured_seconds(execution.stdout.text)
            if times:
                metrics[RUN_MS] = 1000 * min(times)
        return replace(execution, metrics=metrics)

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
        spec = self.spec
        options = self.runner.options(self.case, spec)
        argv = self.runner.argv(
            self.tool, module, options, spec.inputs, results, self.libraries
        )
        if spec.measured:
            argv.append(REPORT_OPTION)
        machine = self.runner.surroundings(self.case, spec)
        named = files_in((*options, *spec.inputs, *spec.expected))
        task_files = (*self.reads, module, *self.libraries)
        reads = (*task_files, *self.case.reads, *named, *machine.reads)
        writes = tuple({file.parent for file in results})
        execution = sealed_execution(
            self.case,
            Seal(reads, writes, machine.devices),
            lambda seal: run(
                argv,
                spec.limits,
                module.parent,
                seal=seal,
                env={**machine.variables, **dict(self.case.env), **env},
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
        # most runs compare nothing
        from triage.execution.compare import first_wrong_result

        results = list(map(file_value, files))
        line, numbers = first_wrong_result(results, self.spec.expected, self.spec)
        if not line:
            return execution
        printed = Captured(line)
        return replace(execution, exit_code=1, stdout=printed, metrics=numbers)

    def _run_and_compare(self, module: Path, stop: StopSignal) -> Execution:
        """Run a compiled file once, and compare its results with the expected ones."""
        if not self.spec.expected:
            return self.start(module, stop)
        files = [
            module.parent / f"{index}.npy" for index in range(len(self.spec.expected))
        ]
        execution = self.start(module, stop, files)
        if not execution.ok:
            # It fails, or has more results, or of types that .npy files cannot hold.
            execution, files = self.save_results(module, module.parent, stop)
        if execution.ok:
            return self.compare_results(execution, files)
        return execution


@dataclass(frozen=True)
class Task:
    """A compile that can be made: the input is prepared and the version knows every
    flag.
    """

    case: Case
    toolchain: Toolchain
    compiler: Compiler
    prepared: Prepared
    invocation: Invocation
    reads: tuple[Path, ...] = ()
    """Files and folders that it may read besides toolchain and input."""
    content: str = ""
    """Their digest, the part of the key that stands for them."""
    state: str = ""
    """The state of these files; see `state_digest`."""
    run: RunTask | NoAnswer | Failed | None = None
    """What follows the compile, or why nothing can."""
    variant: str = ""
    """Part of the key of another way to make the same compile, such as a trial."""
    naming: PassNaming | None = None
    """Set for a trial, which compiles once. Else a doubtful ending is repeated."""
    writes: tuple[Path, ...] = ()
    """Folders that it may write to besides its own."""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The content keys: of the compile (compiler, input, options without paths,
        limits) and, if there is one, of the run.
        """
        options = self.invocation.options
        case = self.case
        parts = [self.toolchain.identity, self.prepared.digest, self.content, *options]
        parts += surroundings(options, uses_processor=self.compiler.uses_processor)
        counts = DISPATCHES in dict(case.thresholds)
        parts.append(f"{case.limits} {counts}")
        if case.env:
            parts += [f"env {setting}" for setting in assignments(dict(case.env))]
        parts.append(f"{self.variant} {is_sealing()}")
        data = "\0".join(parts).encode("utf-8", "surrogatepass")
        key = sha256(data).hexdigest()
        if not isinstance(self.run, RunTask):
            return (key,)
        return key, sha256(f"run\0{key}\0{self.run.identity}".encode()).hexdigest()

    @property
    def seal(self) -> Seal:
        """What the compile may read and write."""
        reads = (*self.toolchain.reads, self.prepared.path, *self.reads)
        return Seal(reads, self.writes)

    def has_changed(self) -> bool:
        """Return whether a file that it may read was written since its key was made."""
        prepared = self.prepared
        toolchain = self.toolchain
        pairs = (
            (self.state, self.reads),
            (prepared.state, (prepared.path,)),
            (toolchain.state, toolchain.watched),
        )
        return any(state and state != state_digest(files) for state, files in pairs)

    @property
    def env(self) -> dict[str, str | None]:
        """The variables of the family and of the recipe, which take precedence."""
        return {**self.invocation.env, **dict(self.case.env)}

    def naming_failed_pass(self) -> Task | None:
        """Return the same task with options that print the failing pass, if the family
        has any.
        """
        passes = self.compiler.passes
        if passes is None or self.case.script is not None:
            return None
        invocation = self.invocation.with_printing(passes.failed_pass)
        return replace(self, invocation=invocation)

    def runnable(self) -> RunTask:
        """Return the run. Raises NoTask if there is none."""
        if isinstance(self.run, RunTask):
            return self.run
        raise NoTask(why_unusable(self.run))

    def records(self, executions: Sequence[Execution]) -> list[Record]:
        """Return the facts of the compile and, if it was made, the run."""
        case = self.case.name
        toolchain = self.toolchain.revision.name
        pairs = zip(self.keys, executions, strict=False)
        return [Record(key, case, toolchain, execution) for key, execution in pairs]

    def probe(
        self,
        compiled: Execution | None,
        ran: Execution | None = None,
        *,
        cached: bool,
    ) -> Probe | None:
        """Judge the compile and, if it passed, the run. Returns None if one of them is
        missing.
        """
        if compiled is None:
            return None
        outcome = self._judge_compile(compiled)
        metrics = compiled.metrics
        if isinstance(outcome, Passed) and self.run:
            if not isinstance(self.run, RunTask):
                outcome = self.run
            elif ran is None:
                return None
            else:
                outcome = self._judge_run(self.run, ran)
                metrics = {**metrics, **ran.metrics}
        used = compiled.seconds, compiled.cpu_seconds, compiled.peak_rss_mb
        revision = self.toolchain.revision
        version = self.toolchain.version
        measured = Measured(*used, metrics)
        return Probe(self.case, revision, version, outcome, measured, cached)

    def probe_without_answer(self, why: NoAnswer) -> Probe:
        """Return the probe of a task that could not be made."""
        return Probe(self.case, self.toolchain.revision, self.toolchain.version, why)

    def _judge_compile(self, execution: Execution) -> Outcome:
        outcome: Outcome = Passed()
        # rules take long to read, and have nothing to say of a silent pass
        if not execution.ok or execution.stderr != Captured():
            outcome = judge(execution, rules_of(self.case))
        if self.case.script is not None:
            outcome = reason_script_skips(execution) or outcome
        if isinstance(outcome, Passed) and self.case.thresholds:
            above = judge_thresholds(self.case, execution.metrics, Stage.COMPILE)
            return above or outcome
        return outcome

    def _judge_run(self, run: RunTask, execution: Execution) -> Outcome:
        """Judge a run by its thresholds if it succeeded, else by its failure."""
        if execution.ok:
            above = judge_thresholds(self.case, execution.metrics, Stage.BENCHMARK)
            return above or Passed()
        operator_of = partial(self._operator, run.spec.function)
        return judge_run(execution, rules_of(self.case), run.runner, operator_of)

    def _operator(self, function: str | None, output: int) -> str:
        """Return the operation that computes a result, if that is known."""
        from triage.mlir.generic_form import result_operator  # slow to import

        path = self.prepared.path
        with suppress(OSError), path.open(encoding="utf-8", errors="replace") as lines:
            return result_operator(lines, function, output)
        return ""


def with_facts(
    task: Task, execution: Execution, output: Path, statistics: Path
) -> Execution:
    """Return a compile with its phase and metrics: what it reported, the bytes of
    `output`, and the number of kernels that `statistics` holds, if that file is there.
    """
    size = regular_size(output) if execution.ok else None
    if execution.ok and task.invocation.writes_output and not size:
        execution = replace(execution, ending=Ending.NO_OUTPUT)
    phase, metrics = reported_facts(execution)
    kernels = task.compiler.kernels
    if size is not None:
        metrics["artifact_bytes"] = size
    if kernels and is_regular(statistics):
        count = kernels.kernel_count(statistics.read_text("utf-8", "replace"))
        if count is not None:
            metrics[DISPATCHES] = float(count)
    return replace(execution, phase=phase, metrics=metrics)
