"""The name of a compiler family in parts."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FamilyRef:
    """A line of the registry, and which of its compilers is meant if there are several.

    >>> FamilyRef.of("command:cython numpy<2")
    FamilyRef(kind='command', packages=('cython', 'numpy<2'), recipe=None)
    >>> str(FamilyRef("command", recipe="opt"))
    'command@opt'
    """

    kind: str
    """The name in the registry."""
    packages: tuple[str, ...] = ()
    """What the package index has of it; the releases of the first are the timeline."""
    recipe: str | None = None
    """The only recipe that it belongs to."""

    @classmethod
    def of(cls, text: str) -> FamilyRef:
        """Read a name."""
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
    def title(self) -> str:
        """What people call the compiler."""
        return " ".join(self.packages) or self.recipe or self.kind


def split_revision(
    text: str, families: Container[str], default: str
) -> tuple[str, str]:
    """Return the family of a REV such as `FAMILY:3.2.0` or `command:cython:3.0.2`, and
    the REV in that family.
    """
    family, colon, _ = text.rpartition(":")
    while colon:
        if family in families:
            return family, text.removeprefix(f"{family}:")
        family, colon, _ = family.rpartition(":")
    return default, text
