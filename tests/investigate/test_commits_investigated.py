"""A change between two releases is searched along the commits of a clone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bisect import letters
from tests.bisect.branched import PROJECT, Compilers, EverySource
from tests.bisect.letters import case_named
from tests.bisect.tiny_compiler import repository
from triage.bisect import commits
from triage.bisect.line import BisectRequest
from triage.bisect.plan import bisect_between
from triage.bisect.result import Answer
from triage.investigate.investigation import ClusterInvestigation, Investigation
from triage.investigate.result import FailureCluster


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "triage.yaml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commits, "sources_of", lambda *_: (EverySource(),))
    return tmp_path


def compilers_along(history: str, folder: Path) -> tuple[Compilers, list[str]]:
    """Return two releases, and the commits from the one to the other."""
    shas = repository(history, folder / "clone")
    releases = {"1.0.0": shas[0], "2.0.0": shas[-1]}
    outcomes = dict(zip(shas, history, strict=True))
    clone = folder / "clone"
    return Compilers(clone, outcomes, releases, folder, reported=True), shas


@pytest.mark.parametrize("is_narrowed", [True, False])
def test_a_pair_of_toolchains_is_bisected_by_the_commits_between_them(
    is_narrowed: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers, shas = compilers_along("PPPPPGGGFFFF", folder)
    old, new = compilers.releases("iree")
    case = case_named("case")
    work = Investigation(compilers, (old, new), {}, repo=compilers.repo)  # type: ignore[arg-type]
    record = FailureCluster(signature="", cases=[case.name])
    cluster = ClusterInvestigation(work, record, case, pair=(old, new))
    if is_narrowed:
        assert cluster.narrow() is None
    else:
        are_releases = "triage.investigate.investigation._are_releases"
        monkeypatch.setattr(are_releases, lambda _: False)
        assert cluster.bisect() is None
    bisection = cluster.record.culprit
    assert bisection
    assert (bisection.status, bisection.confirmed) == (Answer.CULPRIT, True)
    assert bisection.broke
    assert bisection.broke.after.commit == shas[5]
    assert cluster.pair
    assert [ref.revision.commit for ref in cluster.pair] == shas[7:9]
    assert [one.pull_request for one in bisection.suspects] == [108]


def test_a_number_that_changed_between_two_releases_is_searched_by_commits(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters.failure, "__defaults__", ("metric",))
    compilers, shas = compilers_along("PPPPPPFF", folder)
    request = BisectRequest(compilers, case_named("case"), compilers.repo)  # type: ignore[arg-type]
    bisection = bisect_between(request, "1.0.0", "2.0.0")
    assert bisection.after
    assert (bisection.status, bisection.after.commit) == (Answer.CULPRIT, shas[6])
