"""The origin of a night's failure, along the commits of a clone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bisect.branched import PROJECT, Compilers, EverySource
from tests.bisect.letters import case_named
from tests.bisect.tiny_compiler import repository
from triage.bisect import plan
from triage.bisect.result import Answer
from triage.investigate.origin import OriginFinder

LETTERS = "PPPPPGGGFFFF"


@pytest.mark.parametrize("is_narrowed", [True, False])
def test_a_pair_of_toolchains_is_bisected_by_the_commits_between_them(
    is_narrowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    shas = repository(LETTERS, clone)
    releases = {"1.0.0": shas[0], "2.0.0": shas[-1]}
    letters = dict(zip(shas, LETTERS, strict=True))
    compilers = Compilers(clone, letters, releases, tmp_path, reported=True)
    (tmp_path / "triage.yaml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "sources_of", lambda *_: (EverySource(),))
    old, new = (compilers.resolve(name, "iree") for name in releases)
    finder = OriginFinder(compilers, (old, new), clone)  # type: ignore[arg-type]
    case = case_named("case")
    if is_narrowed:
        bisection = finder.narrow(case, (old, new))
    else:
        monkeypatch.setattr("triage.investigate.origin.is_of_releases", lambda _: False)
        bisection = finder.bisect(case)
    assert (bisection.status, bisection.confirmed) == (Answer.CULPRIT, True)
    assert bisection.after.commit == shas[8]
    assert bisection.broke.after.commit == shas[5]
    assert [ref.revision.commit for ref in finder.pair_of(bisection)] == [
        shas[7],
        shas[8],
    ]
    assert [one.pull_request for one in bisection.suspects] == [108]
