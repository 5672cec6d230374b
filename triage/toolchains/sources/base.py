"""What a source of toolchains is: it has builds for commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Protocol

from triage.git_history.timeline import CommitPosition, Timeline
from triage.model.checks import fits
from triage.model.revision import Revision
from triage.recipes.document import OneOrMore, Text


@dataclass(frozen=True, slots=True)
class Build:
    """A toolchain that a source can provide. It is plain data, so that another machine
    can obtain it.
    """

    source: str
    """The name of the source."""
    revision: Revision
    """Its `commit` is None if only the installed compiler knows it."""
    position: CommitPosition
    """The position of its commit on the timeline, perhaps not exact."""
    seconds: float
    """The estimated time to obtain it; 0 if it is installed."""
    item: str
    """What the source calls it: a version, a sha or an id."""


class Source(Protocol):
    """One way to obtain compilers. Several threads may use it at once."""

    @property
    def name(self) -> str: ...

    def builds(self, timeline: Timeline, indices: range) -> Sequence[Build]:
        """Return the builds of the commits with these indices, the oldest first. A
        commit may have several. Raises EnvironmentFailure if they cannot be listed.
        """

    def obtain(self, build: Build, package: str | None = None) -> Path:
        """Return the folder of a build's toolchain, or of a package that was published
        with it. Install it if it is missing. A source that has no packages returns the
        toolchain's folder.

        Raises:
            Unobtainable: There is no such toolchain or package.
            EnvironmentFailure: It cannot be obtained now.
        """


Url = Annotated[
    Text,
    fits(
        "https?://.+",
        "this is not an address: write one that begins with https://.",
    ),
]
Tag = Annotated[
    Text,
    fits(
        r"[^{}]*\{version\}[^{}]*",
        'this is not a pattern for tags: write {version} once, such as "v{version}".',
    ),
]
Tags = Annotated[tuple[Tag, ...], OneOrMore]


def can_change(path: str, patterns: Sequence[str]) -> bool:
    """Return whether a file can change what the compiler does, by the patterns that a
    project has under `paths`.

    >>> can_change("docs/a.md", ["!docs"]), can_change("src/a.c", ["src", "!*.md"])
    (False, True)
    """
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    fits = not wanted or fits_any(path, wanted)
    return fits and not fits_any(path, unwanted)


def fits_any(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path fits a shell pattern, or is in a folder that does."""
    return any(
        fnmatchcase(path, pattern) or path.startswith(f"{pattern.rstrip('/')}/")
        for pattern in patterns
    )
