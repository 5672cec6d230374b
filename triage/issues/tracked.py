"""An issue that stands for a failure signature: its hidden marker, and the events in its comments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from triage.model.revision import Revision

_MARKER = re.compile(r"<!-- triage (\{.*?\}) -->")


@dataclass(frozen=True, slots=True)
class Marker:
    """What an issue remembers of its failure. toolchain: the last one that an issue or a comment was written for."""

    signature: str
    cases: tuple[str, ...]
    toolchain: Revision

    def text(self) -> str:
        """Return the marker as an HTML comment, which GitHub does not show."""
        revision = self.toolchain
        return hidden(
            {
                "signature": self.signature,
                "toolchain": revision.name,
                "commit": revision.commit,
                "date": revision.date,
                "cases": self.cases,
            }
        )

    def reaches(self, revision: Revision) -> bool:
        """Return whether a compiler is at least as new as the one that the issue knows."""
        known = self.toolchain
        if known.date and revision.date:
            return revision.date >= known.date
        return not is_older(revision.name, known.name)


@dataclass(frozen=True, slots=True)
class TrackedIssue:
    """An issue with the marker of this program. state_reason, closed_at: as GitHub has them, of a closed issue; events: what
    this program has commented on.
    """

    number: int
    title: str
    body: str
    marker: Marker
    is_open: bool = True
    state_reason: str | None = None
    closed_at: str | None = None
    events: frozenset[str] = frozenset()

    def with_marker(self, marker: Marker) -> str:
        """Return the body with another marker."""
        return _MARKER.sub(lambda _: marker.text(), self.body, count=1)


def hidden(values: Mapping[str, object]) -> str:
    """Return values as an HTML comment that no text in them can end."""
    return f"<!-- triage {json.dumps(values).replace('<', chr(92) + 'u003c').replace('>', chr(92) + 'u003e')} -->"


def marker_in(body: str) -> Marker | None:
    """Return the marker in an issue's body; None when it has none, or somebody changed it."""
    values = _hidden_in(body)
    signature, cases = values.get("signature"), values.get("cases")
    if not isinstance(signature, str) or not isinstance(cases, list):
        return None
    name, commit, date = (
        value if isinstance(value := values.get(key), str) else None for key in ("toolchain", "commit", "date")
    )
    return Marker(signature, tuple(case for case in cases if isinstance(case, str)), Revision(name or "", commit, date))


def is_older(name: str, other: str) -> bool:
    """Return whether both names are versions and the first is older."""
    try:
        return Version(name) < Version(other)
    except InvalidVersion:
        return False


def event_in(body: str) -> str | None:
    """Return the event that a comment of this program is about."""
    event = _hidden_in(body).get("event")
    return event if isinstance(event, str) else None


def _hidden_in(body: str) -> Mapping[str, Any]:
    match = _MARKER.search(body)
    try:
        values = json.loads(match[1]) if match else {}
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
