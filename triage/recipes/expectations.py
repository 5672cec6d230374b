"""Which known failures and flags apply to a version, and how lists of known failures change.

A range [since, until) names releases. A nightly such as 3.5.0rc20250604 is built between 3.4.0 and 3.5.0, and a change
"since 3.5.0" appeared in one of these nightlies. Therefore a nightly, like any other pre-release or local build, counts
as the release it leads to: inside `since: "3.5.0"` and outside `until: "3.5.0"`. A bound that names a nightly or a
post-release itself is compared exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from packaging.version import InvalidVersion, Version

from triage.model.case import Case, Expectation, Flag
from triage.model.outcome import Failure
from triage.model.revision import Revision


def expectations_at(case: Case, version: str | None) -> tuple[Expectation, ...]:
    """The expectations that hold for a version, in the recipe's order.

    For an unknown version (None, or text that is not a version) only those without bounds hold: a failure must not be
    excused by a guess.
    """
    return tuple(item for item in case.expect if applies(item, version))


def applies(item: Expectation, version: str | None) -> bool:
    """Whether an expectation holds for a version."""
    return _holds(item.since, item.until, version, unknown=item.since is None and item.until is None)


def expectation_for(case: Case, version: str | None, failure: Failure | None = None) -> Expectation | None:
    """The first expectation that holds for a version; with a failure, the first that also names it."""
    for item in expectations_at(case, version):
        if failure is None or matches(item, failure):
            return item
    return None


def flag_applies(flag: Flag, version: str | None) -> bool:
    """Whether a flag is given to a version.

    An unknown version counts as newer than every release, as most local builds are: it gets flags without `until`. If it is
    older, the compiler reports the unknown flag, and the case is untestable.
    """
    return _holds(flag.since, flag.until, version, unknown=flag.until is None)


def matches(item: Expectation, failure: Failure) -> bool:
    """Whether an expectation names the failure: its stage, and its class or family, where these are given."""
    return item.failure in (None, failure.failure_class, failure.family) and item.stage in (None, failure.stage)


def _holds(since: str | None, until: str | None, version: str | None, *, unknown: bool) -> bool:
    parsed = _parsed(version)
    if parsed is None:
        return unknown
    if since is not None and _before(parsed, Version(since)):
        return False
    return until is None or _before(parsed, Version(until))


def _before(version: Version, bound: Version) -> bool:
    """Whether a version lies before a bound, by its release unless the bound names more than one."""
    if bound.public != bound.base_version:
        return version < bound
    return Version(version.base_version) < bound


@lru_cache(maxsize=256)
def _parsed(version: str | None) -> Version | None:
    if version is None:
        return None
    try:
        return Version(version)
    except InvalidVersion:
        return None


@dataclass(frozen=True, slots=True)
class ObservedCase:
    """What a case did."""

    case: Case
    version: str | None  # pEP 440, if it is known
    failure: Failure | None  # none if the case passed


@dataclass(frozen=True, slots=True)
class ExpectationChange:
    """A change of what is expected of a case: a list or an entry of the file, None for nothing."""

    case: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class LeftCase:
    """A case whose known failures stay as they are, and why."""

    case: str
    reason: str


@dataclass(frozen=True, slots=True)
class UpdatedFile:
    """A file with its changes."""

    path: Path
    old: str
    new: str
    changes: tuple[ExpectationChange, ...] = ()
    left: tuple[LeftCase, ...] = ()  # cases that it cannot describe

    JSON_KEYS: ClassVar = {"old": None, "new": None, "left": None}
    JSON_PROPERTIES: ClassVar = ("diff",)

    @property
    def diff(self) -> str:
        """The changes as a unified diff."""
        name = str(self.path)
        old, new = self.old.splitlines(), self.new.splitlines()
        return "\n".join(unified_diff(old, new, f"{name} (old)", f"{name} (new)", lineterm=""))


@dataclass(frozen=True, slots=True)
class ExpectationUpdate:
    """Files with known failures as the results of a toolchain change them."""

    toolchain: Revision
    files: Sequence[UpdatedFile]
    left: Sequence[LeftCase]
    written: bool  # false with `--dry-run`


def label_of(case: str) -> str:
    """Return the name of a case in a file of known failures: what its brackets hold, or the recipe's name."""
    return case.partition("[")[2].removesuffix("]") or case
