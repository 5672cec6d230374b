"""The tags of a repository, and the dates that stand in the names of nightly tags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from triage.timeline.repository import Repository

_DAY = re.compile(r"(?<!\d)(20\d\d)[-.]?(\d\d)[-.]?(\d\d)(?!\d)")


@dataclass(frozen=True, slots=True)
class Tag:
    """`sha`: the commit, for an annotated tag too. `date`: ISO `YYYY-MM-DD` where the name holds one, as that of
    `iree-3.5.0rc20250604` does.
    """

    name: str
    sha: str
    date: str | None


def read_tags(repository: Repository) -> dict[str, Tag]:
    """All tags that lead to a commit, by name, in git's order."""
    form = "--format=%(objecttype) %(*objecttype) %(objectname) %(*objectname) %(refname:strip=2)"
    found: dict[str, Tag] = {}
    for line in repository.ask("for-each-ref", form, "refs/tags").decode("utf-8", "replace").splitlines():
        kind, peeled_kind, sha, peeled, name = line.split(" ", 4)
        if "commit" in (kind, peeled_kind):
            found[name] = Tag(name, peeled or sha, day_in(name))
    return found


def matching(tags: dict[str, Tag], pattern: str) -> tuple[Tag, ...]:
    """Those whose name fits a shell pattern such as `iree-*rc*`."""
    return tuple(tag for name, tag in tags.items() if fnmatchcase(name, pattern))


def day_in(text: str) -> str | None:
    """The last date that stands in a name or version, as ISO `YYYY-MM-DD`; None without one."""
    for year, month, day in reversed(_DAY.findall(text)):
        try:
            return date(int(year), int(month), int(day)).isoformat()
        except ValueError:
            continue
    return None
