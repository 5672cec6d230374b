"""One attempt of one case at one revision, with all that came of it."""

from __future__ import annotations

from dataclasses import dataclass

from triage.model.case import Case
from triage.model.outcome import Measured, Outcome
from triage.model.revision import Revision


@dataclass(frozen=True, slots=True)
class Probe:
    """The outcome of a case at a revision. `version`: PEP 440, None where unknown; `cached`: nothing was run for it."""

    case: Case
    revision: Revision
    version: str | None
    outcome: Outcome
    measured: Measured
    cached: bool
