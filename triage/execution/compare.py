"""Compare the results of a run with the expected ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.case import RunSpec
from triage.recipes.run_values import (
    TEXT,
    TOLERANCES,
    element_name,
    file_value,
    is_scalar,
    read_value,
    split_value,
    type_name,
)

if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    Array = np.ndarray[Any, Any]


_LONGEST_WORD = 60  # characters that are shown


def first_wrong(
    files: Sequence[Path], expected: Sequence[str], spec: RunSpec
) -> tuple[str, dict[str, float]]:
    """Return a line on the first wrong result, as IREE prints it, and numbers on it;
    both are empty if none is wrong.
    """
    for index, (file, wanted) in enumerate(zip(files, expected, strict=False)):
        actual = file_value(file)
        numbers = differences(actual, wanted, dict(spec.tolerances), spec.closeness)
        if not numbers:
            return _shapes_differ(index, _type_text(actual), _type_text(wanted)), {}
        if not numbers["mismatches"]:
            continue
        element = int(numbers["element"])
        got, want = (number_text(text, element) for text in (actual, wanted))
        line = (
            f"[FAILED] result[{index}]: element at index {element} ({got}) does not "
            f"match the expected ({want})"
        )
        return line, {"output": float(index), **numbers}
    counts = len(files), len(expected)
    if counts[0] == counts[1]:
        return "", {}
    texts = [f"{count} results" for count in counts]
    return _shapes_differ(min(counts), *texts), {}


def _shapes_differ(index: int, actual: str, expected: str) -> str:
    problem = f"[FAILED] result[{index}]: metadata is {actual}"
    return f"{problem}; expected that the view matches {expected}"


def differences(
    actual: str,
    expected: str,
    tolerances: Mapping[str, float],
    closeness: tuple[float, float, bool] | None = None,
) -> dict[str, float]:
    """Compare two results: `elements`, `mismatches`, `nan`, `inf`, `max_abs_error`,
    `max_rel_error`, and the index of the first mismatch as `element`.

    `nan` and `inf` count the elements that have become so. Results that cannot be read,
    or have different shapes, have no numbers. `tolerances` has those that differ from
    the defaults, by element type. `closeness` replaces them, see `RunSpec`.
    """
    import numpy as np

    read, wanted = read_value(actual), read_value(expected)
    if read is None or wanted is None:
        return {}
    if element_name(read) == element_name(wanted) == TEXT:
        return _different_words(read, wanted)
    if read.shape != wanted.shape:
        return {}
    if closeness is None and read.dtype != wanted.dtype:
        if is_scalar(expected):
            wanted = wanted.astype(read.dtype)
        elif _are_integers_of_one_size(read, wanted):
            wanted = wanted.view(read.dtype)  # 255 and -1 are the same i8
        else:
            return {}
    element, allowed = element_name(read), {**TOLERANCES, **tolerances}
    relative, absolute, equal_nan = closeness or (
        allowed["relative"] if element in allowed else 0.0,
        allowed.get(element, 0.0),
        True,
    )
    got, want = (_as_exact_floats(array.ravel()) for array in (read, wanted))
    with np.errstate(all="ignore"):
        wrong = ~np.isclose(got, want, relative, absolute, equal_nan)
        error, size = np.abs(got - want), np.abs(want)
        finite = error[np.isfinite(error)]
        has_ratio = np.isfinite(error) & np.isfinite(size) & (size != 0)
        ratios = (error / size)[has_ratio]
    first = {}
    if wrong.any():
        first = {"element": float(np.flatnonzero(wrong)[0])}
    return {
        **first,
        "elements": float(got.size),
        "mismatches": float(np.count_nonzero(wrong)),
        "nan": float(np.count_nonzero(np.isnan(got) & ~np.isnan(want))),
        "inf": float(np.count_nonzero(np.isinf(got) & ~np.isinf(want))),
        "max_abs_error": float(finite.max(initial=0.0)),
        "max_rel_error": float(ratios.max(initial=0.0)),
    }


def _different_words(read: Array, wanted: Array) -> dict[str, float]:
    """Compare words, those of the longer result with nothing."""
    pairs = list(zip_longest(read, wanted))
    wrong = [index for index, (word, other) in enumerate(pairs) if word != other]
    numbers = {"elements": float(len(pairs)), "mismatches": float(len(wrong))}
    return {"element": float(wrong[0]), **numbers} if wrong else numbers


def _are_integers_of_one_size(read: Array, wanted: Array) -> bool:
    kinds = {read.dtype.kind, wanted.dtype.kind}
    return kinds <= {"i", "u"} and read.dtype.itemsize == wanted.dtype.itemsize


def _as_exact_floats(array: Array) -> Array:
    """Return numbers in a type of floats that holds them exactly; a long double holds
    integers of 64 bits.
    """
    if array.dtype.kind == "c":
        return array.astype("complex128")
    is_long = array.dtype.kind in "iu" and array.dtype.itemsize == 8
    return array.astype("longdouble" if is_long else "float64")


def _type_text(text: str) -> str:
    """Return the type of a value, such as `2x3xf32`."""
    array = read_value(text)
    if array is None:
        return f"{split_value(text).type} that cannot be read".lstrip()
    return type_name(array)


def number_text(text: str, element: int) -> str:
    """Return an element of a value, such as `0.5`, without parentheses."""
    array = read_value(text)
    assert array is not None
    if array.dtype.kind == "U":
        words = [*map(str, array), "nothing"]
        word = words[min(element, array.size)]
        return repr(re.sub(r"[()]", "|", word)[:_LONGEST_WORD])
    number = array.flat[element]
    if array.dtype.kind in "iub":
        return str(int(number))
    if array.dtype.kind == "c":
        return f"{complex(number):g}"
    return f"{float(number):g}"
