"""The first-parent line of a git repository: its commits in order, and where names, tags and dates lie on it."""

from triage.git_history.first_parent import CommitPosition, CommitRange, Timeline
from triage.git_history.refs import Links, PinMove, Tag, pull_request
from triage.git_history.repository import Repository, UnknownCommit

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
