"""How a person names a revision, parsed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from triage.model.errors import BadInput

FORMS = "`3.13.0`, `latest`, `previous`, `installed`, `nightly:2025-06-04`, or `path:DIR-OR-BINARY`"


@dataclass(frozen=True, slots=True)
class AtVersion:
    """A release (or pre-release) by its version."""

    version: str


@dataclass(frozen=True, slots=True)
class Newest:
    """The release `back` places before the newest one."""

    back: int


@dataclass(frozen=True, slots=True)
class Installed:
    """The compiler that came with this program."""


@dataclass(frozen=True, slots=True)
class AtPath:
    """A compiler in a folder, or the binary itself."""

    path: Path


@dataclass(frozen=True, slots=True)
class OfDay:
    """The nightly of a day, or the `latest` one."""

    day: str


Rev = AtVersion | Newest | Installed | AtPath | OfDay


def parse_rev(text: str, families: tuple[str, ...]) -> tuple[str | None, Rev]:
    """The family a prefix names (`iree:3.4.0`; None without one) and the revision. BadInput says which forms there are."""
    family: str | None = None
    named = max((name for name in families if text.startswith(f"{name}:")), key=len, default=None)
    if named is not None:  # the longest: a family's name may hold a colon itself
        family, text = named, text.removeprefix(f"{named}:")
    head, colon, rest = text.partition(":")
    match head if colon else text:
        case "latest":
            return family, Newest(0)
        case "previous":
            return family, Newest(1)
        case "installed":
            return family, Installed()
        case "path" if rest:
            return family, AtPath(Path(rest).expanduser())
        case "nightly" if rest:
            return family, OfDay(rest)
        case "commit":
            raise BadInput(f"{text!r}: a commit needs a clone, which `bisect` and `suspects` take with --repo; here: {FORMS}")
    if re.match(r"v?\d", text):
        try:
            return family, AtVersion(str(Version(text)))
        except InvalidVersion:
            pass
    hint = f" (for a folder write `path:{text}`)" if Path(text).exists() else ""
    raise BadInput(f"{text!r} names no revision: write {FORMS}{hint}")
