"""Bisects in real repositories, with a letter for each commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.bisect.letters import case_named, outcome
from tests.fake_engine import FakeEngine
from triage.bisect import commits
from triage.bisect.line import BisectRequest
from triage.bisect.result import BisectKind
from triage.git_history.timeline import Timeline
from triage.toolchains.sources import Build

PROJECT = """name: letters
compiler: iree
distribution: letters
releases: {tags: ["v{version}", "letters-{version}"]}
paths: ["!notes.txt"]
"""


@dataclass
class EverySource:
    """A source with a compiler for every commit but those that are missing."""

    missing: Collection[int] = ()
    seconds: float = 1.0
    down: Exception | None = None
    """Raised when it is asked."""
    expired: Exception | None = None
    """Raised when a compiler is obtained."""

    def __call__(self, timeline: Timeline, indices: range) -> list[Build]:
        if self.down:
            raise self.down
        revisions = {index: timeline.commits[index].revision for index in indices}
        return [
            Build("every", revision, index, self.seconds, partial(self.obtain, index))
            for index, revision in revisions.items()
            if index not in self.missing
        ]

    def obtain(self, index: int, package: str | None) -> Path:
        if self.expired:
            raise self.expired
        return Path(f"/compilers/{index}")


def use_sources(monkeypatch: pytest.MonkeyPatch, *sources: EverySource) -> None:
    monkeypatch.setattr(commits, "sources_of", lambda *_: sources)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a project that has a compiler of each commit."""
    (tmp_path / "triage.yaml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    use_sources(monkeypatch, EverySource())
    return tmp_path


def request_in(
    repo: Path,
    letters: Mapping[str, str],
    releases: Mapping[str, str] | None = None,
    kind: BisectKind = BisectKind.REGRESSION,
    *,
    reported: bool = True,
) -> BisectRequest:
    """Bisect commits with these letters, and releases that were made of some of them.
    reported: whether releases report their commit.
    """
    made = releases or {}
    names = {sha[:10]: sha for sha in letters} | {**made}
    engine = FakeEngine(
        lambda job: outcome(letters[names[job.ref.revision.name]]),
        [*made],
        commits=made if reported else {},
    )
    return BisectRequest(engine, case_named("case"), repo, kind)  # type: ignore[arg-type]
