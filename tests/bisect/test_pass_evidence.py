"""Evidence from the passes of both ends is used by the search and part of its answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bisect.letters import case_named
from tests.bisect.test_commits import COUNT, CommitRunner, EverySource
from tests.bisect.test_commits import timeline as timeline
from triage.bisect.candidates import CommitCandidates, commit_candidates
from triage.bisect.pass_evidence import PassEvidence
from triage.bisect.result import BisectKind
from triage.bisect.search import BisectSearch, run_search
from triage.git_history import Timeline
from triage.report.bisection import BisectReport
from triage.report.registry import rendered
from triage.toolchains.registry import ToolchainRef

TILE = PassEvidence(("TilePass",), ("compiler/part2.cpp",), "flow", "3.2.0 and 3.3.0 diverge after TilePass")


def search(
    timeline: Timeline,
    letters: str,
    kind: BisectKind = BisectKind.REGRESSION,
    found: PassEvidence | None = TILE,
    seconds: float = 30.0,
) -> Any:
    asked: list[tuple[str, str]] = []
    source = EverySource(seconds=seconds)
    spots = commit_candidates(timeline, timeline.between(timeline.commits[0].sha, timeline.commits[-1].sha), [source])

    def compare(good: ToolchainRef, bad: ToolchainRef) -> PassEvidence | None:
        asked.append((good.revision.name, bad.revision.name))
        return found

    made = BisectSearch(
        CommitRunner(timeline, letters),  # type: ignore[arg-type]
        case_named("case"),
        CommitCandidates(timeline, "iree", spots, {source.name: source}),
        kind=kind,
        compare=compare,
    )
    return made, asked


@pytest.mark.parametrize(("kind", "letters"), [(BisectKind.REGRESSION, "PF"), (BisectKind.FIX, "FP")])
def test_the_passes_of_both_ends_are_compared_once(timeline: Timeline, kind: BisectKind, letters: str) -> None:
    made, asked = search(timeline, letters[0] * 20 + letters[1] * 20, kind)
    found = run_search(made)
    ends = [timeline.commits[index].sha[:10] for index in (0, COUNT - 1)]
    assert asked == [tuple(ends if kind is BisectKind.REGRESSION else reversed(ends))]
    assert found.after is not None
    assert found.after.commit == timeline.commits[20].sha


def test_passes_are_not_compared_where_compilers_are_installed(timeline: Timeline) -> None:
    made, asked = search(timeline, "P" * 20 + "F" * 20, seconds=0.0)
    assert run_search(made).confirmed
    assert asked == []


def test_the_first_probe_goes_where_the_evidence_points(timeline: Timeline) -> None:
    made, _ = search(timeline, "P" * 20 + "F" * 20)
    made.begin()
    weights = made.belief.probabilities
    touched = [index for index in range(1, COUNT) if index % 3 and index % 5 == 2]
    others = [index for index in range(1, COUNT) if index % 3 and index % 5 != 2]
    assert min(weights[index] for index in touched) > 2 * max(weights[index] for index in others)


@pytest.mark.parametrize("culprit", [3, 17, 31])
def test_evidence_that_is_wrong_leads_to_the_same_culprit(timeline: Timeline, culprit: int) -> None:
    letters = "P" * culprit + "F" * (COUNT - culprit)
    found = run_search(search(timeline, letters)[0])
    assert found.after is not None
    assert found.after.commit == timeline.commits[culprit].sha
    assert found.confirmed


def test_the_answer_contains_the_evidence(timeline: Timeline) -> None:
    found = run_search(search(timeline, "P" * 20 + "F" * 20)[0])
    assert found.evidence == TILE.summary
    assert TILE.summary in BisectReport(found).markdown()
    assert found.evidence == TILE.summary
    assert TILE.summary in rendered(BisectReport(found), "text")
