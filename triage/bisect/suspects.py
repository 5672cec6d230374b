"""Rank the changes between two revisions by how suspicious a failure makes them.
Nothing is built.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace

from triage.bisect.candidates import pages_of, timeline_with
from triage.bisect.line import suspect_of
from triage.bisect.plan import line_end
from triage.bisect.prior import Clues, suspicions
from triage.bisect.request import BisectRequest
from triage.bisect.result import RankedChange, RankedChanges
from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.git_history.repository import pull_request, title
from triage.model.case import Case
from triage.model.outcome import Failed, Failure

_NUMBER = re.compile(r"\(#(\d+)\)")
_AGAIN = re.compile(
    (
        r'\W*(?:\[[\w ]+\]\s*)*(?:revert|reland|re-land|reapply)\b[:\s]*"?(.*?)"?'
        r"(?:\s*\d+(?:st|nd|rd|th) attempt)?\s*$"
    ),
    re.I,
)


def stored_failures(engine: Engine, case: Case) -> tuple[Failure, ...]:
    """Return the failures of a case on the newest release that has any; compile
    nothing.
    """
    for ref in reversed(engine.registry.installed_releases(case.compiler)):
        probe = engine.recall(ProbeJob(case, ref))
        if probe and isinstance(probe.outcome, Failed):
            return (probe.outcome.failure, *probe.outcome.others)
    return ()


def rank_changes(
    request: BisectRequest, good: str, bad: str, failures: Sequence[Failure]
) -> RankedChanges:
    """Rank all changes between two revisions, the most suspicious first. `failures`
    are those of the case or the log, the most important first.

    Commits of one pull request are one change, together with its reverts and with
    commits that land it again.

    Raises:
        BadInput: A revision does not exist, or the good one is not older.
    """
    project = request.project
    repository = request.repository
    old = line_end(request, good)
    new = line_end(request, bad)
    timeline = timeline_with(repository, new.commit)
    commits = timeline.with_files(timeline.between(old.commit, new.commit))
    suspicion = suspicions(commits, Clues.of(failures), project)
    links = pages_of(request)
    ranked = []
    for group in group_by_change([commit.subject for commit in commits]):
        index = max(group, key=lambda member: (suspicion[member].chance, -member))
        change = replace(
            suspect_of(commits[index], links),
            probability=round(sum(suspicion[member].chance for member in group), 5),
            reasons=suspicion[index].reasons,
        )
        others = tuple(commits[member].sha for member in group if member != index)
        ranked.append(RankedChange(**asdict(change), with_commits=others))
    ranked.sort(key=lambda change: -change.probability)
    return RankedChanges(tuple(ranked), len(commits), next(iter(failures), None))


def group_by_change(subjects: Sequence[str]) -> list[list[int]]:
    """Group the indices of subjects, oldest first: a group is a pull request with its
    reverts and the commits that land it again.
    """
    groups: dict[str, list[int]] = {}
    group_of: dict[str, str] = {}  # by pull request and title
    for index, subject in enumerate(subjects):
        number = pull_request(subject)
        text = title(subject)
        again = False
        while match := _AGAIN.match(text):
            text = match[1].strip()
            again = True
        numbers = [
            f"#{digits}" for digits in (number, *_NUMBER.findall(text)) if digits
        ]
        words = _NUMBER.sub("", text).strip().casefold()
        names = [*numbers, words] if again else numbers
        group = next((group_of[name] for name in names if name in group_of), str(index))
        groups.setdefault(group, []).append(index)
        group_of |= dict.fromkeys((*numbers, words), group)
    return list(groups.values())
