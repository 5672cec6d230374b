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
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from triage.execution.persistent_workers import PersistentWorkers, WorkerAnswer
from triage.execution.references import (
    UNWRITTEN,
    reference_results,
    reference_task,
)
from triage.execution.run_task import differences
from triage.execution.task import Task
from triage.model.case import Case, Reference, RunSpec
from triage.model.outcome import Failed, NoAnswer, Probe
from triage.recipes.run_values import (
    ValueType,
    file_value,
    is_scalar,
    read_value,
    split_value,
    type_name,
    value_ending,
    value_text,
    value_type,
)
from triage.reduce.interestingness import InterestingnessTest, Oracle
from triage.reduce.program import ReducedCase
from triage.toolchains.home import disk_errors, temporary_folder, write_whole

Array = np.ndarray[Any, Any]
T = TypeVar("T")


class _NoWorkerAnswer(Exception):
    """A persistent worker does not say whether a candidate fails."""


def _require_answer(answer: T | None) -> T:
    """Return an answer. Raises _NoWorkerAnswer if there is none."""
    if answer is None:
        raise _NoWorkerAnswer
    return answer


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
        arrays = [read_value(text) for text in run.inputs]
        if entry is None or len(entry.arguments) != len(arrays):
            return None
        for (origin, _), array in zip(entry.arguments, arrays, strict=True):
            if array is None:
                return None
            self._arrays[origin] = array
        return candidate.with_case(run=replace(run, inputs=()))

    def keep(self, origin: Hashable, text: str) -> None:
        """Remember a value for arguments of this origin, if it can be read."""
        array = read_value(text)
        if array is not None:
            self._arrays[origin] = array

    def with_values(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with values for its arguments; None if one cannot have
        any.
        """
        run = run_of(candidate)
        entry = candidate.program.entry(run.function)
        if entry is None:
            return None
        texts = run.inputs or [
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
        if wanted is None:
            return None
        array = fit_array(self._arrays.get(origin), wanted)
        if array is None:
            return None
        return self.value_of(array, scalar=wanted.scalar)

    def simplify_values(
        self, candidate: ReducedCase, test: InterestingnessTest
    ) -> ReducedCase:
        """Replace values by plainer ones."""
        candidate = self.with_values(candidate) or candidate
        for index in range(len(run_of(candidate).inputs)):
            candidate = (
                test.first(self._with_plainer_argument(candidate, index)) or candidate
            )
        return candidate

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
        plain.append(
            (np.arange(array.size) % 7).reshape(array.shape).astype(array.dtype)
        )
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
        if wanted.dtype.kind in "biu":
            array = np.arange(2)
        else:
            array = np.arange(4) - 1
    elif array.ndim == len(sizes):
        array = array[tuple(slice(size) for size in sizes)]
    with np.errstate(all="ignore"):
        return np.resize(array, sizes).astype(wanted.dtype)


@dataclass
class RunOracle(Oracle):
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

    def prepare(self, candidate: ReducedCase) -> ReducedCase | None:
        """Take over the values of the original, and drop a second reference that
        disagrees. Returns the candidate without values, or None if no reference runs
        it.
        """
        ready = self.values.take_over_values(candidate)
        if ready is None:
            return None
        complete = self.with_values(ready)
        if complete is None:
            return None
        expected = self._reference_results(complete, self.references[0])
        if expected is None:
            return None
        self._tolerances = dict(run_of(ready).tolerances)
        self._finite = _is_finite(expected)
        others = [
            self._reference_results(complete, other) for other in self.references[1:]
        ]
        if not all(self._agree(expected, other) for other in others):
            del self.references[1:]
            self.notes.append(
                "unoptimised code does not compute the expected results, so that "
                "nothing confirms them"
            )
        return ready

    def with_values(self, candidate: ReducedCase) -> ReducedCase | None:
        return self.values.with_values(candidate)

    def complete(self, candidate: ReducedCase) -> ReducedCase | None:
        """Return the candidate with its values and the results that it must compute;
        None if no reference computes them.
        """
        runnable = self.with_values(candidate)
        expected = (
            self._reference_results(runnable, self.references[0]) if runnable else None
        )
        if runnable is None or expected is None:
            return None
        texts = []
        for text in expected:
            array = read_value(text)
            if array is not None:
                if array.dtype.kind == "u" and not split_value(text).type:
                    # onnxruntime has no signless integers, a compiled model no others
                    array = array.view(f"i{array.itemsize}")
                text = self.values.value_of(array)
            texts.append(text)
        run = replace(run_of(runnable), expected=tuple(texts), reference=None)
        return runnable.with_case(run=run)

    @property
    def is_sure(self) -> bool:
        return not self._asks_workers

    def begin_with(self, candidate: ReducedCase) -> None:
        """Ask persistent workers from now on if they agree that this candidate
        fails.
        """
        runnable = self.with_values(candidate)
        if self.baseline.failure.family != "crash" and runnable is not None:
            with suppress(_NoWorkerAnswer):
                self._asks_workers = self._fails_in_workers(runnable)

    def is_confirmed(self, candidate: ReducedCase, cancelled: threading.Event) -> bool:
        """Check a candidate that fails in a persistent worker: return whether it fails
        in a new process of the bad toolchain, too.
        """
        runnable = self.with_values(candidate) if self._asks_workers else None
        if runnable is None:
            return True
        with self._case_on_disk(runnable) as case, temporary_folder() as folder:
            answer = self._reference_answer(case, self.references[0], folder / "first")
            expected = answer.values() if answer else None
            if expected is None:
                return self._fails_in_new_processes(runnable, cancelled)
            return self._differs(runnable, expected, cancelled)

    def confirm_in_new_processes(self, candidate: ReducedCase) -> bool:
        """Check the smallest program in new processes and return whether it fails
        there, too. If it does not, persistent workers are not asked again.
        """
        runnable = self.with_values(candidate) if self._asks_workers else None
        if runnable is None or self._fails_in_new_processes(
            runnable, threading.Event()
        ):
            return True
        self._asks_workers = False
        return False

    def fails(self, candidate: ReducedCase, cancelled: threading.Event) -> bool:
        """Return whether the reference runs the candidate, and the bad toolchain fails
        on it as on the original.
        """
        if self._asks_workers and not cancelled.is_set():
            with suppress(_NoWorkerAnswer):
                return self._fails_in_workers(candidate)
        return self._fails_in_new_processes(candidate, cancelled)

    def _fails_in_workers(self, candidate: ReducedCase) -> bool:
        """Return whether a candidate fails in persistent workers. _NoWorkerAnswer if
        they do not say.
        """
        with self._case_on_disk(candidate) as case, temporary_folder() as folder:
            first = _require_answer(
                self._reference_answer(case, self.references[0], folder / "first")
            )
            expected = first.values()
            if expected is None or (self._finite and not _is_finite(expected)):
                return False
            for call in range(1, len(first.files)):
                if not self._agree(expected, first.values(call)):
                    return False
            run = replace(run_of(candidate), expected=expected, reference=None)
            planned = self.engine.planner.plan(replace(case, run=run), self.bad)
            answer = _require_answer(self._ask_workers(planned, folder / "bad"))
            outcome = _require_answer(answer.probe()).outcome
            if not isinstance(outcome, Failed):
                return False
            if not self.baseline.match(outcome.failure):
                return False
            for number, other in enumerate(self.references[1:]):
                again = _require_answer(
                    self._reference_answer(case, other, folder / f"other-{number}")
                )
                if not self._agree(expected, again.values()):
                    return False
        return True

    def results_by(
        self, candidate: ReducedCase, reference: Reference, folder: Path
    ) -> tuple[str, ...] | None:
        """Return the results of a candidate by a reference, or None. A folder that does
        not exist receives their files.
        """
        runnable = self.with_values(candidate)
        if runnable is None or candidate.program.content_if_valid() is None:
            return None
        if self._asks_workers:
            with self._case_on_disk(runnable) as case:
                answer = self._reference_answer(case, reference, folder)
            if answer is not None:
                return answer.values()
        return self._reference_results(runnable, reference)

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

    def _reference_answer(
        self, case: Case, reference: Reference, folder: Path
    ) -> WorkerAnswer | None:
        """Return the results of a reference by a persistent worker, once for each
        content of unwritten memory; None if no worker answers.
        """
        if reference.onnxruntime:
            return None
        task = reference_task(self.engine, case, self.bad, reference)
        return self._ask_workers(task, folder, (0, *UNWRITTEN))

    def _ask_workers(
        self,
        task: Task | Probe | NoAnswer,
        folder: Path,
        patterns: Sequence[int] = (0,),
    ) -> WorkerAnswer | None:
        """Ask a persistent worker, and count that; None if it does not answer."""
        if not isinstance(task, Task):
            return None
        started = time.monotonic()
        answer = self.workers.run(task, folder, patterns)
        with self._lock:
            self.calls += 1
            self.seconds += time.monotonic() - started
        return answer

    def _fails_in_new_processes(
        self, candidate: ReducedCase, cancelled: threading.Event
    ) -> bool:
        expected = self._reference_results(candidate, self.references[0], cancelled)
        if expected is None or (self._finite and not _is_finite(expected)):
            return False
        return self._differs(candidate, expected, cancelled) and all(
            self._agree(expected, self._reference_results(candidate, other, cancelled))
            for other in self.references[1:]
        )

    def _differs(
        self,
        candidate: ReducedCase,
        expected: tuple[str, ...],
        cancelled: threading.Event,
    ) -> bool:
        """Return whether the bad toolchain's program fails as it did on the original,
        each time.
        """
        run = replace(run_of(candidate), expected=expected, reference=None)
        smaller = candidate.with_case(run=run)
        outcome = self._compile(smaller, self.bad, 0, cancelled).outcome
        return (
            isinstance(outcome, Failed)
            and not outcome.flaky
            and self.baseline.match(outcome.failure)
        )

    def _reference_results(
        self,
        candidate: ReducedCase,
        reference: Reference,
        cancelled: threading.Event | None = None,
    ) -> tuple[str, ...] | None:
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
                cancelled,
            )
        if isinstance(results, NoAnswer):
            return None
        return results

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
