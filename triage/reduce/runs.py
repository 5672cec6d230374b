"""The interestingness test of programs that compile and compute something wrong, or
fail when they run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from triage.execution.compare import differences
from triage.execution.persistent_workers import PersistentWorkers, WorkerAnswer
from triage.execution.references import (
    UNWRITTEN,
    reference_results,
    reference_task,
)
from triage.execution.task import Task
from triage.model.case import Reference, RunSpec
from triage.model.outcome import Failed, NoAnswer, Outcome, Probe
from triage.recipes.run_values import (
    ValueType,
    file_value,
    is_scalar,
    read_value,
    type_name,
    value_ending,
    value_text,
    value_type,
)
from triage.reduce.interestingness import CompileTest
from triage.reduce.problem import ReductionProblem
from triage.reduce.program import ReducedCase
from triage.toolchains.home import disk_errors, temporary_folder, write_whole

Array = np.ndarray[Any, Any]
Texts = tuple[str, ...]
"""Values as the runtime's program reads them."""


class _NoWorkerAnswer(Exception):
    """A persistent worker does not say whether a candidate fails."""


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

    def take_over_values(self, candidate: ReducedCase) -> ReducedCase | None:
        """Remember the case's values by the origin of the arguments that they are for.

        Returns the candidate without them, or None if a value cannot be read or the
        program takes another number of arguments.
        """
        run = run_of(candidate)
        entry = candidate.program.entry(run.function)
        if entry is None or len(entry.arguments) != len(run.inputs):
            return None
        for (origin, _), text in zip(entry.arguments, run.inputs, strict=True):
            if not self.keep(origin, text):
                return None
        return candidate.with_case(run=replace(run, inputs=()))

    def keep(self, origin: Hashable, text: str) -> bool:
        """Remember a value for arguments of this origin. Return whether it can be
        read.
        """
        array = read_value(text)
        if array is not None:
            self._arrays[origin] = array
        return array is not None

    def with_values(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with values for its arguments; None if one cannot have
        any.
        """
        run = run_of(candidate)
        entry = candidate.program.entry(run.function)
        if entry is None:
            return None
        texts: list[str | None] = [*run.inputs] or [
            self._fitting_value(origin, type_) for origin, type_ in entry.arguments
        ]
        inputs = tuple(text for text in texts if text is not None)
        if len(inputs) < len(texts):
            return None
        run = replace(run, function=entry.name, inputs=inputs)
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
        if not path.is_file() or path.read_bytes() != content:
            with disk_errors("keep the values of a program"):
                write_whole(path, content)
        return file_value(path)

    def _fitting_value(self, origin: Hashable, type_: str) -> str | None:
        """Return the value of this origin in another type; None if the type is not that
        of an array with known sizes.
        """
        wanted = value_type(type_)
        array = fit_array(self._arrays.get(origin), wanted) if wanted else None
        if wanted is None or array is None:
            return None
        return self.value_of(array, scalar=wanted.scalar)

    def simplify_values(self, problem: ReductionProblem) -> None:
        """Replace values by plainer ones."""
        start = self.with_values(problem.current) or problem.current
        for index in range(len(run_of(start).inputs)):
            start = self.with_values(problem.current) or problem.current
            problem.take_first(self._with_plainer_argument(start, index))

    def _with_plainer_argument(
        self, candidate: ReducedCase, index: int
    ) -> Iterator[ReducedCase]:
        """Yield the candidate with a plainer value for one argument: of a single
        number, of small whole numbers, then rounded. Nothing if it is of a single
        number already.
        """
        run = run_of(candidate)
        array = read_value(run.inputs[index])
        if array is None or not array.size or (array == array.flat[:1]).all():
            return
        plain = [np.full_like(array, number) for number in (1, 0, array.flat[0])]
        small = np.arange(array.size).reshape(array.shape) % 7
        plain.append(small.astype(array.dtype))
        if np.isfinite(array).all() and array.dtype.kind not in "biuc":
            plain += [np.round(array), np.round(array, 1)]
        for other in plain:
            if not np.array_equal(other, array):
                text = self.value_of(other, scalar=is_scalar(run.inputs[index]))
                inputs = (*run.inputs[:index], text, *run.inputs[index + 1 :])
                yield candidate.with_case(run=replace(run, inputs=inputs))


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

    A candidate counts only if its results are defined: the reference runs it, returns
    finite numbers where it did so for the original, does not read memory that was never
    written to, and a second reference agrees with it.
    """

    values: ArgumentValues = field(kw_only=True)
    references: list[Reference] = field(kw_only=True)
    """The one that computes the expected results, and one that confirms it if it agrees
    on the original.
    """
    results: Path = field(kw_only=True)
    """Folder for the results that references compute."""
    workers: PersistentWorkers = field(kw_only=True)
    _asks_workers: bool = False
    """Whether persistent workers are asked first."""
    _finite: bool = False
    """Whether the expected results of the original are finite."""
    _tolerances: Mapping[str, float] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    """Of the folders of workers' answers."""

    def prepare(self, original: ReducedCase) -> ReducedCase | None:
        """Take over the values of the original, and drop a second reference that
        disagrees. Returns the candidate without values, or None if no reference runs
        it.
        """
        start = self.values.take_over_values(original)
        complete = start and self.ready(start)
        if start is None or complete is None:
            return None
        expected = self._computed(complete, self.references[0])
        if expected is None:
            return None
        self._tolerances = dict(run_of(start).tolerances)
        self._finite = _is_finite(expected)
        others = [self._computed(complete, other) for other in self.references[1:]]
        if not all(self._agree(expected, other) for other in others):
            del self.references[1:]
            self.notes.append(
                "unoptimised code does not compute the expected results, so that "
                "nothing confirms them"
            )
        return start

    def begin_with(self, candidate: ReducedCase) -> None:
        """Ask persistent workers from now on if they agree that this candidate
        fails.
        """
        start = self.ready(candidate)
        if self.baseline.failure.family != "crash" and start:
            with suppress(_NoWorkerAnswer):
                self._asks_workers = self._fails(start, None, by_workers=True)

    def ready(self, candidate: ReducedCase) -> ReducedCase | None:
        return self.values.with_values(candidate)

    def is_interesting(self, candidate: ReducedCase, stop: threading.Event) -> bool:
        """Return whether the reference runs the candidate, and the bad toolchain fails
        on it as on the original.
        """
        if self._asks_workers and not stop.is_set():
            with suppress(_NoWorkerAnswer):
                return self._fails(candidate, stop, by_workers=True)
        return self._fails(candidate, stop)

    def is_confirmed(self, candidate: ReducedCase) -> bool:
        """Return whether a candidate fails in new processes, too. If not, persistent
        workers are not asked again.
        """
        ready = self.ready(candidate)
        if not self._asks_workers or ready is None or self._fails(ready, None):
            return True
        self._asks_workers = False
        return False

    def complete(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with its values and the results that it must compute;
        None if no reference computes them.
        """
        ready = self.ready(candidate)
        expected = self._computed(ready, self.references[0]) if ready else None
        if ready is None or expected is None:
            return None
        arrays = [(text, read_value(text)) for text in expected]
        texts = [
            text if array is None else self.values.value_of(array)
            for text, array in arrays
        ]
        run = replace(run_of(ready), expected=tuple(texts), reference=None)
        return ready.with_case(run=run)

    def results_by(
        self, candidate: ReducedCase, reference: Reference, folder: Path
    ) -> Texts | None:
        """Return the results of a candidate by a reference, or None. `folder` may
        receive their files.
        """
        ready = self.ready(candidate)
        if ready is None or candidate.program.canonical is None:
            return None
        if self._asks_workers:
            with suppress(_NoWorkerAnswer):
                return self._answer(ready, reference, folder).values()
        return self._computed(ready, reference)

    def first_difference(
        self, texts: Sequence[str], others: Sequence[str]
    ) -> tuple[int, dict[str, float]] | None:
        """Return the index of the first of these values that differs from the other
        one, with the numbers of the difference; None if all are equal.
        """
        for index, (text, other) in enumerate(zip(texts, others, strict=True)):
            numbers = differences(text, other, self._tolerances)
            if numbers.get("mismatches"):
                return index, numbers
        return None

    def _fails(
        self,
        candidate: ReducedCase,
        stop: threading.Event | None,
        *,
        by_workers: bool = False,
    ) -> bool:
        """Return whether a candidate with values fails as the original does, each time.
        Raises _NoWorkerAnswer if persistent workers do not say.
        """
        with temporary_folder() as folder:

            def results(reference: Reference) -> Texts | None:
                if by_workers:
                    return self._defined_results(candidate, reference, folder)
                return self._computed(candidate, reference, stop)

            expected = results(self.references[0])
            if expected is None or (self._finite and not _is_finite(expected)):
                return False
            run = replace(run_of(candidate), expected=expected, reference=None)
            smaller = candidate.with_case(run=run)
            outcome: Outcome
            if by_workers:
                outcome = self._outcome_by_worker(smaller, folder)
            else:
                stop = stop or threading.Event()
                outcome = self._compile(smaller, self.bad, stop).outcome
            return (
                isinstance(outcome, Failed)
                and not outcome.flaky
                and self.baseline.match(outcome.failure)
                and all(
                    self._agree(expected, results(other))
                    for other in self.references[1:]
                )
            )

    def _computed(
        self,
        candidate: ReducedCase,
        reference: Reference,
        stop: threading.Event | None = None,
    ) -> Texts | None:
        """Return the results that a reference computes in a new process for a candidate
        with values; None if it does not run it, or its results are not defined.
        """
        with self._case_on_disk(candidate) as case:
            results = reference_results(
                self.engine,
                case,
                self.bad,
                reference,
                self.results,
                self._count,
                stop,
            )
        if isinstance(results, NoAnswer):
            return None
        return results

    def _defined_results(
        self, candidate: ReducedCase, reference: Reference, folder: Path
    ) -> Texts | None:
        """Return the results of a reference by a persistent worker, if they do not
        depend on the content of unwritten memory.
        """
        answer = self._answer(candidate, reference, folder)
        expected = answer.values()
        for call in range(1, len(answer.files)):
            if expected is None or not self._agree(expected, answer.values(call)):
                return None
        return expected

    def _answer(
        self, candidate: ReducedCase, reference: Reference, folder: Path
    ) -> WorkerAnswer:
        """Ask a persistent worker for the results of a reference, once for each content
        of unwritten memory.
        """
        with self._case_on_disk(candidate) as case:
            task = reference_task(self.engine, case, self.bad, reference)
            return self._ask_worker(task, folder, (0, *UNWRITTEN))

    def _outcome_by_worker(self, candidate: ReducedCase, folder: Path) -> Outcome:
        with self._case_on_disk(candidate) as case:
            task = self.engine.planner.plan(case, self.bad)
            probe = self._ask_worker(task, folder, (0,)).probe()
        if probe is None:
            raise _NoWorkerAnswer
        return probe.outcome

    def _ask_worker(
        self, task: Task | Probe | NoAnswer, folder: Path, patterns: Sequence[int]
    ) -> WorkerAnswer:
        """Ask a persistent worker, and count that."""
        if not isinstance(task, Task):
            raise _NoWorkerAnswer
        started = time.monotonic()
        with self._lock:
            number = next(self._numbers)
        answer = self.workers.run(task, folder / f"answer-{number}", patterns)
        with self._lock:
            self.calls += 1
            self.seconds += time.monotonic() - started
        if answer is None:
            raise _NoWorkerAnswer
        return answer

    def _agree(self, texts: Sequence[str], others: Sequence[str] | None) -> bool:
        if others is None or len(texts) != len(others):
            return False
        pairs = zip(texts, others, strict=True)
        return all(
            differences(text, other, self._tolerances).get("mismatches", 1) == 0
            for text, other in pairs
        )


def _is_finite(texts: Sequence[str]) -> bool:
    arrays = [read_value(text) for text in texts]
    return all(array is not None and bool(np.isfinite(array).all()) for array in arrays)
