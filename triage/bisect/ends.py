"""What the two ends of a bisect must be, and what failure that makes it chase."""

from __future__ import annotations

from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Failure, Outcome, Untestable
from triage.recipes import matches


def wrong_end(name: str, outcome: Outcome, *, must_fail: bool) -> str | None:
    """Why `name` cannot be an end of the search with this outcome; None when it can."""
    match outcome:
        case Untestable(reason=reason):
            return f"{name} cannot be tested: {reason}"
        case Failed(flaky=True):
            return f"{name} does not give the same result twice"
        case Failed(failure=failure) if not must_fail:
            return f"{name} was to compile but fails: {failure.headline}"
        case Compiled() if must_fail:
            return f"{name} was to fail but compiles"
    return None


def chased(case: Case, failure: Failure) -> str:
    """Which failure the ends have a bisect chase, with a hint where it may not be the one that was meant."""
    told = f"{case.name}: chasing {failure.failure_class}: {failure.headline}"
    hint = unexpected(case, failure)
    return f"{told}\n{hint}" if hint else told


def unexpected(case: Case, failure: Failure) -> str | None:
    """A hint where the recipe expects other failures than this one; None where it expects it, or none at all, and of a
    number, which no recipe expects.
    """
    known = dict.fromkeys(one.failure for one in case.expect)
    if not known or failure.family == "metric" or any(matches(one, failure.failure_class, failure.family) for one in known):
        return None
    return (
        f"The recipe expects {' or '.join(known)}, and this is {failure.failure_class}: to chase what is expected, name an end "
        "that fails so."
    )
