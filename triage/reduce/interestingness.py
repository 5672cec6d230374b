"""The interestingness test: compiles a candidate, runs it where the failure is one of a
run, and decides whether it shows the failure of the original case.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np

from triage.execution.compare import Match, differences
from triage.execution.engine import Engine
from triage.execution.judge import NoTask
from triage.execution.persistent_workers import PersistentWorkers, WorkerAnswer
from triage.execution.plan import (
    UNWRITTEN,
    plan_task,
    reference_results,
    reference_task,
)
from triage.execution.task import Naming, ProbeJob, Task
from triage.model.case import Case, Reference, RunSpec
from triage.model.execution import Stage
from triage.model.outcome import (
    Failed,
    Failure,
    Outcome,
    Passed,
    Probe,
)
from triage.model.revision import Toolchain
from triage.recipes.run_values import (
    ValueType,
    file_value,
    read_value,
    type_name,
    value_ending,
    value_text,
    value_type,
)
from triage.reduce.problem import ReducedCase
from triage.toolchains.home import disk_errors, write_whole
from triage.toolchains.registry import ToolchainRef

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The failure to keep and how a candidate's failure is compared with it."""

    case: Case
    """Without its run, if it fails to compile."""
    bad_ref: ToolchainRef
    good_ref: ToolchainRef | None
    bad: Toolchain
    failure: Failure
    match: Match
    naming: Naming
    seconds: float
    """Of the failing compile."""
    repeats: int
    """Compiles of a candidate before it counts as passing."""
    probes: tuple[Probe, ...]
    """The original on the bad toolchain, then on the good one, then compiled again."""

    @property
    def is_portable(self) -> bool:
        """Whether candidates can be compiled on other machines: nothing is computed
        here.
        """
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
    is_complete: bool = False
    """Whether each candidate gets the complete test, with the good toolchain; else only
    the result of each pass does.
    """

    def begin(self, original: ReducedCase) -> ReducedCase | None:
        """Choose the candidate to start from; None if it does not fail as the
        original.
        """
        if self.is_interesting(original, threading.Event()):
            return original
        return None

    def is_interesting(self, candidate: ReducedCase, stop: threading.Event) -> bool:
        """Tell whether a candidate fails as the original does. Raises Interrupted when
        `stop` is set.
        """
        bad, good = self.baseline.bad_ref, self.baseline.good_ref
        with self.on_disk(candidate) as case:
            for attempt in range(self.baseline.repeats):
                outcome = self.compile(case, bad, stop, attempt)
                # Only the root cause counts: later runs identify it by that.
                if isinstance(outcome, Failed) and self.baseline.match(outcome.failure):
                    if good and self.is_complete:
                        return isinstance(self.compile(case, good, stop), Passed)
                    return True
        return False

    def is_confirmed(self, candidate: ReducedCase) -> bool:
        """Tell whether an interesting candidate passes the complete test. If not, each
        candidate gets it from now on.
        """
        before, self.is_complete = self.is_complete, True
        is_confirmed = self.is_interesting(candidate, threading.Event())
        self.is_complete = before or not is_confirmed
        return is_confirmed

    def complete(self, candidate: ReducedCase) -> ReducedCase:
        """Give a candidate all that its case needs to be probed by itself."""
        return candidate

    def compile(
        self, case: Case, ref: ToolchainRef, stop: threading.Event, attempt: int = 0
    ) -> Outcome:
        """Compile a candidate, or look it up."""
        naming, here = self.baseline.naming, not self.baseline.is_portable
        job = ProbeJob(case, ref, once=naming, attempt=attempt, stop=stop, here=here)
        probe = self.engine.probe(job)
        self.probes.append(probe)
        return probe.outcome

    @contextmanager
    def on_disk(self, candidate: ReducedCase) -> Iterator[Case]:
        """Yield the case of a candidate, whose file exists meanwhile."""
        case, program = candidate.case, candidate.program
        # A folder for each candidate: some compilers derive names from the file name,
        # which must be an identifier, and write files next to it.
        with TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder:
            path = Path(folder, f"input.{program.suffix}")
            path.write_bytes(program.content)
            # another name, so that its results are not taken for the recipe's
            yield replace(
                case,
                name=f"{case.name} (reducing)",
                input=case.input.rewritten(path, program.kind),
                expect=(),
            )

    @property
    def jobs(self) -> int:
        """How many candidates can be compiled at once."""
        if self.baseline.is_portable:
            return self.engine.jobs
        return self.engine.local_jobs

    @property
    def calls(self) -> int:
        """Compiles that were made."""
        return sum(not probe.cached for probe in (*self.baseline.probes, *self.probes))


def run_of(candidate: ReducedCase) -> RunSpec:
    """Return how the program of a candidate is run."""
    assert candidate.case.run is not None
    return candidate.case.run


