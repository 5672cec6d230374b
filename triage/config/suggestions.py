"""What a mistyped word was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches


def closest(word: str, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str | None:
    """The known word nearest to `word`, an alias's meaning first, letter case ignored; None when nothing is near."""
    lowered = word.strip().lower()
    if aliases and lowered in aliases:
        return aliases[lowered]
    by_lower = {candidate.lower(): candidate for candidate in sorted(known, reverse=True)}
    found = get_close_matches(lowered, sorted(by_lower), n=1, cutoff=0.6)
    if found:
        return by_lower[found[0]]
    longer = sorted((name for name in by_lower if lowered and name.startswith(lowered)), key=len)
    return by_lower[longer[0]] if longer else None


def did_you_mean(word: str, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """`; did you mean "x"?` to go behind a clause, or `.` where nothing is near."""
    nearest = closest(word, known, aliases)
    return f'; did you mean "{nearest}"?' if nearest is not None else "."
