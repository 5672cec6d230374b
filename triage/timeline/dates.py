"""Dates along a line whose clocks are not all right."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time

from triage.model.errors import BadInput


def moment(when: str | date) -> datetime:
    """The last moment that is meant: a day ends at midnight UTC, a time without an offset is UTC. BadInput when the
    text is no ISO date.
    """
    if isinstance(when, str):
        try:
            return moment(date.fromisoformat(when))
        except ValueError:
            pass
        try:
            return moment(datetime.fromisoformat(when))
        except ValueError as error:
            raise BadInput(f"{when!r} is no date: write 2025-06-04 or 2025-06-04T12:00:00+00:00") from error
    if isinstance(when, datetime):
        return when if when.tzinfo else when.replace(tzinfo=UTC)
    return datetime.combine(when, time.max, UTC)


def newest_at(dates: Iterable[str], when: datetime) -> int:
    """The index of the newest commit at or before `when`, -1 when all are later. dates: ISO, oldest commit first.

    One committer with a wrong clock must not move the answer far: it is the place that the fewest dates contradict.
    """
    best, best_index, balance = 0, -1, 0
    for index, text in enumerate(dates):
        balance += -1 if datetime.fromisoformat(text) <= when else 1
        if balance <= best:
            best, best_index = balance, index
    return best_index
