"""The values that smaller programs are run with: those of the original case, and a pattern of small numbers for others."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from triage.compilers.values import array_type, element_of, file_value, read_value, value_bytes, value_text
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate
from triage.toolchains.home import disk_errors, write_whole

Array = np.ndarray[Any, Any]


@dataclass
class ArgumentValues:
    """Chooses the values of a candidate's arguments."""

    folder: Path
    """Gets files of values."""
    _arrays: dict[Hashable, Array] = field(default_factory=dict)

    def start(self, candidate: Candidate) -> Candidate | None:
        """Remember the values of the case for the program's arguments, and return the candidate without them.

        Returns None when the program takes other arguments.
        """
        run = candidate.case.run
        entry = candidate.document.entry(run.function) if run else None
        if run is None or entry is None or len(entry.arguments) != len(run.inputs):
            return None
        for (origin, _), text in zip(entry.arguments, run.inputs, strict=True):
            array = read_value(text)
            if array is None:
                return None
            self._arrays[origin] = array
        return Candidate(candidate.document, replace(candidate.case, run=replace(run, inputs=())))

    def bound(self, candidate: Candidate) -> Candidate | None:
        """Return the candidate with values for its arguments, or None when an argument can have none."""
        run = candidate.case.run
        assert run is not None
        entry = candidate.document.entry(run.function)
        if entry is None:
            return None
        texts = run.inputs or [self._text(origin, type_) for origin, type_ in entry.arguments]
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
                write_whole(path, content)
        return file_value(path)

    def _text(self, origin: Hashable, type_: str) -> str | None:
        known = array_type(type_)
        if known is None:
            return None
        shape, kind, element = known
        array = fitted(self._arrays.get(origin), shape, kind)
        return None if array is None else self.text(array, element)

    def simplify_values(self, candidate: Candidate, test: InterestingnessTest) -> Candidate:
        """Replace values by plainer ones."""
        candidate = self.bound(candidate) or candidate
        assert candidate.case.run is not None
        for index in range(len(candidate.case.run.inputs)):
            candidate = test.first(self._simpler(candidate, index)) or candidate
        return candidate

    def _simpler(self, candidate: Candidate, index: int) -> Iterator[Candidate]:
        """Replace one value by ones of a single number, by small whole numbers, then by rounded ones."""
        run = candidate.case.run
        assert run is not None
        array = read_value(run.inputs[index])
        if array is None or not array.size or (array == array.flat[:1]).all():
            return
        plain = [np.full_like(array, number) for number in (1, 0, array.flat[0])]
        plain += [(np.arange(array.size) % 7).reshape(array.shape).astype(array.dtype)]
        plain += [np.round(array), np.round(array, 1)] if np.isfinite(array).all() and array.dtype.kind == "f" else []
        for other in plain:
            if not np.array_equal(other, array):
                text = self.text(other, element_of(run.inputs[index]))
                inputs = (*run.inputs[:index], text, *run.inputs[index + 1 :])
                yield Candidate(candidate.document, replace(candidate.case, run=replace(run, inputs=inputs)))


def fitted(array: Array | None, shape: Sequence[int | None], kind: str) -> Array | None:
    """Return an array in another shape and type: its first elements of each dimension, else its elements in their order.

    An unknown size is that of the array. Without an array the elements are -1, 0, 1 and 2, or 0 and 1 where they may be
    indices. None when a size remains unknown.
    """
    if array is not None and array.ndim == len(shape):
        shape = [size if wanted is None else wanted for size, wanted in zip(array.shape, shape, strict=True)]
    sizes = [size for size in shape if size is not None]
    if len(sizes) != len(shape):
        return None
    if array is None or not array.size:
        array = np.arange(4) - 1 if np.dtype(kind).kind == "f" else np.arange(2)
    elif array.ndim == len(sizes):
        array = array[tuple(slice(size) for size in sizes)]
    with np.errstate(all="ignore"):
        return np.resize(array, sizes).astype(np.dtype(kind))
