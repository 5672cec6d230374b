"""JSON shapes that several commands share. Scripts rely on their keys; see `as_json` for how a field becomes a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from triage.execution.judge import status_of
from triage.model import json_form
from triage.model.outcome import Compiled, Detail, Failed, Failure, Outcome, Probe, Untestable
from triage.model.revision import Revision

Json = json_form.Json


def _key(field: str) -> str:
    return field.removesuffix("_")


class Shape:
    """Base of the JSON shapes: dataclasses whose fields are the keys. `class_` becomes `class`."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"alias_generator": _key}


def as_json(shape: Any) -> Json:
    """Return a shape, or the result of a `DocumentReport`, as plain JSON values."""
    from pydantic import TypeAdapter

    values: Json = (
        json_form.as_json(shape)
        if not isinstance(shape, Shape)
        else TypeAdapter(type(shape)).dump_python(shape, mode="json", by_alias=True)
    )
    return values


@dataclass(frozen=True)
class FailureShape(Shape):
    """A failure with its identity and the values its rule captured."""

    class_: str
    family: str
    signature: str
    headline: str
    stage: str
    phase: str | None
    pass_: str | None
    location: str | None
    details: dict[str, Detail]


@dataclass(frozen=True)
class ProbeShape(Shape):
    """A case on a toolchain: one result of `triage run`."""

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


def failure_shape(failure: Failure) -> FailureShape:
    """Convert a failure."""
    return FailureShape(
        class_=failure.failure_class,
        family=failure.family,
        signature=failure.signature,
        headline=failure.headline,
        stage=failure.stage.value,
        phase=failure.phase,
        pass_=failure.failing_pass,
        location=failure.location,
        details=dict(failure.details),
    )


def optional_failure(failure: Failure | None) -> FailureShape | None:
    """Convert a failure where there is one."""
    return failure_shape(failure) if failure else None


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
    )
