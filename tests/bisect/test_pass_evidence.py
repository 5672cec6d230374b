"""Evidence from the passes of both ends is used by the search and part of its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.letters import case_named, outcome, release_refs
from tests.bisect.test_commits import COUNT, CommitRunner, EverySource
from tests.bisect.test_commits import timeline as timeline
from triage.bisect.candidates import CommitCandidates, commit_candidates
from triage.bisect.pass_evidence import PassEvidence, passes_with
from triage.bisect.prior import Clues, commit_prior
from triage.bisect.result import BisectKind
from triage.bisect.search import _WORTH_A_WITNESS, BisectSearch, run_search
from triage.bisect.session import Journal, Session
from triage.execution.runner import ProbeJob
from triage.git_history import Timeline
from triage.model.case import Flag
from triage.model.outcome import Measured, Probe, Verdict
from triage.model.progress import Silent
from triage.model.revision import ChangedFile, Commit
from triage.report.bisection import BisectReport, bisect_shape
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

    def witness(good: ToolchainRef, bad: ToolchainRef) -> PassEvidence | None:
        asked.append((good.revision.name, bad.revision.name))
        return found

    made = BisectSearch(
        CommitRunner(timeline, letters),  # type: ignore[arg-type]
        case_named("case"),
        CommitCandidates(timeline, "iree", spots, {source.name: source}),
        kind=kind,
        witness=witness,
    )
    return made, asked


@pytest.mark.parametrize(("kind", "letters"), [(BisectKind.REGRESSION, "PF"), (BisectKind.FIX, "FP")])
def test_passes_are_compared_between_the_ends_and_again_between_nearer_compilers(
    timeline: Timeline, kind: BisectKind, letters: str
) -> None:
    made, asked = search(timeline, letters[0] * 20 + letters[1] * 20, kind)
    found = run_search(made)
    at = {commit.sha[:10]: index for index, commit in enumerate(timeline.commits)}
    (first, last), (low, high) = (sorted(at[name] for name in pair) for pair in asked)
    assert (first, last) == (0, COUNT - 1)
    assert 0 <= low < 20 <= high < COUNT
    assert _WORTH_A_WITNESS <= high - low <= (COUNT - 1) / 3
    assert all(at[pair[0]] < at[pair[1]] for pair in asked) is (kind is BisectKind.REGRESSION)
    assert found.after is not None
    assert found.after.commit == timeline.commits[20].sha


@pytest.mark.parametrize("second", [replace(TILE, files=("compiler/part4.cpp",), summary="nearer"), None])
def test_the_nearer_comparison_replaces_the_evidence_where_it_shows_something(
    timeline: Timeline, second: PassEvidence | None
) -> None:
    made, asked = search(timeline, "P" * 20 + "F" * 20)
    answers = iter([TILE, second])
    made.witness = lambda *_: next(answers)
    found = run_search(made)
    assert asked == []
    assert found.evidence == (second or TILE).summary
    assert found.after is not None
    assert found.after.commit == timeline.commits[20].sha


def test_a_person_who_leads_gets_the_nearer_comparison_and_keeps_the_verdicts(timeline: Timeline, tmp_path: Path) -> None:
    made, asked = search(timeline, "P" * 20 + "F" * 20)
    assert made.begin()
    session = Session(made, Journal(tmp_path, ["case"]))
    session.record(13, Verdict.GOOD)
    session.probe(14)
    session.probe(26)
    assert len(asked) == 2
    assert made.belief.bounds == (14, 26)
    assert made.belief.counts[13] == (1, 0)


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
    assert bisect_shape(found).evidence == TILE.summary
    assert TILE.summary in rendered(BisectReport(found), "text")


def test_the_answer_without_evidence_mentions_none(timeline: Timeline) -> None:
    found = run_search(search(timeline, "P" * 20 + "F" * 20, found=None)[0])
    assert found.evidence is None
    assert "Evidence" not in BisectReport(found).markdown()


def test_passes_are_not_compared_for_a_few_suspects(timeline: Timeline) -> None:
    made, asked = search(timeline, "P" * 20 + "F" * 20)
    line = made.range
    short = CommitCandidates(line.timeline, line.family, line.candidates[17:23], line.sources)
    run_search(replace(made, range=short))
    assert asked == []


def test_clues_with_evidence_rank_the_commit_that_changed_the_pass_first() -> None:
    def commit(number: int, path: str) -> Commit:
        return Commit(f"{number:040x}", None, "2025-01-01T00:00:00+00:00", f"Change {number}", (ChangedFile(path, 5, 5),))

    root = "compiler/src/iree/compiler"
    paths = [f"{root}/Codegen/LLVMGPU/KernelConfig.cpp", f"{root}/DispatchCreation/CollapseDimensions.cpp"]
    commits = [commit(number, path) for number, path in enumerate(paths)]
    clues = Clues("shared-memory-overflow", "rocm", "executable-targets", text="too much shared memory")
    before = commit_prior(commits, clues)
    evidence = PassEvidence(("CollapseDimensionsPass",), (paths[1],), "dispatch-creation", "told")
    after = commit_prior(commits, evidence.added_to(clues))
    assert before[0] > before[1]
    assert after[1] > after[0]
    assert evidence.added_to(clues).phase == "dispatch-creation"
    assert PassEvidence((), (), None, "").added_to(clues).phase == "executable-targets"


class FlagRunner:
    """Stands where a ProbeRunner stands: the case fails unless it has the flag `--old=true`."""

    jobs, progress = 1, Silent()
    is_abandoned = False  # a runner that is abandoned ends everything

    def probe_all(self, jobs: Sequence[ProbeJob], what: str) -> Iterator[Probe]:
        self.is_abandoned = True
        for job in jobs:
            flags = {flag.text for flag in job.case.flags}
            yield Probe(
                job.case, job.ref.revision, None, outcome("P" if "--old=true" in flags else "F"), Measured(), cached=False
            )
        self.is_abandoned = False


def test_an_old_default_that_makes_the_failure_disappear() -> None:
    [compiler] = release_refs(1)
    case = replace(case_named("case"), flags=(Flag("--mine"),))
    runner = FlagRunner()
    assert passes_with(runner, case, compiler, "--old=true")
    assert not passes_with(runner, case, compiler, "--old=false")
    assert not runner.is_abandoned
