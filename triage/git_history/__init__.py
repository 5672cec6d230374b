"""The first-parent history of a git repository: its commits in order, and the positions of names, tags and dates."""

from triage.git_history.refs import Links, PinMove, Tag, pull_request
from triage.git_history.repository import Repository, UnknownCommit
from triage.git_history.timeline import CommitPosition, CommitRange, Timeline

__all__ = [
    "CommitPosition",
    "CommitRange",
    "Links",
    "PinMove",
    "Repository",
    "Tag",
    "Timeline",
    "UnknownCommit",
    "pull_request",
]
