"""The branches of releases, in reports: which of their commits are cherry-picks of which."""

from __future__ import annotations

from collections.abc import Iterable

from triage.bisect.result import ReleaseBranch
from triage.git_history.branches import MatchedBy, origin_text
from triage.report.elements import plural

_COMMITS_SHOWN = 12


def branch_facts(branches: Iterable[ReleaseBranch]) -> Iterable[tuple[str, str]]:
    """Yield a line for each branch, and its commits with what they are cherry-picks of."""
    for branch in branches:
        picks = sum(own.matched_by not in (None, MatchedBy.MERGE.name.lower()) for own in branch.commits)
        lines = [
            f"{branch.name} left the main line at {branch.start.name} ({branch.start.date}): "
            f"{plural(len(branch.commits), 'commit')} of its own, {plural(picks, 'cherry-pick')}"
        ]
        for own in branch.commits[:_COMMITS_SHOWN]:
            way = MatchedBy[own.matched_by.upper()] if own.matched_by else None
            lines.append(f"{own.name} {own.subject}: {origin_text([one.name for one in own.picked_from], way)}")
        if (hidden := len(branch.commits) - _COMMITS_SHOWN) > 0:
            lines.append(f"and {hidden} more")
        yield "branch", "\n".join(lines)
