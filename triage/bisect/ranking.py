"""Commits ranked by how suspicious they are, with nothing built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triage.bisect.prior import Clues, Reason, commit_prior, explain
from triage.model.commit import Commit
from triage.timeline import Span, Timeline, pull_request


@dataclass(frozen=True, slots=True)
class Suspect:
    """One commit of a range. probability: of being the culprit, by the prior alone; url: its pull request or page."""

    commit: Commit
    probability: float
    reasons: tuple[Reason, ...]
    pull_request: int | None
    url: str | None


def rank(timeline: Timeline, span: Span, clues: Clues, project: str | None, top: int | None = None) -> Sequence[Suspect]:
    """The span's commits, the most suspicious first; the `top` first of them, all when None."""
    commits = timeline.with_files(span.indices)
    chances = commit_prior(commits, clues, project)
    order = sorted(range(len(commits)), key=lambda index: (-chances[index], index))[:top]
    links = timeline.links
    found: list[Suspect] = []
    for index in order:
        commit = commits[index]
        number = pull_request(commit.subject)
        url = (links.pull(number) if number else links.commit(commit.sha)) if links else None
        found.append(Suspect(commit, float(chances[index]), explain(commits, index, clues, project), number, url))
    return found
