"""Rank the changes between two revisions by how suspicious a failure makes them.
Nothing is built.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace

from triage.attribute.divergence import AttributionRequest, attribute
from triage.bisect.candidates import suspect_of
from triage.bisect.plan import line_to, range_end
from triage.bisect.prior import Clues, suspicions
from triage.bisect.request import BisectRequest
from triage.bisect.result import RankedChange, RankedChanges
from triage.execution.engine import Engine
from triage.git_history.branches import (
    Branch,
    place_of,
    read_branches,
    same_change,
)
from triage.git_history.repository import Repository, links_of, pull_request, title
from triage.git_history.timeline import Timeline
from triage.model.case import Case
from triage.model.errors import Interrupted, TriageError
from triage.model.outcome import Failure
from triage.model.revision import Commit
from triage.toolchains.registry import ToolchainRef

_TIME_LIMIT = 60.0  # seconds for each of the two compiles that print their IR
_NUMBER = re.compile(r"\(#(\d+)\)")
_AGAIN = re.compile(
    (
        r'\W*(?:\[[\w ]+\]\s*)*(?:revert|reland|re-land|reapply)\b[:\s]*"?(.*?)"?'
        r"(?:\s*\d+(?:st|nd|rd|th) attempt)?\s*$"
    ),
    re.I,
)


def rank_changes(
    request: BisectRequest,
    good: str,
    bad: str,
    failures: Sequence[Failure],
    *,
    compare: bool,
) -> RankedChanges:
    """Rank all changes between two revisions, the most suspicious first. `failures`
    are those of the case or the log, the most important first.

    Commits of one pull request are one change, together with its reverts and with
    commits that land it again. Commits of the good end's branch that the bad end lacks,
    also as cherry-picks, are ranked too.

    compare: the passes of both compilers, if these are installed.

    Raises:
        BadInput: A revision does not exist, or the good one is not older.
    """
    project = request.project
    old, new = range_end(request, good), range_end(request, bad)
    timeline = line_to(request.repository, new.commit)
    ends = [(good, old.commit), (bad, new.commit)]
    branches = read_branches(request.repository, ends)
    span = timeline.between(old.commit, new.commit)
    lost = _lost_commits(timeline, old.commit, span, branches)
    commits = (*lost, *timeline.with_files(span))
    # somebody noticed the failure at a bad end that is a commit or a nightly
    suspected: frozenset[str] = frozenset()
    if compare:
        suspected = _suspected_files(request, old.ref, new.ref)
    clues = Clues.of(failures, suspected, noticed=not new.is_release)
    suspicion = suspicions(commits, clues, project)
    links = links_of(request.repository.remote) or links_of(project.repository)
    ranked = []
    for group in group_by_change([commit.subject for commit in commits]):
        index = max(group, key=lambda member: (suspicion[member].chance, -member))
        places = [place_of(commits[index].sha, branches)]
        if index < len(lost):
            places.append(f"{good} has it, {bad} lacks it")
        change = replace(
            suspect_of(commits[index], links),
            probability=round(sum(suspicion[member].chance for member in group), 5),
            reasons=suspicion[index].reasons,
            place="; ".join(filter(None, places)) or None,
        )
        others = tuple(commits[member].sha for member in group if member != index)
        ranked.append(RankedChange(**asdict(change), with_commits=others))
    ranked.sort(key=lambda change: -change.probability)
    return RankedChanges(tuple(ranked), len(commits), next(iter(failures), None))


def _lost_commits(
    timeline: Timeline, old: str, span: range, branches: Sequence[Branch]
) -> tuple[Commit, ...]:
    """Return the commits of the old end's branch that the new end lacks, the newest
    first. A commit that the new end has as a cherry-pick is left out.

    span: the commits that only the new end has.
    """
    fork = timeline.fork(old)
    present = {
        sha
        for index in span
        for sha in same_change(timeline.commits[index].sha, branches)
    }
    return fork.line.with_files(
        index
        for index in reversed(fork.own)
        if present.isdisjoint(same_change(fork.line.commits[index].sha, branches))
    )


def _suspected_files(
    request: BisectRequest, good: ToolchainRef | None, bad: ToolchainRef | None
) -> frozenset[str]:
    """Return the files that the passes of both compilers point to, if these are
    installed.
    """
    is_installed = request.engine.registry.is_installed
    if not (good and bad and is_installed(good) and is_installed(bad)):
        return frozenset()
    return files_that_diverge(
        request.engine, request.case, good, bad, request.repository
    )


def files_that_diverge(
    engine: Engine,
    case: Case,
    good: ToolchainRef,
    bad: ToolchainRef,
    repository: Repository,
) -> frozenset[str]:
    """Return the files of the passes after which two compilers differ; none if that
    cannot be found out with two compiles of a minute.
    """
    if engine.compilers[case.compiler].passes is None:
        return frozenset()
    request = AttributionRequest(
        case, good, bad, repository, excerpts=False, patience=_TIME_LIMIT
    )
    try:
        return frozenset(attribute(engine, request).files)
    except Interrupted:
        raise
    except TriageError as error:
        names = f"{good.revision.name} and {bad.revision.name}"
        engine.progress.note(f"the passes of {names} cannot be compared: {error}")
        return frozenset()


def group_by_change(subjects: Sequence[str]) -> list[list[int]]:
    """Group the indices of subjects, oldest first: a group is a pull request with its
    reverts and the commits that land it again.
    """
    groups: dict[str, list[int]] = {}
    group_of: dict[str, str] = {}  # by pull request and title
    for index, subject in enumerate(subjects):
        number, text, again = pull_request(subject), title(subject), False
        while match := _AGAIN.match(text):
            text, again = match[1].strip(), True
        numbers = [f"#{each}" for each in (number, *_NUMBER.findall(text)) if each]
        words = _NUMBER.sub("", text).strip().casefold()
        names = [*numbers, words] if again else numbers
        group = next((group_of[name] for name in names if name in group_of), str(index))
        groups.setdefault(group, []).append(index)
        group_of |= dict.fromkeys((*numbers, words), group)
    return list(groups.values())
