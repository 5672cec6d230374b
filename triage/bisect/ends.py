"""What the two ends of a bisect must be."""

from __future__ import annotations

from triage.model.outcome import Compiled, Failed, Outcome, Untestable


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
