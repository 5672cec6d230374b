"""The syntax of revisions (REV), such as `3.4.0`, `triton:latest` and `nightly:2025-06-04`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from triage.model.errors import BadInput

_FORMS = "`3.13.0`, `latest`, `previous`, `installed`, `nightly:2025-06-04`, or `path:DIR-OR-BINARY`"


@dataclass(frozen=True, slots=True)
class VersionNumber:
    """A release or pre-release by its version."""

    version: str


@dataclass(frozen=True, slots=True)
class RecentRelease:
    """The newest release, or the one `back` releases before it."""

    back: int


@dataclass(frozen=True, slots=True)
class BesideProgram:
    """The compiler that is installed in this program's environment."""


@dataclass(frozen=True, slots=True)
class LocalPath:
    """A folder with a compiler, or its binary."""

    path: Path


@dataclass(frozen=True, slots=True)
class NightlyOfDay:
    """The nightly of a day, or the `latest` one."""

    day: str


Rev = VersionNumber | RecentRelease | BesideProgram | LocalPath | NightlyOfDay


def parse_rev(text: str, families: tuple[str, ...]) -> tuple[str | None, Rev]:
    """Parse a REV.

    Args:
        text: The REV, such as `iree:3.4.0`.
        families: The names of compiler families that may be prefixes.

    Returns:
        The family of the prefix (None without one), and the revision.

    Raises:
        BadInput: the text is no REV.
    """
    # The longest prefix: the name of a family may contain a colon.
    family = max((name for name in families if text.startswith(f"{name}:")), key=len, default=None)
    if family is not None:
        text = text.removeprefix(f"{family}:")
    head, colon, rest = text.partition(":")
    match head if colon else text:
        case "latest":
            return family, RecentRelease(0)
        case "previous":
            return family, RecentRelease(1)
        case "installed":
            return family, BesideProgram()
        case "path" if rest:
            return family, LocalPath(Path(rest).expanduser())
        case "nightly" if rest:
            return family, NightlyOfDay(rest)
        case "commit":
            raise BadInput(f"{text!r}: a commit needs a clone, which `bisect` and `suspects` take with --repo; use {_FORMS}")
    if re.match(r"v?\d", text):
        from packaging.version import InvalidVersion, Version

        try:
            return family, VersionNumber(str(Version(text)))
        except InvalidVersion:
            pass
    hint = f" (for a folder write `path:{text}`)" if Path(text).exists() else ""
    raise BadInput(f"{text!r} is not a revision: write {_FORMS}{hint}")
