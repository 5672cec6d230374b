"""Which failures count as the same, and the verdict that follows."""

from __future__ import annotations

from collections.abc import Callable

from triage.model.outcome import (
    OF_MACHINE,
    Failed,
    Failure,
    NoAnswer,
    Outcome,
    Passed,
    Verdict,
)

Match = Callable[[Failure], bool]


def same_signature(reference: Failure) -> Match:
    """Match failures with the signature of `reference`."""
    return lambda failure: failure.signature == reference.signature


NOT_NUMBERS = ("nan", "inf")
_CLEAR = 0.01  # a relative error that no rounding explains


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
        return seen >= min(_CLEAR, error / 10)

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


def is_refusal(outcome: Outcome) -> bool:
    """Return whether the compiler refused the case: it lacks a name or a flag, or
    cannot read the input.
    """
    if not isinstance(outcome, NoAnswer) or outcome.cause in OF_MACHINE:
        return False
    return outcome.failure is not None  # what the compiler printed


def verdict_on_passing(outcome: Outcome, match: Match) -> Verdict:
    """Return the verdict among commits of one repository, where a refusal is what a
    commit did: it counts as a failure.
    """
    if is_refusal(outcome):
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
    relative, absolute = (
        float(details.get(f"max_{name}_error", 0)) for name in ("rel", "abs")
    )
    return "numbers", relative or absolute
