"""`triage reduce` and `triage replay` as their users call them. The compiler is the one
that came with the program.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_cli import UNKNOWN_DEVICE, recipe
from tests.conftest import Triage

CHAIN = "".join(
    f"  %{number} = arith.mulf %{number - 1}, %{number - 1} : tensor<4xf32>\n"
    for number in range(2, 12)
)
LONG = UNKNOWN_DEVICE.replace("  return %1", f"{CHAIN}  return %11")


def test_a_reduced_program_reproduces_the_failure(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "device", LONG)
    done = triage("reduce", path, "-t", "installed", "--format", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["status"], answer["signature"]) == (
        "reduced",
        "undeclared-device:missing",
    )
    assert answer["operations"]["before"] > 10 > answer["operations"]["after"]
    assert answer["bytes"]["after"] < answer["bytes"]["before"]
    assert answer["reproducer"] == "reproducers/device"
    folder = tmp_path / "work" / "reproducers" / "device"
    names = {"input.mlir", "recipe.yaml", "reproducer.json", "repro.sh", "README.md"}
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "input.mlir").read_text() == answer["program"]
    assert len(answer["program"]) == answer["bytes"]["after"]
    kept = json.loads((folder / "reproducer.json").read_text())
    assert (kept["signature"], kept["bad"]["name"]) == (
        answer["signature"],
        answer["bad"]["name"],
    )
    assert kept["case"] == "device"
    texts = [one.read_text() for one in folder.iterdir()]
    assert not [
        text for text in texts if str(tmp_path) in text or str(Path.home()) in text
    ]

    assert triage("recipe", "validate", folder / "recipe.yaml").returncode == 0
    done = triage("replay", "reproducers", "-t", "installed", "--format", "json")
    [replayed] = json.loads(done.stdout)["reproducers"]
    assert (done.returncode, replayed["status"]) == (0, "reproduces"), done.stderr


def test_a_folder_that_is_no_reproducer_is_never_touched(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "device", UNKNOWN_DEVICE)
    mine = tmp_path / "mine" / "device"
    mine.mkdir(parents=True)
    (mine / "notes").write_text("keep")
    done = triage("reduce", path, "-t", "installed", "--out", tmp_path / "mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not a reproducer" in done.stderr
    assert [one.name for one in mine.iterdir()] == ["notes"]
    (tmp_path / "reproducers" / "device").mkdir(parents=True)
    night = triage("nightly", path, "--reduce", "--out", tmp_path)
    assert (night.returncode, night.stdout) == (2, "")
    assert "is not a reproducer" in night.stderr
