"""The syntax of revisions (REV), such as `3.4.0`, `triton:latest` and `nightly:2025-06-04`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from triage.model.errors import BadInput

_FORMS = "`3.13.0`, `latest`, `previous`, `installed`, `nightly:2025-06-04`, or `path:DIR-OR-BINARY`"


@dataclass(frozen=True, slots=True)
class ParsedRev:
    """A REV in parts. `family`: its prefix, None without one; `value`: the version, the path, or the day of a nightly."""

    family: str | None
    kind: Literal["version", "latest", "previous", "installed", "path", "nightly"]
    value: str = ""


def parse_rev(text: str, families: tuple[str, ...]) -> ParsedRev:
    """Parse a REV such as `iree:3.4.0`. `families`: the names that may be prefixes. BadInput when the text is no REV."""
    # The longest prefix: the name of a family may contain a colon.
    family = max((name for name in families if text.startswith(f"{name}:")), key=len, default=None)
    if family is not None:
        text = text.removeprefix(f"{family}:")
    head, colon, rest = text.partition(":")
    match head if colon else text:
        case "latest":
            return ParsedRev(family, "latest")
        case "previous":
            return ParsedRev(family, "previous")
        case "installed":
            return ParsedRev(family, "installed")
        case "path" if rest:
            return ParsedRev(family, "path", rest)
        case "nightly" if rest:
            return ParsedRev(family, "nightly", rest)
        case "commit":
            raise BadInput(f"{text!r}: a commit needs a clone, which `bisect` and `suspects` take with --repo; use {_FORMS}")
    if re.match(r"v?\d", text):
        from packaging.version import InvalidVersion, Version

        try:
            return ParsedRev(family, "version", str(Version(text)))
        except InvalidVersion:
            pass
    hint = f" (for a folder write `path:{text}`)" if Path(text).exists() else ""
    raise BadInput(f"{text!r} is not a revision: write {_FORMS}{hint}")
