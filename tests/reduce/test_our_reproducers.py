"""The bundled reproducers are complete, match orders.txt and still fail as recorded."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage

HERE = ROOT / "reproducers"
FOLDERS = sorted(path for path in HERE.iterdir() if path.is_dir())
ALWAYS = {"recipe.yaml", "reproducer.json", "repro.sh", "README.md"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_reproducer_is_complete_and_contains_no_local_path(folder: Path) -> None:
    values = {path.name for path in folder.glob("*.bin")}
    names = {path.name for path in folder.iterdir()} - values - {"compare.py"}
    files = {name: (folder / name).read_text() for name in names}
    used = set(re.findall(r"@(\w+\.bin)", files["recipe.yaml"]))
    assert values == used
    program = {"input.py", "repro.py"} if "input.py" in files else {"input.mlir"}
    assert names == ALWAYS | program
    assert os.access(folder / "repro.sh", os.X_OK)
    assert all(files[name] in files["README.md"] for name in program)
    for name, text in files.items():
        assert not re.search(r"/(root|home|tmp|work|Users)/", text), name
    record = json.loads(files["reproducer.json"])
    seen = {version["version"]: version for version in record["evidence"]}
    assert len(seen) >= 16
    assert seen[record["bad"]["name"]]["signature"] == record["signature"]
    assert record["good"] is None or seen[record["good"]["name"]]["status"] == "passed"


@pytest.mark.real
@pytest.mark.slow
def test_each_reproducer_still_fails_as_recorded(
    shared_home: Path, triage: Triage
) -> None:
    done = triage("replay", HERE, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    replays = json.loads(done.stdout)["reproducers"]
    assert len(replays) == len(FOLDERS)
    assert all(replay["holds"] for replay in replays)
