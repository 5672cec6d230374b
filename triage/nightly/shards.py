"""Divide the cases of a nightly among machines."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model.case import Case
from triage.model.errors import BadInput


def shard(cases: Sequence[Case], text: str | None) -> tuple[Case, ...]:
    """Return the cases of shard `I/N`, I from 1: every N-th case. Raises BadInput for another text."""
    if text is None:
        return tuple(cases)
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise BadInput(f"--shard {text!r}: write I/N with I from 1 to N, for example 1/4")
    return tuple(cases[int(number) - 1 :: int(count)])
