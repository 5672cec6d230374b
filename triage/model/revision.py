"""Revisions of a compiler, the compilers installed for them, and the names of compiler
families.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path


@dataclass(frozen=True)
class Revision:
    """A release, nightly or commit."""

    name: str  # as users write it
    commit: str | None = None  # the full sha
    date: str | None = None  # ISO, `YYYY-MM-DD`
    subject: str | None = None

    def is_same(self, other: Revision) -> bool:
        """Return whether both are one compiler, by their commits if they are known."""
        return (self.commit or self.name) == (other.commit or other.name)


class ToolchainKind(StrEnum):
    """Where a toolchain comes from. Nothing is compared across kinds over nights."""

    RELEASE = "release"
    NIGHTLY = "nightly"
    COMMIT = "commit"
    FOLDER = "folder"


@dataclass(frozen=True)
class Capabilities:
    """What a compiler supports, as it reports it. Flags are written without dashes."""

    backends: frozenset[str] = frozenset()
    phases: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()  # the flags that are on or off
    # the words that a flag may take
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    stack_printer_address: int | None = None  # see `processes.crash_stack`


@dataclass(frozen=True)
class Toolchain:
    """One installed compiler."""

    family: str
    revision: Revision
    identity: str  # a hash of its content, part of every key of the result cache
    root: Path
    program: Path  # the native binary
    capabilities: Capabilities
    version: str | None = None  # PEP 440; a local build may report none
    # files and folders that its compiles may read; their content is in `identity`
    reads: tuple[Path, ...] = ()
    # those that others may change, and what tells that they did
    watched: tuple[Path, ...] = ()
    state: str = ""


@dataclass(frozen=True)
class Commit:
    """A commit of a first-parent line."""

    sha: str  # full
    parent: str | None  # the first parent's sha; the root has none
    date: str  # the committer's, ISO 8601 with its offset
    subject: str
    # changed against the first parent: what a merge brought to the line
    files: tuple[str, ...] = ()

    @property
    def revision(self) -> Revision:
        """The commit as a revision; its name is the short sha."""
        return Revision(self.sha[:10], self.sha, self.date[:10], self.subject)


@dataclass(frozen=True)
class FamilyRef:
    """The name of a family. The name `command` alone stands for no compiler: its
    packages or its recipe say which one.

    >>> FamilyRef.parse("command:cython numpy<2")
    FamilyRef(kind='command', packages=('cython', 'numpy<2'), recipe=None)
    >>> str(FamilyRef("command", recipe="opt"))
    'command@opt'
    """

    kind: str
    """The name in the registry."""
    packages: tuple[str, ...] = ()
    """Requirements for the package index. The releases of the first are the timeline.
    """
    recipe: str | None = None
    """The only recipe that uses a compiler without packages."""

    @classmethod
    def parse(cls, text: str) -> FamilyRef:
        """Split a name into its parts."""
        kind, colon, packages = text.partition(":")
        if colon:
            return cls(kind, tuple(packages.split()))
        kind, _, recipe = text.partition("@")
        return cls(kind, recipe=recipe or None)

    def __str__(self) -> str:
        if self.packages:
            return f"{self.kind}:{' '.join(self.packages)}"
        if self.recipe:
            return f"{self.kind}@{self.recipe}"
        return self.kind

    @property
    def prefixes(self) -> tuple[str, str]:
        """What stands before a revision of this family: its name, or that with the
        first package alone.

        >>> FamilyRef.parse("command:numba numpy<2").prefixes
        ('command:numba numpy<2:', 'command:numba:')
        """
        first = replace(self, packages=self.packages[:1])
        return f"{self}:", f"{first}:"

    @property
    def title(self) -> str:
        """What people call the compiler."""
        return " ".join(self.packages) or self.recipe or self.kind
