"""The interface of a toolchain source, and the offers that it makes for commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from triage.git_history import CommitPosition, Repository, Timeline
from triage.model.revision import Revision
from triage.toolchains.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Offer:
    """One toolchain that a source can provide; plain data, so that another machine can obtain it.

    source: The source's name.
    revision: `commit` is None where it is not known before the compiler is installed.
    position: Where the toolchain's commit lies on the timeline, perhaps not exactly.
    seconds: The estimated time to obtain it; 0 when it is installed.
    item: The source's own key.
    untestable: Why it cannot be obtained, where that is known beforehand.
    """

    source: str
    revision: Revision
    position: CommitPosition
    seconds: float
    item: str
    untestable: str | None = None


class Source(Protocol):
    """One way to obtain compilers. Both calls may come from several threads at once."""

    name: str

    def offers(self, timeline: Timeline, indices: range) -> Sequence[Offer]:
        """The offers for these commits, oldest first; several may be for one commit. EnvironmentFailure when the source
        cannot list them.
        """

    def obtain(self, offer: Offer, package: str | None = None) -> Path:
        """The folder of the toolchain, obtained if it is not installed. package: another one that was published with it; a
        source without packages returns the toolchain's folder.

        Raises:
            Unobtainable: there is no such toolchain or package.
            EnvironmentFailure: it cannot be obtained now.
        """


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source is made from, beside its own section of the project file.

    folder: Where relative commands run. distribution: The name of the project's wheels.
    """

    workspace: Workspace
    repository: Repository
    folder: Path
    project: str
    distribution: str | None
    web_page: str | None


def commit_offer(
    source: str, timeline: Timeline, index: int, seconds: float, item: str, untestable: str | None = None
) -> Offer:
    """An offer of exactly the commit at an index."""
    commit = timeline.commits[index]
    revision = Revision(commit.sha, commit=commit.sha, date=commit.date[:10], subject=commit.subject)
    return Offer(source, revision, CommitPosition(index, commit.sha), seconds, item, untestable)
