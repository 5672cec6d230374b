"""Compare failures with the one that is chased, and the results of a run with the
expected ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING

from triage.model.case import RunSpec
from triage.model.outcome import (
    MACHINE_CAUSES,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Passed,
    Verdict,
)
from triage.recipes.run_values import (
    TEXT,
    TOLERANCES,
    element_name,
    is_scalar,
    read_value,
    split_value,
    type_name,
    with_file_digest,
)

if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    Array = np.ndarray[Any, Any]


_LONGEST_WORD = 60  # characters that are shown

# Failures

Match = Callable[[Failure], bool]


def same_signature(reference: Failure) -> Match:
    """Match failures with the signature of `reference`."""
    return lambda failure: failure.signature == reference.signature


NOT_NUMBERS = ("nan", "inf")
_CLEAR_RELATIVE_ERROR = 0.01  # a relative error that no rounding explains


def same_wrong_result(reference: Failure) -> Match:
    """Match wrong results of the same kind: another shape, NaN, infinity, or numbers
    that are off by about as much.

    Of numbers a tenth of the error is enough, at most a hundredth of the value. The
    index of the result may differ.
    """
    kind, error = kind_of_wrong_result(reference)

    def matches(failure: Failure) -> bool:
        other, seen = kind_of_wrong_result(failure)
        if failure.failure_class != reference.failure_class or other != kind:
            return False
        if seen is None or error is None:
            return True
        return seen >= min(_CLEAR_RELATIVE_ERROR, error / 10)

    return matches


def same_family(reference: Failure) -> Match:
    """Match any class of the family: for a root cause whose class changes between
    releases.
    """
    return lambda failure: failure.family == reference.family


def same_class(reference: Failure) -> Match:
    """Match any signature of the class."""
    return lambda failure: failure.failure_class == reference.failure_class


def any_failure(_: Failure) -> bool:
    """Match every failure."""
    return True


MATCHES: Mapping[str, Callable[[Failure], Match]] = {
    "signature": same_signature,
    "class": same_class,
    "family": same_family,
    "any": lambda _: any_failure,
}
"""What failures that are the same have in common."""


def verdict_of(outcome: Outcome, match: Match) -> Verdict:
    """Return the verdict on the failure that `match` recognises; another failure and a
    flaky one are skipped.
    """
    if (
        isinstance(outcome, Failed)
        and not outcome.flaky
        and any(map(match, (outcome.failure, *outcome.others)))
    ):
        return Verdict.BAD
    if isinstance(outcome, Passed):
        return Verdict.GOOD
    return Verdict.SKIP


def _is_refusal(outcome: Outcome) -> bool:
    """Return whether the compiler refused the case: it lacks a name or a flag, or
    cannot read the input.
    """
    if not isinstance(outcome, NoAnswer) or outcome.cause in MACHINE_CAUSES:
        return False
    return outcome.failure is not None  # what the compiler printed


def verdict_on_passing(outcome: Outcome, match: Match) -> Verdict:
    """Return the verdict among commits of one repository, where a refusal is what a
    commit did: it counts as a failure.
    """
    if _is_refusal(outcome):
        return Verdict.BAD
    return verdict_of(outcome, match)


def kind_of_wrong_result(failure: Failure) -> tuple[str, float | None]:
    """Return the kind of a wrong result (`metadata` for another shape, `nan`, `inf`,
    `numbers`), and for numbers their largest error.

    The error is the relative one, or the absolute one if that is 0.
    """
    details = failure.details
    if "kind" in details:
        return str(details["kind"]), None
    for kind in NOT_NUMBERS:
        if details.get(kind):
            return kind, None
    for name in ("max_rel_error", "max_abs_error"):
        error = float(details.get(name, 0))
        if error:
            return "numbers", error
    return "numbers", 0.0


# Results


def first_wrong_result(
    results: Sequence[str], expected: Sequence[str], spec: RunSpec
) -> tuple[str, dict[str, float]]:
    """Return a line on the first wrong result, as IREE prints it, and numbers on it;
    both are empty if none is wrong.
    """
    for index, (actual, wanted) in enumerate(zip(results, expected, strict=False)):
        numbers = compare_values(actual, wanted, spec)
        if not numbers:
            return _shapes_differ(index, _type_text(actual), _type_text(wanted)), {}
        if not numbers["mismatches"]:
            continue
        element = int(numbers["element"])
        got, want = (_number_text(text, element) for text in (actual, wanted))
        line = (
            f"[FAILED] result[{index}]: element at index {element} ({got}) does not "
            f"match the expected ({want})"
        )
        return line, {"output": float(index), **numbers}
    counts = len(results), len(expected)
    if counts[0] == counts[1]:
        return "", {}
    texts = [f"{count} results" for count in counts]
    return _shapes_differ(min(counts), *texts), {}


def _shapes_differ(index: int, actual: str, expected: str) -> str:
    problem = f"[FAILED] result[{index}]: metadata is {actual}"
    return f"{problem}; expected that the view matches {expected}"


def compare_values(actual: str, expected: str, spec: RunSpec) -> dict[str, float]:
    """Compare two results: `elements`, `mismatches`, `nan`, `inf`, `max_abs_error`,
    `max_rel_error`, and the index of the first mismatch as `element`.

    `nan` and `inf` count the elements that have become so. Results of different shapes
    have no numbers, nor have those of a type that is not read, unless they are equal.
    """
    import numpy as np

    actual_array = read_value(actual)
    expected_array = read_value(expected)
    if actual_array is None or expected_array is None:
        with suppress(OSError):  # one is missing
            if with_file_digest(actual) == with_file_digest(expected):
                return {"mismatches": 0.0}
        return {}
    element = element_name(actual_array)
    if element == element_name(expected_array) == TEXT:
        return _different_words(actual_array, expected_array)
    if actual_array.shape != expected_array.shape:
        return {}
    if spec.closeness is None and actual_array.dtype != expected_array.dtype:
        if is_scalar(expected):
            expected_array = expected_array.astype(actual_array.dtype)
        elif _are_integers_of_one_size(actual_array, expected_array):
            # 255 and -1 are the same i8
            expected_array = expected_array.view(actual_array.dtype)
        else:
            return {}
    allowed = {**TOLERANCES, **dict(spec.tolerances)}
    relative, absolute, equal_nan = spec.closeness or (
        allowed["relative"] if element in allowed else 0.0,
        allowed.get(element, 0.0),
        True,
    )
    got, want = (
        _as_exact_floats(array.ravel()) for array in (actual_array, expected_array)
    )
    with np.errstate(all="ignore"):
        wrong = ~np.isclose(got, want, relative, absolute, equal_nan)
        error = np.abs(got - want)
        size = np.abs(want)
        ratios = error / size
    numbers = {
        "elements": float(got.size),
        "mismatches": float(wrong.sum()),
        "nan": float((np.isnan(got) & ~np.isnan(want)).sum()),
        "inf": float((np.isinf(got) & ~np.isinf(want)).sum()),
        "max_abs_error": _largest(error),
        "max_rel_error": _largest(ratios[np.isfinite(size)]),
    }
    if wrong.any():
        numbers["element"] = float(wrong.argmax())
    return numbers


def _largest(errors: Array) -> float:
    """Return the largest finite error; 0 without one."""
    import numpy as np

    return float(errors[np.isfinite(errors)].max(initial=0.0))


def _different_words(read: Array, wanted: Array) -> dict[str, float]:
    """Compare words, those of the longer result with nothing."""
    pairs = list(zip_longest(read, wanted))
    wrong = [index for index, (word, other) in enumerate(pairs) if word != other]
    numbers = {"elements": float(len(pairs)), "mismatches": float(len(wrong))}
    if wrong:
        return {"element": float(wrong[0]), **numbers}
    return numbers


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


def _number_text(text: str, element: int) -> str:
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
