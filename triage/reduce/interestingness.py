"""The interestingness test: compiles a candidate, runs it where the failure is one of a
run, and decides whether it shows the failure of the original case.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np

from triage.execution.compare import Match, first_wrong_result
from triage.execution.engine import Engine
from triage.execution.judge import NoTask
from triage.execution.persistent_workers import PersistentWorkers, WorkerAnswer
from triage.execution.plan import (
    UNWRITTEN,
    plan_task,
    reference_results,
    reference_task,
)
from triage.execution.task import PassNaming, ProbeJob, Task
from triage.model.case import Case, Reference, RunSpec
from triage.model.execution import Stage
from triage.model.outcome import Failed, Failure, Outcome, Passed, Probe
from triage.model.revision import Toolchain
from triage.processes.process import StopSignal
from triage.recipes.run_values import (
    ValueType,
    file_value,
    read_value,
    type_name,
    value_suffix,
    value_text,
    value_type,
)
from triage.reduce.problem import Program
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.registry import ToolchainRef

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Baseline:
    """The failure to keep and how a candidate's failure is compared with it."""

    case: Case
    """Without its run, if it fails to compile."""
    bad_ref: ToolchainRef
    good_ref: ToolchainRef | None
    toolchain: Toolchain
    """The bad one."""
    failure: Failure
    match: Match
    naming: PassNaming
    seconds: float
    """Of the failing compile."""
    repeats: int
    """Compiles of a candidate before it counts as passing."""
    probes: tuple[Probe, ...]
    """The original on the bad toolchain, then on the good one, then compiled again."""

    @property
    def refs(self) -> list[ToolchainRef]:
        return [self.bad_ref, self.good_ref] if self.good_ref else [self.bad_ref]

    @property
    def is_compile_failure(self) -> bool:
        """Whether nothing is computed, so that any machine can test candidates."""
        return self.failure.stage is Stage.COMPILE


@dataclass
class CompileTest:
    """Compiles candidates. Safe for several threads; deletes each candidate's file
    after its compile.
    """

    engine: Engine
    baseline: Baseline
    folder: Path
    """An existing folder for the candidates' files."""
    probes: list[Probe] = field(default_factory=list)
    """All compiles that were made or looked up."""

    def choose_start(self, original: Program) -> Program | None:
        """Choose the program to start from; None if it does not fail as the
        original.
        """
        if self.is_interesting(original):
            return original
        return None

    def is_interesting(
        self,
        candidate: Program,
        stop: StopSignal | None = None,
        *,
        in_full: bool = False,
    ) -> bool:
        """Tell whether a candidate fails as the original does. Raises Interrupted when
        `stop` is set.

        in_full: the good toolchain must compile it, too.
        """
        bad = self.baseline.bad_ref
        good = self.baseline.good_ref
        with self.on_disk(candidate, candidate.case) as case:
            for attempt in range(self.baseline.repeats):
                outcome = self.compile(case, bad, stop, attempt)
                # Only the root cause counts: later runs identify it by that.
                if isinstance(outcome, Failed) and self.baseline.match(outcome.failure):
                    if good and in_full:
                        return isinstance(self.compile(case, good, stop), Passed)
                    return True
        return False

    def complete_case(self, candidate: Program) -> Case:
        """Return the case with all that it needs to be probed by itself."""
        return candidate.case

    def compile(
        self, case: Case, ref: ToolchainRef, stop: StopSignal | None, attempt: int = 0
    ) -> Outcome:
        """Compile a candidate, or look it up."""
        naming = self.baseline.naming
        here = not self.baseline.is_compile_failure
        job = ProbeJob(case, ref, once=naming, attempt=attempt, stop=stop, here=here)
        probe = self.engine.probe(job)
        self.probes.append(probe)
        return probe.outcome

    @contextmanager
    def on_disk(self, candidate: Program, case: Case) -> Iterator[Case]:
        """Yield the case of a candidate, whose file exists meanwhile."""
        # A folder for each candidate: some compilers derive names from the file name,
        # which must be an identifier, and write files next to it.
        with TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder:
            path = Path(folder, f"input.{candidate.suffix}")
            path.write_bytes(candidate.content)
            # another name, so that its results are not taken for the recipe's
            yield replace(
                case,
                name=f"{case.name} (reducing)",
                input=case.input.rewritten(path, candidate.kind),
                expect=(),
            )

    @property
    def jobs(self) -> int:
        """How many candidates can be compiled at once."""
        if self.baseline.is_compile_failure:
            return self.engine.jobs
        return self.engine.local_jobs

    @property
    def compile_count(self) -> int:
        """Compiles that were made."""
        return sum(not probe.cached for probe in (*self.baseline.probes, *self.probes))


