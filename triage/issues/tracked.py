"""An issue that stands for a failure signature: its hidden marker, and the commands in the comments of collaborators."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import InvalidVersion, Version

from triage.model.revision import Revision

COLLABORATORS = ("OWNER", "MEMBER", "COLLABORATOR")
_MARKER = re.compile(r"<!-- triage (\{.*?\}) -->")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^#triage[ \t]+(\w+)[ \t]*:?[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_NUMBER = re.compile(r"(?:#|/issues/|^)(\d{1,9})$")


@dataclass(frozen=True, slots=True)
class Marker:
    """What an issue remembers of its failure. toolchain: the last one that an issue or a comment was written for."""

    signature: str
    cases: tuple[str, ...]
    toolchain: Revision

    def text(self) -> str:
        """Return the marker as an HTML comment, which GitHub does not show."""
        revision = self.toolchain
        return hidden(
            {
                "signature": self.signature,
                "toolchain": revision.name,
                "commit": revision.commit,
                "date": revision.date,
                "cases": self.cases,
            }
        )

    def reaches(self, revision: Revision) -> bool:
        """Return whether a compiler is at least as new as the one that the issue knows."""
        known = self.toolchain
        if known.date and revision.date:
            return revision.date >= known.date
        return not is_older(revision.name, known.name)


@dataclass(frozen=True, slots=True)
class IssueComment:
    """A comment. association: the author's, as GitHub names it; event: of this program's own comments."""

    body: str
    association: str

    @property
    def event(self) -> str | None:
        return _hidden_in(self.body).get("event")

    @property
    def commands(self) -> list[tuple[str, str]]:
        """The commands outside of code blocks, with their arguments. Other people's have none."""
        if self.association not in COLLABORATORS or self.event is not None:
            return []
        return _COMMAND.findall(_FENCE.sub("", self.body.replace("\r\n", "\n")))


@dataclass(frozen=True, slots=True)
class Standing:
    """What collaborators say of an issue. fix: the revision or commit that fixes it; problems: commands that say nothing."""

    fix: str | None = None
    duplicate_of: int | None = None
    is_invalid: bool = False
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrackedIssue:
    """An issue with the marker of this program. state_reason, closed_at: as GitHub has them, of a closed issue."""

    number: int
    title: str
    body: str
    marker: Marker
    is_open: bool = True
    state_reason: str | None = None
    closed_at: str | None = None
    comments: tuple[IssueComment, ...] = ()

    @property
    def standing(self) -> Standing:
        """What all commands together say; a later one overrides an earlier one."""
        standing = Standing()
        for verb, argument in (command for comment in self.comments for command in comment.commands):
            number = _NUMBER.search(argument)
            match verb:
                case "fix" if argument:
                    standing = replace(standing, fix=argument)
                case "dup" if number and int(number[1]) != self.number:
                    standing = replace(standing, duplicate_of=int(number[1]))
                case "invalid":
                    standing = replace(standing, is_invalid=True)
                case "undo":
                    standing = Standing(problems=standing.problems)
                case _:
                    standing = replace(standing, problems=(*standing.problems, f"#triage {verb} {argument}".rstrip()))
        return standing

    @property
    def events(self) -> set[str]:
        """The events that this program has commented on."""
        return {comment.event for comment in self.comments if comment.event}

    def with_marker(self, marker: Marker) -> str:
        """Return the body with another marker."""
        return _MARKER.sub(lambda _: marker.text(), self.body, count=1)


def hidden(values: Mapping[str, object]) -> str:
    """Return values as an HTML comment that no text in them can end."""
    return f"<!-- triage {json.dumps(values).replace('<', chr(92) + 'u003c').replace('>', chr(92) + 'u003e')} -->"


def marker_in(body: str) -> Marker | None:
    """Return the marker in an issue's body; None when it has none, or somebody changed it."""
    values = _hidden_in(body)
    signature, cases = values.get("signature"), values.get("cases")
    if not isinstance(signature, str) or not isinstance(cases, list):
        return None
    name, commit, date = (
        value if isinstance(value := values.get(key), str) else None for key in ("toolchain", "commit", "date")
    )
    return Marker(signature, tuple(case for case in cases if isinstance(case, str)), Revision(name or "", commit, date))


def is_older(name: str, other: str) -> bool:
    """Return whether both names are versions and the first is older."""
    try:
        return Version(name) < Version(other)
    except InvalidVersion:
        return False


def _hidden_in(body: str) -> Mapping[str, Any]:
    match = _MARKER.search(body)
    try:
        values = json.loads(match[1]) if match else {}
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
