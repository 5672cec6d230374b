"""Bisects between releases on branches, with the commits of the releases known from
tags.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bisect.branched import Compilers, bisect, is_true
from tests.git_history.releases import Releases
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.model.errors import BadInput

MAIN = range(20)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return Releases.begin(tmp_path_factory.mktemp("branched") / "repo")


def searched(
    releases: Releases,
    tmp_path: Path,
    failing: set[int | str],
    kind: BisectKind = BisectKind.REGRESSION,
    untestable=(),
) -> tuple[Bisection, Compilers]:
    """A bisect from 3.1.0 to 3.2.0. failing: the numbers of changes of main, and names
    of commits of branches.
    """
    shas = releases.shas
    letters = {
        sha: "F" if name in failing else "U" if name in untestable else "P"
        for name, sha in shas.items()
    }
    tags = {"3.1.0": shas["revert"], "3.2.0": shas["own"]}
    compilers = Compilers(releases.history.path, letters, tags, tmp_path)
    found = bisect(compilers, "3.1.0", "3.2.0", kind)
    if found.status is Answer.CULPRIT:
        lines = (
            line.split()
            for line in releases.history.git(
                "rev-list", "--parents", "--all"
            ).splitlines()
        )
        parents = {sha: next(iter(others), None) for sha, *others in lines}
        assert is_true(found, letters, parents)
    return found, compilers


def culprit(found: Bisection) -> str | None:
    assert found.status is Answer.CULPRIT
    return found.suspects[0].commit


def test_a_culprit_that_was_picked_to_the_new_branch(
    releases: Releases, tmp_path: Path
) -> None:
    found, _ = searched(releases, tmp_path, {"changed", "own", *range(14, 20)})
    assert culprit(found) == releases.shas["changed"]


def test_a_release_that_has_a_fix_of_its_branch_alone(
    releases: Releases, tmp_path: Path
) -> None:
    """Main has failed since before both branches, so that no commit of main is the
    culprit.
    """
    found, _ = searched(
        releases,
        tmp_path,
        {*MAIN, "changed", "own"},
    )
    assert (found.status, found.confirmed) == (Answer.SUSPECTS, False)
    assert found.before
    assert found.before.name == "3.1.0"
    [suspect] = found.suspects
    assert "the branch of the old end, whose commits" in suspect.reasons[0]


def test_a_release_without_one_commit_of_its_tags_is_refused(
    releases: Releases, tmp_path: Path
) -> None:
    compilers = Compilers(
        releases.history.path, {}, {"3.1.0": "", "3.3.0": ""}, tmp_path
    )
    with pytest.raises(BadInput, match="has no tag of it"):
        bisect(compilers, "3.1.0", "3.3.0")
    releases.history.git("tag", "letters-3.1.0", releases.shas[5])
    try:
        with pytest.raises(BadInput, match="tags of different commits"):
            bisect(compilers, "3.1.0", "main")
    finally:
        releases.history.git("tag", "--delete", "letters-3.1.0")
