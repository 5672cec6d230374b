"""Investigations of local builds along the commits of a clone, whose compilers are
really built.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.conftest import calls as calls
from tests.bisect.conftest import command as command
from tests.bisect.conftest import plain_git as plain_git
from tests.bisect.conftest import project as project
from tests.bisect.small_compiler import (
    RECIPE,
    Fate,
    SmallCompiler,
    begin,
    compile_commit,
)
from tests.conftest import Triage

COUNT, CULPRIT, UNFUSED = 32, 21, 9
INPUTS = {"attention": "", "stack": "private", "fused": "narrow fused"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> SmallCompiler:
    fates = [
        Fate.BROKEN if number in (15, 26) else Fate.SOUND for number in range(COUNT)
    ]
    return begin(
        tmp_path_factory.mktemp("investigated") / "repo",
        fates,
        CULPRIT,
        unfused=UNFUSED,
    )


def build(repository: SmallCompiler, number: int, folder: Path) -> str:
    """Return the REV of a local build of a commit."""
    program = compile_commit(repository, repository.shas[number], folder / "source")
    assert program is not None
    (folder / "tools").mkdir()
    program.rename(folder / "tools" / "iree-compile")
    return f"path:{folder}"


def steps(cluster: Mapping[str, Any]) -> dict[str, str]:
    return {step["step"]: step["status"] for step in cluster["steps"]}


@pytest.mark.slow
def test_clusters_of_local_builds_end_with_their_culprit_commits(
    repository: SmallCompiler,
    command: Path,
    calls: Path,
    triage: Triage,
    home: Path,
    tmp_path: Path,
) -> None:
    cases = tmp_path / "cases"
    cases.mkdir()
    for name, words in INPUTS.items():
        (cases / f"{name}.mlir").write_text(
            f"// {words}\nfunc.func @main() {{ return }}\n"
        )
        recipe = RECIPE.replace("name: attention", f"name: {name}").replace(
            "m.mlir", f"{name}.mlir"
        )
        (cases / f"{name}.yaml").write_text(recipe)
    ends = [
        "-b",
        build(repository, 0, tmp_path / "old"),
        "-t",
        build(repository, COUNT - 1, tmp_path / "new"),
    ]
    clone = ["--repo", repository.path]
    done = triage(
        "nightly", cases, *ends, *clone, "--investigate", "--out", "out", "--jobs", "2"
    )
    assert done.returncode == 1, done.stderr
    night = json.loads((tmp_path / "work" / "out" / "nightly.json").read_text())
    clusters = {cluster["representative"]: cluster for cluster in night["clusters"]}
    assert set(clusters) == set(INPUTS)
    for name, cluster in clusters.items():
        number = UNFUSED if name == "fused" else CULPRIT
        culprit = cluster["culprit"]
        assert culprit["status"] == "culprit", culprit
        assert culprit["before"]["commit"] == repository.shas[number - 1]
        assert culprit["after"]["commit"] == repository.shas[number]
        assert [suspect["pull_request"] for suspect in culprit["suspects"]] == [
            1000 + number
        ]
    for cluster in clusters.values():
        assert {steps(cluster)[name] for name in ("bisect", "reduce")} == {"done"}
        assert "reproduces" in cluster["replays"].values()
        assert (
            cluster["culprit"]["after"]["name"]
            in (tmp_path / "work" / "out" / cluster["issue"]).read_text()
        )
    record = json.loads(
        (
            tmp_path
            / "work"
            / "out"
            / clusters["attention"]["reproducer"]
            / "reproducer.json"
        ).read_text()
    )
    assert record["good"]["commit"] == repository.shas[0]
    assert record["bad"]["commit"] == repository.shas[-1]
    assert record["versions"]["first_good"] is None
