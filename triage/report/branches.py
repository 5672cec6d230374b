"""The branches of releases, in reports: which of their commits are cherry-picks of which."""

from __future__ import annotations

from collections.abc import Iterable

from triage.git_history import Branch
from triage.git_history.branches import MatchedBy
from triage.report.elements import plural

_COMMITS_SHOWN = 12
_SHORT_SHA = 10  # digits of a sha that name a commit


def branch_facts(branches: Iterable[Branch]) -> Iterable[tuple[str, str]]:
    """Yield a line for each branch, and its commits with what they are cherry-picks of."""
    for branch in branches:
        start, merge = branch.start, MatchedBy.MERGE
        picks = sum(own.matched_by not in (None, merge) for own in branch.commits)
        lines = [
            f"{branch.name} left the main line at {start.sha[:_SHORT_SHA]} ({start.date[:10]}): "
            f"{plural(len(branch.commits), 'commit')} of its own, {plural(picks, 'cherry-pick')}"
        ]
        lines += [
            f"{own.commit.sha[:_SHORT_SHA]} {own.commit.subject}: {own.origin}" for own in branch.commits[:_COMMITS_SHOWN]
        ]
        if (hidden := len(branch.commits) - _COMMITS_SHOWN) > 0:
            lines.append(f"and {hidden} more")
        yield "branch", "\n".join(lines)
