"""The first-parent line of a git repository: its commits in order, and where names, tags and dates lie on it."""

from triage.timeline.line import Timeline
from triage.timeline.links import Links, pull_request
from triage.timeline.pins import PinMove
from triage.timeline.placement import Placement, Span
from triage.timeline.repository import Repository, UnknownCommit
from triage.timeline.tags import Tag

__all__ = ["Links", "PinMove", "Placement", "Repository", "Span", "Tag", "Timeline", "UnknownCommit", "pull_request"]
