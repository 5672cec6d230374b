"""Bisects over a compiler and a repository of models, both real."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bisect.driving import answered
from tests.bisect.tiny_compiler import RECIPE, repository, write_case
from tests.conftest import Triage
from tests.git_history.history import History

# plain programs fail since the culprit, narrow ones never, and wide ones always
FAIL = 'text = open(sys.argv[1]).read()\nif {test}: sys.exit("tinyc: lost a symbol")'
PROGRAMS = {
    "P": FAIL.format(test='"wide" in text'),
    "F": FAIL.format(test='"narrow" not in text or "wide" in text'),
}
CULPRIT, MOVE = 9, 7


def twelve(models: History, old: str, new: str) -> list[str]:
    """Twelve commits; the input becomes `new` at commit 7. Every third one changes
    nothing the recipe needs.
    """
    shas = []
    for number in range(12):
        files: dict[str, str | bytes] = {"README": f"{number}\n"}
        if number % 3 != 1 or number == MOVE:
            program = old if number < MOVE else new
            files["nets/p.c"] = f"// {number // 2}\n{program}\n"
        files["nets/r.yaml"] = RECIPE
        shas.append(models.commit(f"Model change {number} (#{200 + number})", files))
    return shas


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
    triage: Triage,
    workplace: Path,
    home: Path,
    tmp_path: Path,
    old: str,
    new: str,
    moved: str | None,
) -> None:
    shas = repository("P" * CULPRIT + "F" * 6, tmp_path / "clone", PROGRAMS)
    models = History.begin(tmp_path / "models repo")
    model_shas = twelve(models, old, new)
    write_case(workplace)
    ends = ["--good", f"commit:{shas[0]}", "--bad", f"commit:{shas[-1]}"]
    words = ["bisect", "nets/r.yaml", *ends, "--repo", tmp_path / "clone"]
    model = f"{models.path}@main~11..main"
    done = triage(*words, "--model", model, "--format", "json")
    found = answered(done, status=0 if moved else 3)
    assert found["changed"] == moved
    bisection = found["bisection"]
    if moved is None:
        assert bisection["status"] == "inconclusive"
        return
    assert (bisection["status"], bisection["confirmed"]) == ("culprit", True)
    [suspect] = bisection["suspects"]
    if moved == "compiler":
        assert suspect["commit"] == shas[CULPRIT]
    else:
        assert suspect["commit"] == model_shas[MOVE]
        assert suspect["files"] == ["README", "nets/p.c"]
        assert suspect["pull_request"] == 200 + MOVE


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "{models}@nothing..main"], "no branch, tag or commit 'nothing'"),
        (["--model", "{models}"], "write DIR@GOOD..BAD"),
        (["--model", "{models}@main..main", "--metric", "spills"], "--metric"),
    ],
)
def test_bad_input_is_an_error(
    triage: Triage, home: Path, tmp_path: Path, more: list[str], said: str
) -> None:
    models = History.begin(tmp_path / "models")
    twelve(models, "narrow", "narrow wide")
    words = [word.format(models=models.path) for word in more]
    ends = ["--good", "main", "--bad", "main", "--repo", models.path]
    done = triage("bisect", "nets/r.yaml", *ends, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