@dataclass
class ArgumentValues:
    """Chooses the values that smaller programs are run with: those of the original
    case, else a pattern of small numbers.
    """

    folder: Path
    """Files of values are written here."""
    _arrays: dict[Hashable, Array] = field(default_factory=dict)
    """By the origin of the arguments that they are for."""

    def take_over_values(self, candidate: ReducedCase) -> ReducedCase | None:
        """Remember the case's values, and return the candidate without them; None if a
        value cannot be read or the program takes another number of arguments.
        """
        run = run_of(candidate)
        entry = candidate.program.entry(run.function)
        if entry is None or len(entry.arguments) != len(run.inputs):
            return None
        for (origin, _), text in zip(entry.arguments, run.inputs, strict=True):
            array = read_value(text)
            if array is None:
                return None
            self._arrays[origin] = array
        return candidate.with_case(run=replace(run, inputs=()))

    def with_values(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with values for its arguments; None if one cannot have
        any.
        """
        entry = candidate.program.entry(run_of(candidate).function)
        if entry is None:
            return None
        inputs = []
        for origin, type_ in entry.arguments:
            wanted = value_type(type_)
            if wanted is None:
                return None
            array = fit_array(self._arrays.get(origin), wanted)
            if array is None:
                return None
            inputs.append(self.value_of(array, scalar=wanted.scalar))
        run = replace(run_of(candidate), function=entry.function, inputs=tuple(inputs))
        return candidate.with_case(run=run)

    def value_of(self, array: Array, *, scalar: bool = False) -> str:
        """Return an array as a value, in a file where it has many elements. scalar: it
        is not a tensor.
        """
        text = value_text(array, scalar=scalar)
        if text is not None:
            return text
        content = array.tobytes()
        ending = value_ending(type_name(array))
        path = self.folder / f"{sha256(content).hexdigest()[:24]}{ending}"
        if not path.is_file():
            with disk_errors("keep the values of a program"):
                write_whole(path, content)
        return file_value(path)


def fit_array(array: Array | None, wanted: ValueType) -> Array | None:
    """Return an array in another shape and type: its first elements of each dimension,
    else its elements in their order.

    An unknown size is that of the array. Without an array the elements are -1, 0, 1 and
    2, or 0 and 1 where they may be indices. Returns None if a size remains unknown.
    """
    shape = wanted.shape
    if array is not None and array.ndim == len(shape):
        shape = tuple(
            size if fixed is None else fixed
            for size, fixed in zip(array.shape, shape, strict=True)
        )
    sizes = [size for size in shape if size is not None]
    if len(sizes) != len(shape):
        return None
    if array is None or not array.size:
        array = np.arange(4) - 1
        if wanted.dtype.kind in "biu":
            array = np.arange(2)
    elif array.ndim == len(sizes):
        array = array[tuple(slice(size) for size in sizes)]
    with np.errstate(all="ignore"):
        return np.resize(array, sizes).astype(wanted.dtype)


@dataclass
class RunTest(CompileTest):
    """Compiles candidates and runs them. The reference computes what a candidate must
    return.

    A candidate counts only if its results are defined: the reference runs it and does
    not read memory that was never written to. In the complete test, a second reference
    agrees with it.
    """

    values: ArgumentValues = field(kw_only=True)
    references: list[Reference] = field(kw_only=True)
    """The one that computes the expected results, and one that confirms it if they
    agree on the original.
    """
    results: Path = field(kw_only=True)
    """Folder for the results that references compute."""
    workers: PersistentWorkers = field(kw_only=True)
    _asks_workers: bool = False
    """Whether persistent workers are asked before new processes are started."""

    def begin(self, original: ReducedCase) -> ReducedCase | None:
        """Return the candidate to start from, without values; None if it does not fail
        as the original, or no reference runs it.
        """
        start, never = self.values.take_over_values(original), threading.Event()
        if start is None or not self.is_interesting(start, never):
            return None
        if not self.is_confirmed(start):
            del self.references[1:]  # they do not agree on the original
        self.is_complete = False
        self._asks_workers = self.baseline.failure.family != "crash"
        self._asks_workers = self._asks_workers and self.is_interesting(start, never)
        return start

    def is_interesting(self, candidate: ReducedCase, stop: threading.Event) -> bool:
        """Return whether the reference runs the candidate, and the bad toolchain fails
        on it as on the original.
        """
        ready = self.values.with_values(candidate)
        if ready is None:
            return False
        with self.on_disk(ready) as case:
            expected = self._reference_results(case, self.references[0], stop)
            if expected is None:
                return False
            spec = replace(run_of(ready), expected=tuple(expected), reference=None)
            outcome = self._run(replace(case, run=spec), stop)
            if not isinstance(outcome, Failed) or outcome.flaky:
                return False
            if not self.baseline.match(outcome.failure):
                return False
            return not self.is_complete or all(
                _results_agree(
                    case, expected, self._reference_results(case, other, stop)
                )
                for other in self.references[1:]
            )

    def is_confirmed(self, candidate: ReducedCase) -> bool:
        """Return whether a candidate passes the complete test in new processes."""
        before, self._asks_workers = self._asks_workers, False
        try:
            return super().is_confirmed(candidate)
        finally:
            self._asks_workers = before

    def complete(self, candidate: ReducedCase) -> ReducedCase:
        """Return the candidate with its values and the results that it must compute."""
        ready = self.values.with_values(candidate) or candidate
        with self.on_disk(ready) as case:
            expected = self._reference_results(
                case, self.references[0], threading.Event()
            )
            arrays = map(read_value, expected or ())
            texts = [
                self.values.value_of(array) for array in arrays if array is not None
            ]
        run = replace(run_of(ready), expected=tuple(texts), reference=None)
        return ready.with_case(run=run)

    def _reference_results(
        self, case: Case, reference: Reference, stop: threading.Event
    ) -> Sequence[str] | None:
        """Return the results that a reference computes; None if it does not run the
        program, or its results depend on unwritten memory.
        """
        target, answer = (self.engine, case, self.baseline.bad, reference), None
        try:
            if self._asks_workers:
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

    def _run(self, case: Case, stop: threading.Event) -> Outcome:
        """Compile and run a candidate on the bad toolchain."""
        if self._asks_workers:
            with suppress(NoTask):
                task = plan_task(self.engine, case, self.baseline.bad)
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
    if others is None or len(texts) != len(others):
        return False
    assert case.run
    tolerances = dict(case.run.tolerances)
    return all(
        differences(text, other, tolerances).get("mismatches", 1) == 0
        for text, other in zip(texts, others, strict=True)
    )