@dataclass
class ArgumentValues:
    """Chooses the values that smaller programs are run with: those of the original
    case, else a pattern of small numbers.
    """

    folder: Path
    """Files of values are written here."""
    _arrays: dict[Hashable, Array] = field(default_factory=dict)
    """By the origin of the arguments that they are for."""

    def remember_values(self, program: Program) -> Program | None:
        """Remember the values of the case, and return the program without them; None if
        a value cannot be read or the program takes another number of arguments.
        """
        run = run_of(program.case)
        entry = program.entry(run.function)
        if entry is None or len(entry.arguments) != len(run.inputs):
            return None
        for value, text in zip(entry.arguments, run.inputs, strict=True):
            array = read_value(text)
            if array is None:
                return None
            self._arrays[value.origin] = array
        return program.with_case(run=replace(run, inputs=()))

    def case_with_values(self, program: Program) -> Case | None:
        """Return the case with values for the program's arguments; None if one cannot
        have any.
        """
        run = run_of(program.case)
        entry = program.entry(run.function)
        if entry is None:
            return None
        inputs = []
        for value in entry.arguments:
            wanted = value_type(value.type)
            if wanted is None:
                return None
            array = fit_array(self._arrays.get(value.origin), wanted)
            if array is None:
                return None
            inputs.append(self.value_of(array, scalar=wanted.scalar))
        run = replace(run, function=entry.function, inputs=tuple(inputs))
        return replace(program.case, run=run)

    def value_of(self, array: Array, *, scalar: bool = False) -> str:
        """Return an array as a value, in a file where it has many elements. scalar: it
        is not a tensor.
        """
        text = value_text(array, scalar=scalar)
        if text is not None:
            return text
        content = array.tobytes()
        ending = value_suffix(type_name(array))
        path = self.folder / f"{sha256(content).hexdigest()[:24]}{ending}"
        if not path.is_file():
            with disk_errors("keep the values of a program"):
                write_whole(path, content)
        return file_value(path)


def run_of(case: Case) -> RunSpec:
    """Return how a case that is run is run."""
    assert case.run is not None
    return case.run


def fit_array(array: Array | None, wanted: ValueType) -> Array | None:
    """Return an array in another shape and type: its first elements of each dimension,
    else its elements in their order.

    An unknown size is that of the array. Without an array the elements are -1, 0, 1 and
    2, or 0 and 1 where they may be indices. Returns None if a size remains unknown.
    """
    shape = wanted.shape
    if array is not None and array.ndim == len(shape):
        pairs = zip(array.shape, shape, strict=True)
        array = array[tuple(map(slice, shape))]
        shape = tuple(size if fixed is None else fixed for size, fixed in pairs)
    sizes = [size for size in shape if size is not None]
    if len(sizes) != len(shape):
        return None
    if array is None or not array.size:
        array = np.arange(2) if wanted.dtype.kind in "biu" else np.arange(4) - 1
    with np.errstate(all="ignore"):
        return np.resize(array, sizes).astype(wanted.dtype)


