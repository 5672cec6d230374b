"""Other questions about commits: of a number, led by a person, ranked before a compile.
The compiler is really built.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bisect.driving import CULPRIT, answered, counted, is_culprit, words
from tests.bisect.small_compiler import SmallCompiler
from tests.conftest import Triage


@pytest.fixture
def heavy(tmp_path: Path, recipe: Path) -> Path:
    (tmp_path / "m.mlir").write_text("narrow heavy\n")
    return recipe


@pytest.mark.parametrize(
    "spelling", ["commit:", pytest.param("", marks=pytest.mark.slow)]
)
def test_the_commit_that_made_the_artifact_grow(
    small: SmallCompiler,
    heavy: Path,
    command: Path,
    triage: Triage,
    home: Path,
    spelling: str,
) -> None:
    asked = [
        word.replace("commit:", spelling)
        for word in words(small, heavy, command, first=141, last=159)
    ]
    found = answered(triage(*asked, "--metric", "artifact_bytes"))
    assert is_culprit(found, small, failure="metric")
    assert found["failure"]["signature"] == "metric:artifact_bytes"
    grown = 286720 // 16 + len("module\n")
    assert float(found["failure"]["details"]["value"]) == pytest.approx(grown, rel=1e-3)


def test_a_person_leads_and_resumes(
    small: SmallCompiler,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
    calls: Path,
) -> None:
    asked = words(
        small, recipe, command, "--jobs", "1", "--interactive", first=100, last=199
    )
    done = triage(*asked, input="\nskip\nwhy\nnothing\nquit\n")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["command"].endswith("--resume")
    assert "the culprit is this one or older with" in done.stderr
    assert done.stderr.count("undo    remove the last verdict") == 2
    first = counted(calls)
    calls.unlink()
    done = triage(*asked, "--resume", input="\n" * 30)
    assert "resumed: 2 verdicts" in done.stderr
    assert is_culprit(answered(done), small)
    assert not {sha for sha in counted(calls) if sha in first} - {
        small.shas[CULPRIT - 1],
        small.sha,
        small.shas[199],
    }


def test_suspects_are_ranked_without_a_compile(
    small: SmallCompiler,
    recipe: Path,
    command: Path,
    triage: Triage,
    home: Path,
    calls: Path,
    tmp_path: Path,
) -> None:
    log = tmp_path / "failed.log"
    log.write_text(
        "m.mlir:1:1: error: 'func.func' op uses 286720 bytes of shared memory; exceeded the limit of 65536 bytes\n"
    )
    ends = (
        "--good",
        f"commit:{small.shas[0]}",
        "--bad",
        small.shas[-1],
        "--repo",
        small.path,
    )
    for source, *backend in ((recipe,), (log, "--backend", "rocm")):
        ranked = answered(
            triage("suspects", source, *ends, *backend, "--format", "json")
        )["suspects"]
        assert small.sha in {one["commit"] for one in ranked}
        assert all(len(one["reasons"]) <= 2 for one in ranked)
    assert ranked[0]["commit"] == small.sha
    assert not calls.exists()
    assert not (tmp_path / "made").exists()
