"""Bisects over a compiler and a repository of models, both real, with a compiler that
is really built.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.bisect.driving import answered
from tests.bisect.small_compiler import RECIPE, Fate, SmallCompiler, begin
from tests.conftest import Triage
from tests.git_history.history import History

CULPRIT, LAST, MOVE = 9, 15, 7


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> SmallCompiler:
    fates = [Fate.SOUND] * (LAST + 1)
    fates[3] = Fate.BROKEN
    return begin(tmp_path_factory.mktemp("compiler") / "repo", fates, CULPRIT)


@pytest.fixture
def models(tmp_path: Path) -> History:
    return History.begin(tmp_path / "models repo")


def twelve(
    models: History,
    old: str,
    new: str,
    *,
    more: dict[int, dict[str, str | bytes]] | None = None,
) -> list[str]:
    """Twelve commits; the input becomes `new` at commit 7. Every third one changes
    nothing the recipe needs.
    """
    shas = []
    for number in range(12):
        files: dict[str, str | bytes] = {"README": f"{number}\n"}
        if number % 3 != 1 or number == MOVE:
            files["nets/m.mlir"] = (
                f"// {number // 2}\n{old if number < MOVE else new}\n"
            )
        shas.append(
            models.commit(
                f"Model change {number} (#{200 + number})",
                {"nets/attention.yaml": RECIPE} | files | (more or {}).get(number, {}),
            )
        )
    return shas


@pytest.fixture
def ask(
    compiler: SmallCompiler,
    models: History,
    command: Path,
    triage: Triage,
    home: Path,
):

    def call(
        *more: str,
        refs: tuple[str, str] = ("main~11", "main"),
        recipe: str = "nets/attention.yaml",
    ) -> subprocess.CompletedProcess[str]:
        ends = [
            "--good",
            f"commit:{compiler.shas[0]}",
            "--bad",
            f"commit:{compiler.shas[LAST]}",
            "--repo",
            str(compiler.path),
        ]
        other = ["--model", f"{models.path}@{refs[0]}..{refs[1]}"]
        asked = [
            "bisect",
            recipe,
            "--jobs",
            "2",
            *ends,
            *other,
        ]
        return triage(*asked, *(more or ("--format", "json")))

    return call


def names(part: dict[str, Any] | None) -> list[str]:
    assert part is not None
    assert part["status"] == "culprit", part
    assert part["confirmed"]
    return [one["commit"] for one in part["suspects"]]


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("plain", "plain", "compiler"),
        ("narrow", "narrow wide", "model"),
        ("plain", "wide", None),
        ("narrow", "plain", None),
    ],
)
def test_the_repository_that_changed_is_named_with_its_commit(
    compiler: SmallCompiler, models: History, ask, old: str, new: str, moved: str | None
) -> None:
    shas = twelve(models, old, new)
    found = answered(ask(), status=0 if moved else 3)
    assert found["changed"] == moved
    if moved is None:
        assert found["bisection"]["status"] == "inconclusive"
        return
    culprit = compiler.sha if moved == "compiler" else shas[MOVE]
    assert names(found["bisection"]) == [culprit]
    assert found["bisection"]["failure"]["class"] == "shared-memory-overflow"
    if moved == "model":
        [suspect] = found["bisection"]["suspects"]
        assert suspect["files"] == ["README", "nets/m.mlir"]
        assert suspect["pull_request"] == 200 + MOVE


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "{models}@nothing..main"], "no branch, tag or commit 'nothing'"),
        (["--model", "/@main..main"], "is not in a git repository"),
        (["--model", "{models}"], "write DIR@GOOD..BAD"),
        (
            ["--good", "main", "--bad", "main"],
            "is not older than",
        ),
        (["--metric", "cpu_seconds"], "does not work with --metric"),
    ],
)
def test_bad_input_is_an_error(
    compiler: SmallCompiler, models: History, ask, more: list[str], said: str
) -> None:
    twelve(models, "narrow", "narrow wide")
    done = ask(*(word.format(models=models.path) for word in more))
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
