"""The values that smaller programs are run with: those of the original case, and what the reference computes inside of it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from triage.compilers.values import array_type, element_of, file_value, read_value, value_bytes, value_text
from triage.reduce.engine import Frontend, minimise
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate, Document, Origin
from triage.toolchains.home import disk_errors, write_whole

Array = np.ndarray[Any, Any]
_MOST_ZEROED = 64  # elements that are tried one by one


@dataclass
class ArgumentValues:
    """Chooses the values of a candidate's arguments. Safe for several threads.

    compute: the results of the reference on a program of its own; None when it does not run. folder: gets files of values.
    """

    frontend: Frontend
    folder: Path
    compute: Callable[[Document], Sequence[str] | None]
    _arrays: dict[Origin, Array | None] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def start(self, candidate: Candidate) -> Candidate | None:
        """Remember the values of the case for the program's arguments, and return the candidate without them.

        Returns None when the program takes other arguments.
        """
        run = candidate.case.run
        entry = self.frontend.entry(candidate.document, run.function) if run else None
        if run is None or entry is None or len(entry.arguments) != len(run.inputs):
            return None
        for (origin, _), text in zip(entry.arguments, run.inputs, strict=True):
            array = read_value(text)
            if origin is None or array is None:
                return None
            self._arrays[origin] = array
        return Candidate(candidate.document, replace(candidate.case, run=replace(run, inputs=())))

    def bound(self, candidate: Candidate) -> Candidate | None:
        """Return the candidate with values for its arguments; None when an argument can have none."""
        run = candidate.case.run
        assert run is not None
        entry = self.frontend.entry(candidate.document, run.function)
        if entry is None:
            return None
        texts: Sequence[str | None] = run.inputs or [self._text(origin, type_) for origin, type_ in entry.arguments]
        known = tuple(text for text in texts if text is not None)
        if len(known) != len(entry.arguments):
            return None
        return Candidate(candidate.document, replace(candidate.case, run=replace(run, function=entry.name, inputs=known)))

    def text(self, array: Array, element: str | None) -> str:
        """Return an array as a value, in a file where it has many elements. element: see `element_of`."""
        if (text := value_text(array, element)) is not None:
            return text
        content, ending = value_bytes(array, element)
        path = self.folder / f"{sha256(content).hexdigest()[:24]}{ending}"
        if not path.is_file():
            with disk_errors("keep the values of a program"):
                self.folder.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)
        return file_value(path)

    def _text(self, origin: Origin | None, type_: str) -> str | None:
        kind = array_type(type_)
        array = fitted(self._array(origin), *kind[:2]) if kind else None
        return None if array is None or kind is None else self.text(array, kind[2])

    def _array(self, origin: Origin | None) -> Array | None:
        if origin is None:
            return None
        with self._lock:
            if origin not in self._arrays:
                self._arrays[origin] = None  # also while it is computed
                self._arrays[origin] = self.frontend.constant(origin)
                if self._arrays[origin] is None:
                    self._record(origin)
            return self._arrays[origin]

    def _record(self, origin: Origin) -> None:
        """Let the reference compute a value: with all others of its program, else alone."""
        for more in (True, False):
            program = self.frontend.returning([origin], more=more)
            texts = self.compute(program[0]) if program else None
            if program and texts and len(texts) == len(program[1]):
                for other, text in zip(program[1], texts, strict=True):
                    if self._arrays.get(other) is None:
                        self._arrays[other] = read_value(text)
                return

    def simplify_values(self, candidate: Candidate, test: InterestingnessTest) -> Candidate:
        """Replace values by plainer ones."""
        candidate = self.bound(candidate) or candidate
        run = candidate.case.run
        assert run is not None
        for index in range(len(run.inputs)):
            for simple in self._simpler(candidate, index):
                if test.first([simple]) is not None:
                    candidate = simple
                    break
            candidate = self._zeroed(candidate, index, test)
        return candidate

    def _simpler(self, candidate: Candidate, index: int) -> Iterator[Candidate]:
        """Replace one value by ones of a single number, by small whole numbers, then by rounded ones."""
        array = self._value(candidate, index)
        if array is None or (array == array.flat[:1]).all():
            return
        whole = np.isfinite(array).all() and array.dtype.kind == "f"
        plain = [np.full_like(array, number) for number in (1, 0, array.flat[0])]
        plain += [(np.arange(array.size) % 7).reshape(array.shape).astype(array.dtype)]
        plain += [np.round(array), np.round(array, 1)] if whole else []
        yield from (self._with_value(candidate, index, other) for other in plain if not np.array_equal(other, array))

    def _zeroed(self, candidate: Candidate, index: int, test: InterestingnessTest) -> Candidate:
        """Replace as many elements of a small value by zero as possible."""
        array = self._value(candidate, index)
        if array is None or not 1 < array.size <= _MOST_ZEROED or (array == array.flat[0]).all():
            return candidate

        def build(kept: Sequence[int]) -> Candidate:
            zeroed = np.zeros_like(array)
            zeroed.flat[list(kept)] = array.flat[list(kept)]
            return self._with_value(candidate, index, zeroed)

        return minimise(candidate, [int(position) for position in np.flatnonzero(array)], build, test, whole=False)

    def _value(self, candidate: Candidate, index: int) -> Array | None:
        assert candidate.case.run is not None
        array = read_value(candidate.case.run.inputs[index])
        return array if array is not None and array.size else None

    def _with_value(self, candidate: Candidate, index: int, array: Array) -> Candidate:
        run = candidate.case.run
        assert run is not None
        text = self.text(array, element_of(run.inputs[index]))
        inputs = (*run.inputs[:index], text, *run.inputs[index + 1 :])
        return Candidate(candidate.document, replace(candidate.case, run=replace(run, inputs=inputs)))


def fitted(array: Array | None, shape: Sequence[int | None], kind: str) -> Array | None:
    """Return an array in another shape and type: its first elements of each dimension, else its elements in their order.

    An unknown size is that of the array. Without an array the elements are zeros and ones. None when a size remains unknown.
    """
    if array is not None and array.ndim == len(shape):
        shape = [size if wanted is None else wanted for size, wanted in zip(array.shape, shape, strict=True)]
    sizes = [size for size in shape if size is not None]
    if len(sizes) != len(shape):
        return None
    if array is None or not array.size:
        array = np.arange(max(1, math.prod(sizes))) % 2
    elif array.ndim == len(sizes):
        array = array[tuple(slice(size) for size in sizes)]
    with np.errstate(all="ignore"):
        return np.resize(array, sizes).astype(np.dtype(kind))
