"""Who looks after a failure, by the rules in `owners` of a project file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from triage.bisect.result import Answer
from triage.investigate.result import FailureCluster
from triage.model.revision import FamilyRef
from triage.nightly.result import Night
from triage.toolchains.sources.base import fits_any
from triage.toolchains.sources.project import FILE, OwnerRule, load_project


def owner_rules(family: str, project: Path | None) -> Sequence[OwnerRule]:
    """Return the rules for a compiler family. BadFiles if the file has mistakes.

    project: named by the user (default: `triage.yaml` in the current folder, if any).
    """
    path = project or Path(FILE)
    if project is None and not path.is_file():
        return ()
    found = load_project(path)
    if found.compiler in (family, FamilyRef.parse(family).kind):
        return found.owners
    return ()


def with_owners(night: Night, rules: Sequence[OwnerRule]) -> Night:
    """Return a night whose failures have owners."""
    suites = {case.case: case.suite for case in night.cases}
    clusters = []
    for cluster in night.clusters:
        own = {suites[name] for name in cluster.cases if name in suites}
        clusters.append(replace(cluster, owner=owner_of(cluster, own, rules)))
    return replace(night, clusters=clusters)


def owner_of(
    cluster: FailureCluster, suites: Collection[str], rules: Sequence[OwnerRule]
) -> str | None:
    """Return the owner of a failure. What is known most exactly decides: the files of
    the culprit, then the pass and its files, the backend, the suites.
    """
    for key, names in _known_of(cluster, suites):
        for rule in reversed(rules):
            patterns = getattr(rule, key)
            if any(fits_any(name, patterns) for name in names):
                return rule.owner
    return None


def _known_of(
    cluster: FailureCluster, suites: Collection[str]
) -> Iterator[tuple[str, Collection[str]]]:
    """Yield what is known of a failure with the key of its patterns, the most exact
    first.
    """
    culprit, found = cluster.culprit, cluster.attribution
    if culprit and culprit.status is Answer.CULPRIT:
        yield "files", [path for each in culprit.suspects for path in each.files]
    if found:
        yield "passes", [suspect.name for suspect in found.suspects]
        yield "files", found.files
    if cluster.failure and cluster.failure.failing_pass:
        yield "passes", [cluster.failure.failing_pass]
    yield "backends", [cluster.backend]
    yield "suites", suites
