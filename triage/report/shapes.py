"""JSON shapes that several commands share. Scripts rely on their keys; see `as_json` for how a field becomes a key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from triage.execution.judge import status_of
from triage.model import json_form
from triage.model.outcome import Compiled, Failed, Failure, Outcome, Probe, Untestable
from triage.model.revision import Revision
from triage.model.shapes import Shape as Shape

if TYPE_CHECKING:  # slow to import
    from pydantic import TypeAdapter

Json = json_form.Json


def as_json(shape: Any) -> Json:
    """Return a shape, or the result of a `DocumentReport`, as plain JSON values."""
    if not isinstance(shape, Shape):
        return cast(Json, json_form.as_json(shape))
    kind: Any = type(shape)
    values: Json = _adapter(kind).dump_python(shape, mode="json", by_alias=True)
    return values


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


FailureShape = Failure


@dataclass(frozen=True)
class ProbeShape(Shape):
    """A case on a toolchain: one result of `triage run`. foreign: another machine made it, which is not trusted."""

    recipe: str
    case: str
    toolchain: Revision
    status: str
    failure: FailureShape | None
    reason: str | None
    seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    metrics: dict[str, float]
    warnings: list[FailureShape]
    flaky: bool
    cached: bool
    foreign: bool


def failure_shape(failure: Failure) -> Failure:
    """Return the failure, which is written as JSON as it is."""
    return failure


def optional_failure(failure: Failure | None) -> Failure | None:
    """Return the failure, which is written as JSON as it is."""
    return failure


def failure_in(outcome: Outcome) -> FailureShape | None:
    """Convert the failure of an outcome; None when it compiled or the compiler did not run."""
    return None if isinstance(outcome, Compiled) else optional_failure(outcome.failure)


def reason_in(outcome: Outcome) -> str | None:
    """Return why an outcome says nothing about the bug; None when it does."""
    return outcome.reason if isinstance(outcome, Untestable) else None


def probe_shape(probe: Probe) -> ProbeShape:
    """Convert a probe."""
    outcome = probe.outcome
    return ProbeShape(
        recipe=probe.case.recipe,
        case=probe.case.name,
        toolchain=probe.revision,
        status=status_of(probe).value,
        failure=failure_in(outcome),
        reason=reason_in(outcome),
        seconds=probe.measured.seconds,
        cpu_seconds=probe.measured.cpu_seconds,
        peak_rss_mb=probe.measured.peak_rss_mb,
        metrics=dict(probe.measured.metrics),
        warnings=[failure_shape(warning) for warning in outcome.warnings] if isinstance(outcome, Compiled) else [],
        flaky=isinstance(outcome, Failed) and outcome.flaky,
        cached=probe.cached,
        foreign=probe.foreign,
    )
