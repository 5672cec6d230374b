"""Decide which known failures and flags apply to a version, and update lists of known
failures.

A range [since, until) names releases. A nightly such as 3.5.0rc20250604 is built
between 3.4.0 and 3.5.0, and a change "since 3.5.0" appeared in one of these nightlies.
Therefore a nightly, like any other pre-release or local build, counts as the release it
leads to: inside `since: "3.5.0"` and outside `until: "3.5.0"`. A bound that names a
nightly or a post-release itself is compared exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.version import Version

from triage.model.case import Case, Expectation, Flag
from triage.model.execution import Stage
from triage.model.fields import UNPRINTED
from triage.model.outcome import Failure, Probe
from triage.model.revision import Revision
from triage.recipes.document import read_document
from triage.recipes.values import parse_version, yaml_text

_TITLE = "# Known failures. `triage expect update` writes this file.\n"
_PASTE = "# Save this as expect.yaml, and write `expect: expect.yaml` in the recipe.\n"


def expectation_for(
    case: Case, version: str | None, failure: Failure | None = None
) -> Expectation | None:
    """Return the first expectation that applies to a version and, if there is a
    failure, names it.

    To an unknown version (None, or text that is not a version), only expectations
    without bounds apply: a failure must not be excused by a guess.
    """
    for item in case.expect:
        is_named = failure is None or names_failure(item, failure)
        if is_named and applies_to(item, version):
            return item
    return None


def applies_to(item: Expectation, version: str | None) -> bool:
    """Return whether an expectation applies to a version. To an unknown version, it
    applies only if it has no bounds.
    """
    has_bounds = item.since is not None or item.until is not None
    return _is_between(item, version, if_unknown=not has_bounds)


def applied_flags(case: Case, version: str | None) -> list[str]:
    """Return the flags of a case that are given to a version.

    An unknown version counts as newer than every release, as most local builds are: it
    gets flags without `until`. If it is older, the compiler reports the unknown flag,
    and the case is untestable.
    """
    return [
        flag.text
        for flag in case.flags
        if _is_between(flag, version, if_unknown=flag.until is None)
    ]


def names_failure(item: Expectation, failure: Failure) -> bool:
    """Return whether an expectation names a failure. An expectation names a class or a
    family, a stage, or both.
    """
    names = (None, failure.failure_class, failure.family)
    return item.failure in names and item.stage in (None, failure.stage)


def expected_class(case: Case) -> str | None:
    """Return the first class or family of failures that a case expects, on whatever
    version.
    """
    return next((item.failure for item in case.expect if item.failure), None)


def _is_between(
    item: Expectation | Flag, version: str | None, *, if_unknown: bool
) -> bool:
    """Return whether a version is in the range of an item. `if_unknown` is the answer
    for an unknown version.
    """
    parsed = parse_version(version)
    if parsed is None:
        return if_unknown
    if item.since and _is_before(parsed, Version(item.since)):
        return False
    return item.until is None or _is_before(parsed, Version(item.until))


def _is_before(version: Version, bound: Version) -> bool:
    """Return whether a version is older than a bound. If the bound is a release,
    candidates and nightlies count as the release they lead to.
    """
    if bound.public == bound.base_version:
        version = Version(version.base_version)
    return version < bound


@dataclass(frozen=True)
class ExpectationChange:
    """A known failure of a case that is added, removed or changed."""

    case: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class UnchangedCase:
    """A case whose known failures stay as they are, and why."""

    case: str
    reason: str


@dataclass(frozen=True)
class UpdatedFile:
    """A file of known failures after its update."""

    path: Path
    changes: Sequence[ExpectationChange]
    paste: str | None = None
    """The key `expect` of a recipe, which its owner edits; null where the file was
    written.
    """
    text: str = field(default="", metadata=UNPRINTED)
    """Of a file that is written."""


@dataclass(frozen=True)
class ExpectationUpdate:
    """The files of known failures that were updated to the results of a toolchain."""

    toolchain: Revision
    files: Sequence[UpdatedFile]
    left: Sequence[UnchangedCase]


def label_of(case: str) -> str:
    """Return the name of a case in a file of known failures: the text in its brackets,
    or else the recipe's name.
    """
    return case.partition("[")[2].removesuffix("]") or case


def updated_expectations(
    recipe: Path, cases: Sequence[Case], observed: Sequence[Probe]
) -> UpdatedFile:
    """Update the known failures of a recipe to what was seen of its cases: in the file
    that it names, or else as a text to paste.
    """
    probes = {probe.case.name: probe for probe in observed}
    changes: list[ExpectationChange] = []
    lines: list[str] = []
    for case in cases:
        entries: Sequence[Expectation] = case.expect
        if case.name in probes:
            entries = _updated_list(probes[case.name], changes)
        if entries:
            lines.append(f"{yaml_text(label_of(case.name))}:\n")
        lines += [f"  - {yaml_text(entry)}\n" for entry in entries]
    text = "".join(lines) or "{}\n"
    file = read_document(recipe, "").data.get("expect")
    if isinstance(file, str):
        return UpdatedFile(recipe.parent / file, changes, text=_TITLE + text)
    return UpdatedFile(recipe, changes, _PASTE + text)


def _updated_list(probe: Probe, changes: list[ExpectationChange]) -> list[Expectation]:
    """Return the known failures of a case. If one is gone, its entry ends at the
    version of the probe. A new failure gets an entry that begins with it. Add what
    changes to `changes`.
    """
    case = probe.case
    version = probe.version
    failure = probe.outcome.failure
    entries: list[Expectation] = []
    for entry in case.expect:
        is_seen = failure is not None and names_failure(entry, failure)
        if is_seen or not applies_to(entry, version):
            entries.append(entry)
            continue
        name = entry.failure or f"stage {entry.stage}"
        after = None
        if version and _is_before(Version(entry.since or "0"), Version(version)):
            entries.append(replace(entry, until=version))
            after = f"{name} until {version}"
        changes.append(ExpectationChange(case.name, name, after))
    if failure and expectation_for(case, version, failure) is None:
        stage = None if failure.stage is Stage.COMPILE else failure.stage
        entries.append(Expectation(failure.failure_class, version, stage=stage))
        changes.append(ExpectationChange(case.name, None, failure.failure_class))
    return entries
