"""Phrases that several reports share."""

from __future__ import annotations

import re

from triage.bisect.result import Bisection
from triage.model.outcome import Failure, Untestable
from triage.model.revision import Revision
from triage.nightly.compare import Example, Pair
from triage.reduce.state import NotReproducible

_DESCRIPTION = re.compile(r"#hal\.executable\.target<.*", re.DOTALL)
_BYTES = re.compile(r"(^|_)bytes(_|$)")


def revision_text(revision: Revision | None) -> str:
    """`3.4.0 (aacf93a3f9, 2025-04-30)`, with what is known of it."""
    if revision is None:
        return "?"
    short = revision.commit[:10] if revision.commit and revision.commit[:10] != revision.name else None
    known = [part for part in (short, revision.date) if part]
    return f"{revision.name} ({', '.join(known)})" if known else revision.name


def headline_text(failure: Failure, longest: int = 180) -> str:
    """The compiler's line, cut where a target's whole description is printed in it; the failing pass before it where
    that says more.
    """
    text = _DESCRIPTION.sub("#hal.executable.target<…", failure.headline)
    if failure.failing_pass and text.startswith("failed to run translation"):
        text = f"{failure.failing_pass} failed: {text}"
    return text if len(text) <= longest else text[: longest - 1] + "…"


def numbers_text(failure: Failure) -> str:
    """The captures in one line: `bytes used 286720 (280 KiB), bytes limit 65536 (64 KiB)`."""
    return ", ".join(f"{name.replace('_', ' ')} {_quantity(name, value)}" for name, value in failure.details.items())


def origin_pair(pair: Pair, kind: str) -> str:
    """The two releases between which a change of that kind happened, or that they were not found."""
    for found in pair.bisections:
        if found.kind == kind and found.before and found.after:
            return f"{found.before.name} and {found.after.name}{_doubt(found)}"
    return "not found" if kind == "regression" else ""


def origin_story(found: Bisection) -> str:
    """A bisect's answer in one line."""
    if found.before is None or found.after is None:
        return f"not found: {found.reason}"
    sure = _doubt(found) or " (confirmed by probing both again)"
    return f"{revision_text(found.before)} -> {revision_text(found.after)}{sure}"


def example_text(one: Example, name: str) -> str:
    """What became of the reduction that stands for a case: how small its program is and where, or why there is none."""
    case = one.found.case.name
    of = "" if case == name else f" (of {case}, which fails the same way)"
    if isinstance(one.found, NotReproducible):
        return f"not reduced{of}: {one.found.reason}"
    return f"reduced to {one.found.after}{of}: {one.folder}"


def untestable_reason(pair: Pair) -> str:
    """Which of the two could not be tested, and why."""
    for probe in (pair.probe, pair.baseline):
        if isinstance(probe.outcome, Untestable):
            return f"{probe.revision.name}: {probe.outcome.reason}"
    return "unknown"


def _doubt(found: Bisection) -> str:
    return "" if found.confirmed else f" (one of {', '.join(one.name for one, _ in found.suspects)}, not confirmed)"


def _quantity(name: str, value: str | int) -> str:
    if isinstance(value, int) and _BYTES.search(name) and abs(value) >= 1024:
        return f"{value} ({value / 1024:g} KiB)" if value % 64 == 0 else f"{value} ({value / 1024:.1f} KiB)"
    return str(value)
