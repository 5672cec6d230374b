"""The result of a case on a toolchain, as commands print it and nights store it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from triage.model.execution import Stage
from triage.model.outcome import PASSING, Cause, Failure, Status
from triage.model.revision import Revision


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The result of a case on a toolchain, compared with what its recipe expects.

    All searches, reports and stored nights use this class. `judge.result_of` makes it.
    """

    case: str
    recipe: str
    toolchain: Revision
    status: Status
    stage: Stage | None = None
    """The stage that failed, or the last one; None if the case is untestable."""
    failure: Failure | None = None
    """An untestable case has one, too, if the compiler ran."""
    reason: str | None = None
    """Why it is untestable."""
    cause: Cause | None = None
    """The kind of the reason."""
    flaky: bool = False
    cached: bool = False
    seconds: float = 0.0
    """Wall time of the compile."""
    cpu_seconds: float = 0.0
    peak_rss_mb: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Such as `artifact_bytes`, `run_seconds` and `dispatches`."""
    warnings: tuple[Failure, ...] = ()
    """Failures that the compiler printed although it passed."""

    @property
    def plain_status(self) -> Status:
        """Passed, failed or untestable, whatever the recipe expects."""
        if self.cause is not None or self.status is Status.UNTESTABLE:
            return Status.UNTESTABLE
        if self.status in PASSING:
            return Status.PASSED
        return Status.FAILED

    @property
    def passed(self) -> bool:
        return self.plain_status is Status.PASSED

    @property
    def failed(self) -> bool:
        return self.plain_status is Status.FAILED

    @property
    def untestable(self) -> bool:
        return self.plain_status is Status.UNTESTABLE

    @property
    def state(self) -> tuple[Status, str]:
        """What two results are compared by: the plain status, and the signature of a
        failure.
        """
        if self.failure and self.failed:
            return self.plain_status, self.failure.signature
        return self.plain_status, ""

    @property
    def numbers(self) -> Mapping[str, float]:
        """All measured numbers by name. Costs of a compile that are 0 are left out."""
        own = {
            "compile_seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "peak_rss_mb": self.peak_rss_mb,
        }
        measured = {name: value for name, value in own.items() if value}
        return {**measured, **self.metrics}
