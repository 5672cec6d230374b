"""Suggestions for mistyped words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def closest(word: str, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str | None:
    """The known word nearest to `word`, ignoring case; None when none is near. aliases: words with an exact meaning."""
    from difflib import get_close_matches

    lowered = word.strip().lower()
    if aliases and lowered in aliases:
        return aliases[lowered]
    by_lower = {candidate.lower(): candidate for candidate in sorted(known, reverse=True)}
    similar = get_close_matches(lowered, sorted(by_lower), n=1, cutoff=0.6)
    longer = sorted((name for name in by_lower if lowered and name.startswith(lowered)), key=len)
    return next((by_lower[name] for name in (*similar, *longer)), None)


def did_you_mean(word: str, known: Iterable[str], aliases: Mapping[str, str] | None = None) -> str:
    """`; did you mean "x"?` to continue a clause, or `.` when no known word is near."""
    nearest = closest(word, known, aliases)
    return f'; did you mean "{nearest}"?' if nearest is not None else "."
