"""The first-parent history of a git repository: its commits in order, and the positions of names, tags and dates."""

from triage.git_history.branches import Branch, BranchCommit, main_refs, place_of, read_branches, same_change
from triage.git_history.refs import Links, PinMove, pull_request, title
from triage.git_history.repository import Repository, UnknownCommit
from triage.git_history.timeline import CommitPosition, Timeline

__all__ = [
    "Branch",
    "BranchCommit",
    "CommitPosition",
    "Links",
    "PinMove",
    "Repository",
    "Timeline",
    "UnknownCommit",
    "main_refs",
    "place_of",
    "pull_request",
    "read_branches",
    "same_change",
    "title",
]