@dataclass(kw_only=True)
class RunTest(CompileTest):
    """Compiles candidates and runs them. The reference computes what a candidate must
    return.

    A candidate counts only if its results are defined: the reference runs it and does
    not read memory that was never written to. In the complete test, all is done in new
    processes, and a second reference agrees with the first one.
    """

    values: ArgumentValues
    references: list[Reference]
    """The one that computes the expected results, and one that confirms it if they
    agree on the original.
    """
    results: Path
    """Folder for the results that references compute."""
    workers: PersistentWorkers
    _asks_workers: bool = False
    """Whether persistent workers are asked before new processes are started."""

    def choose_start(self, original: Program) -> Program | None:
        """Return the program to start from, without values; None if it does not fail as
        the original, or no reference runs it.
        """
        start = self.values.remember_values(original)
        if start is None or not self.is_interesting(start):
            return None
        if not self.is_interesting(start, in_full=True):
            del self.references[1:]  # they do not agree on the original
        if self.baseline.failure.family != "crash":
            self._asks_workers = True
            self._asks_workers = self.is_interesting(start)
        return start

    def is_interesting(
        self,
        candidate: Program,
        stop: StopSignal | None = None,
        *,
        in_full: bool = False,
    ) -> bool:
        """Return whether the reference runs the candidate, and the bad toolchain fails
        on it as on the original.
        """
        case = self.values.case_with_values(candidate)
        if case is None:
            return False
        asks_workers = self._asks_workers and not in_full
        with self.on_disk(candidate, case) as case:
            first, *others = self.references
            expected = self._results_of(first, case, stop, asks_workers)
            if expected is None:
                return False
            spec = replace(run_of(case), expected=tuple(expected), reference=None)
            outcome = self._run(replace(case, run=spec), stop, asks_workers)
            if not isinstance(outcome, Failed) or outcome.flaky:
                return False
            if not self.baseline.match(outcome.failure):
                return False
            return not in_full or all(
                _results_agree(case, expected, self._results_of(other, case, stop))
                for other in others
            )

    def complete_case(self, candidate: Program) -> Case:
        """Return the case with its values and the results that it must compute."""
        ready = self.values.case_with_values(candidate) or candidate.case
        with self.on_disk(candidate, ready) as case:
            expected = self._results_of(self.references[0], case)
            arrays = map(read_value, expected or ())
            texts = [
                self.values.value_of(array) for array in arrays if array is not None
            ]
        run = replace(run_of(ready), expected=tuple(texts), reference=None)
        return replace(ready, run=run)

    def _results_of(
        self,
        reference: Reference,
        case: Case,
        stop: StopSignal | None = None,
        asks_workers: bool = False,
    ) -> Sequence[str] | None:
        """Return the results that a reference computes; None if it does not run the
        program, or its results depend on unwritten memory.
        """
        target = (self.engine, case, self.baseline.toolchain, reference)
        answer = None
        try:
            if asks_workers:
                task = reference_task(*target)
                answer = self._ask_worker(case, task, (0, *UNWRITTEN))
            if answer is None:
                made = self.probes.append
                return reference_results(*target, self.results, made, stop)
        except NoTask:
            return None
        first = answer.values()
        others = map(answer.values, range(1, len(answer.files)))
        if first and all(_results_agree(case, first, other) for other in others):
            return first
        return None

    def _run(self, case: Case, stop: StopSignal | None, asks_workers: bool) -> Outcome:
        """Compile and run a candidate on the bad toolchain."""
        if asks_workers:
            with suppress(NoTask):
                task = plan_task(self.engine, case, self.baseline.toolchain)
                answer = self._ask_worker(case, task, (0,))
                probe = answer.probe() if answer else None
                if probe:
                    return probe.outcome
        return self.compile(case, self.baseline.bad_ref, stop)

    def _ask_worker(
        self, case: Case, task: Task, patterns: Sequence[int]
    ) -> WorkerAnswer | None:
        """Return the answer of a persistent worker about a task, if it has one."""
        folder = Path(mkdtemp(dir=case.input.path.parent))
        answer = self.workers.run(task, folder, patterns)
        probe = answer.probe() if answer else None
        if probe is None:
            return None
        self.probes.append(probe)
        return answer


def _results_agree(
    case: Case, texts: Sequence[str], others: Sequence[str] | None
) -> bool:
    return others is not None and not first_wrong_result(texts, others, run_of(case))[0]
