"""The branches of releases, in reports: which of their commits are cherry-picks of which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from triage.bisect.candidates import commit_revision
from triage.git_history import Branch, BranchCommit
from triage.git_history.branches import MatchedBy
from triage.model.revision import Revision
from triage.report.elements import plural
from triage.report.shapes import Shape

_COMMITS_SHOWN = 12
_SHORT_SHA = 10  # digits of a sha that name a commit


@dataclass(frozen=True)
class BranchCommitShape(Revision):
    """A commit of a branch. `picked_from` are the commits that it picks; `matched_by` says how they were
    recognised: line, patch, subject or pull_request; or the merge that brought it to the main line (merge).
    """

    picked_from: Sequence[Revision] = ()
    matched_by: str | None = None


@dataclass(frozen=True)
class BranchShape(Shape):
    """A branch that a release lies on, with the commit of the main line that it starts from."""

    name: str
    start: Revision
    commits: list[BranchCommitShape]


def branch_shape(branch: Branch) -> BranchShape:
    """Convert a branch."""
    return BranchShape(branch.name, commit_revision(branch.start), list(map(_commit, branch.commits)))


def _commit(own: BranchCommit) -> BranchCommitShape:
    how = own.matched_by.name.lower() if own.matched_by else None
    originals = list(map(commit_revision, own.originals))
    return BranchCommitShape(**asdict(commit_revision(own.commit)), picked_from=originals, matched_by=how)


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
