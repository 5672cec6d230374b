"""How a result of a case on a toolchain is shown in tables and lists."""

from __future__ import annotations

from triage.model.probe_result import ProbeResult
from triage.report.document import Span
from triage.report.elements import STYLES, failure_text


def why_text(result: ProbeResult, *, short: bool = False) -> str:
    """Return why a case is untestable, or how it failed; empty if it passed.

    short: only the class of the failure.
    """
    if result.reason is not None:
        return result.reason
    if result.failure is None:
        return ""
    if short:
        text = result.failure.failure_class
    else:
        text = failure_text(result.failure)
    if result.flaky:
        text += " (flaky)"
    return text


def outcome_text(result: ProbeResult) -> str:
    """Return `passed`, `failed: class: headline` or `untestable: reason`."""
    why = why_text(result)
    if why:
        return f"{result.plain_status.value}: {why}"
    return result.plain_status.value


def outcome_spans(
    result: ProbeResult, *, short: bool = False, plain: bool = False
) -> list[str | Span]:
    """Return the status in its colour, and why.

    plain: whatever the recipe expects.
    """
    if plain:
        status = result.plain_status
    else:
        status = result.status
    why = why_text(result, short=short)
    spans: list[str | Span] = [Span(status.value, STYLES[status])]
    if result.reason is not None:
        spans.append(Span(f"  {why}", "dim"))
    elif why:
        spans.append(f"  {why}")
    return spans
