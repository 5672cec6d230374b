"""`triage reduce` and `triage replay` as their users call them. The compiler is the one
that came with the program.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_cli import UNKNOWN_DEVICE, recipe
from tests.conftest import Asked, Triage
from tests.fake_releases import command_recipe
from tests.programs import write_program

CHAIN = "".join(
    f"  %{number} = arith.mulf %{number - 1}, %{number - 1} : tensor<4xf32>\n"
    for number in range(2, 12)
)
# It fails on the recipe's own file, and is killed from outside on every other one, as
# by a system without memory.
COMPILER = """#!/bin/sh
case "$1" in
--version) echo 'version 1.0.0'; exit;;
*/case.txt) echo "case.txt:1:1: error: 'a.b' op failed to verify" >&2; exit 1;;
esac
kill -9 $$
"""
LONG = UNKNOWN_DEVICE.replace("  return %1", f"{CHAIN}  return %11")


def test_a_reduced_program_reproduces_the_failure(
    home: Path, triage: Triage, asked: Asked, tmp_path: Path
) -> None:
    path = recipe(tmp_path, "device", LONG)
    answer = asked("reduce", path, "-t", "installed")
    assert (answer["status"], answer["signature"]) == (
        "reduced",
        "undeclared-device:missing",
    )
    assert answer["operations"]["before"] > 10 > answer["operations"]["after"]
    assert answer["bytes"]["after"] < answer["bytes"]["before"]
    assert answer["reproducer"] == "reproducers/device"
    folder = tmp_path / "work" / "reproducers" / "device"
    names = {"input.mlir", "recipe.yaml", "reproducer.json", "repro.sh", "README.md"}
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert texts.keys() == names
    assert texts["input.mlir"] == answer["program"]
    kept = json.loads(texts["reproducer.json"])
    assert (kept["signature"], kept["case"]) == (answer["signature"], "device")
    for private in (str(tmp_path), str(Path.home())):
        assert private not in "".join(texts.values())
    assert triage("recipe", "validate", folder / "recipe.yaml").returncode == 0
    [replayed] = asked("replay", "reproducers", "-t", "installed")["reproducers"]
    assert replayed["status"] == "reproduces"


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


def test_a_reduction_that_the_machine_stops_is_no_answer(
    home: Path, asked: Asked, tmp_path: Path
) -> None:
    write_program(tmp_path / "built" / "tools" / "iree-compile", COMPILER)
    path = command_recipe(tmp_path, "case", "one\ntwo\nthree")
    built = f"path:{tmp_path / 'built'}"
    answer = asked("reduce", path, "-t", built, "--out", tmp_path / "out", code=4)
    assert "killed from outside" in answer["reason"]
