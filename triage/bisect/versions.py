"""The toolchains between two others in the order of their versions: releases, and nightlies if an end is not a release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from triage.model.errors import BadInput, EnvironmentFailure
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Two toolchains and what lies between them."""

    refs: tuple[ToolchainRef, ...] = ()
    """Both ends and what lies between them, oldest first; empty if nothing can be searched."""
    problem: str | None = None
    """Why it is empty."""
    skipped: str | None = None
    """Why nightlies are left out."""

    @property
    def contents(self) -> str:
        """What lies between the ends: `2 releases and 5 nightlies`."""
        inside = self.refs[1:-1]
        nightlies = sum(ref.is_nightly for ref in inside)
        releases = len(inside) - nightlies
        parts = [f"{releases} release{'' if releases == 1 else 's'}"] if releases or not nightlies else []
        parts += [f"{nightlies} nightl{'y' if nightlies == 1 else 'ies'}"] if nightlies else []
        return " and ".join(parts)


def versions_between(
    registry: ToolchainRegistry, old: ToolchainRef, new: ToolchainRef, *, nightlies: bool = False
) -> VersionRange:
    """Return the toolchains between two others. The version of a local build is the one that it reports.

    nightlies: include them between two releases, too.

    Raises:
        EnvironmentFailure: The releases cannot be listed, or a build does not run.
    """
    versions = []
    for ref in (old, new):
        if (version := _version(registry, ref)) is None:
            return VersionRange(problem=f"{ref.revision.name} reports no version")
        versions.append(version)
    first, last = versions
    if first >= last:
        return VersionRange(problem=f"{new.revision.name} is not newer than {old.revision.name}")
    known, skipped = list(registry.releases(new.family)), None
    if nightlies or not (is_release(known, old) and is_release(known, new)):
        try:
            known += registry.nightlies(new.family)
        except (BadInput, EnvironmentFailure) as error:
            skipped = f"nightlies are left out: {error}"
    inside = {version: ref for ref in known if first < (version := Version(ref.revision.name)) < last}
    return VersionRange((old, *(inside[version] for version in sorted(inside)), new), skipped=skipped)


def is_release(releases: Sequence[ToolchainRef], ref: ToolchainRef) -> bool:
    """Return whether a toolchain is one of the releases."""
    return any(ref.revision.name == release.revision.name for release in releases)


def rev_text(ref: ToolchainRef) -> str:
    """Return the REV that names a toolchain on every day: no `latest` or `previous`."""
    return f"nightly:{ref.revision.date}" if ref.is_nightly and ref.revision.date else ref.revision.name


def _version(registry: ToolchainRegistry, ref: ToolchainRef) -> Version | None:
    text = ref.revision.name if ref.path is None else registry.obtain(ref).version
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None
