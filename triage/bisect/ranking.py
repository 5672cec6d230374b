"""Commits ranked by how suspicious they are, with nothing built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triage.bisect.prior import Reason, commit_prior, explain
from triage.bisect.prior_clues import Clues
from triage.git_history import CommitRange, Timeline, pull_request
from triage.git_history.refs import links_of
from triage.model.revision import Commit


@dataclass(frozen=True, slots=True)
class Suspect:
    """One commit of a range. probability: of being the culprit, by the prior alone; url: its pull request or page."""

    commit: Commit
    probability: float
    reasons: tuple[Reason, ...]
    pull_request: int | None
    url: str | None


def rank(
    timeline: Timeline, span: CommitRange, clues: Clues, project: str | None, top: int | None = None, web: str | None = None
) -> Sequence[Suspect]:
    """The span's commits, the most suspicious first; the `top` first of them, all when None. web: the repository's page, where
    the clone names no remote.
    """
    commits = timeline.with_files(span.indices)
    chances = commit_prior(commits, clues, project)
    order = sorted(range(len(commits)), key=lambda index: (-chances[index], index))[:top]
    reasons = explain(commits, clues, project)
    links = timeline.links or links_of(web)
    found: list[Suspect] = []
    for index in order:
        commit = commits[index]
        number = pull_request(commit.subject)
        url = (links.pull(number) if number else links.commit(commit.sha)) if links else None
        found.append(Suspect(commit, float(chances[index]), reasons[index], number, url))
    return found
