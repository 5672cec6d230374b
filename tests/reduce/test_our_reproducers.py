"""The bundled reproducers are complete, match orders.txt and still fail as recorded."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage

HERE = ROOT / "reproducers"
FOLDERS = sorted(one for one in HERE.iterdir() if one.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_reproducer_is_complete_and_contains_no_local_path(folder: Path) -> None:
    values = {one.name for one in folder.glob("*.npy")}
    files = {
        one.name: one.read_text() for one in folder.iterdir() if one.name not in values
    }
    assert not values or {f"@{name}" for name in values} == set(
        re.findall(r"@\w+\.npy", files["recipe.yaml"])
    )
    program = {"input.py", "repro.py"} if "input.py" in files else {"input.mlir"}
    assert files.keys() - {"issue.md"} == {
        *program,
        "recipe.yaml",
        "reproducer.json",
        "repro.sh",
        "README.md",
    }
    assert os.access(folder / "repro.sh", os.X_OK)
    assert all(files[name] in files["README.md"] for name in program)
    for name, text in files.items():
        assert not re.search(r"/(root|home|tmp|work|Users)/", text), name
    record = json.loads(files["reproducer.json"])
    seen = {one["version"]: one for one in record["evidence"]}
    assert len(seen) >= 16
    assert seen[record["bad"]["name"]]["signature"] == record["signature"]
    assert record["good"] is None or seen[record["good"]["name"]]["status"] == "passed"


@pytest.mark.real
@pytest.mark.slow
def test_each_reproducer_still_fails_as_recorded(
    shared_home: Path, triage: Triage
) -> None:
    done = triage("replay", HERE, "--format", "json")
    replayed = json.loads(done.stdout)["reproducers"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert {Path(one["reproducer"]).name: one["holds"] for one in replayed} == {
        one.name: True for one in FOLDERS
    }
