"""Read the name of a compiler family, such as `iree` or `command:cython`."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
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
    def title(self) -> str:
        """What people call the compiler."""
        return " ".join(self.packages) or self.recipe or self.kind


def split_revision(
    text: str, families: Container[str], default: str
) -> tuple[str, str]:
    """Split a revision such as `triton:3.2.0` or `command:cython:3.0.2` into the family
    and the rest. A revision without a family belongs to `default`.

    >>> split_revision("command:cython:3.0.2", {"iree", "command:cython"}, "iree")
    ('command:cython', '3.0.2')
    """
    family, colon, _ = text.rpartition(":")
    while colon:
        if family in families:
            return family, text.removeprefix(f"{family}:")
        family, colon, _ = family.rpartition(":")
    return default, text
