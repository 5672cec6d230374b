"""Folders of compiles: removed whatever is in them, and named when that is
impossible.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.conftest import Triage
from tests.execution.cluster_lab import RECIPE
from tests.programs import write_program
from triage.execution.engine import open_engine
from triage.toolchains.home import remove_tree

DEEP = """#!/bin/sh
[ "$1" = --version ] && echo version 1.0 && exit
cd "$TMPDIR"
name=$(printf "a%.0s" $(seq 200))
for i in $(seq 30); do mkdir $name && cd $name || exit 3; done
chmod 0 .
echo "error: it fails" >&2; exit 1
"""


def test_a_deep_folder_of_a_compile_stops_no_run(
    home: Path, tmp_path: Path, triage: Triage
) -> None:
    write_program(tmp_path / "built" / "bin" / "cc", DEEP)
    (tmp_path / "x.txt").write_text("x")
    (tmp_path / "mine.yaml").write_text(RECIPE.replace("NAMES", "x"))
    rev = f"path:{tmp_path / 'built'}"
    words = ("run", tmp_path / "mine.yaml", "-t", rev, "--fresh", "--format", "json")
    for _ in range(2):
        done = triage(*words)
        [result] = json.loads(done.stdout)["results"]
        assert (done.returncode, result["status"]) == (1, "failed"), done.stderr
    assert not any((home / "scratch").iterdir())


def test_a_tree_of_links_and_closed_folders_is_removed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    root = tmp_path / "root"
    for name in ("0/0/1", "1/0", "2/2/2"):
        (root / name).mkdir(parents=True)
    (root / "3").symlink_to(kept)
    (root / "2" / "link").symlink_to(kept)
    (root / "4").symlink_to("nowhere")
    (root / "2" / "2").chmod(0)
    remove_tree(root)
    assert not os.path.lexists(root)
    (tmp_path / "link").symlink_to(kept)
    remove_tree(tmp_path / "link")
    assert (kept / "file").exists()


def test_folders_of_killed_processes_are_removed(home: Path) -> None:
    (home / "scratch" / "dead").mkdir(parents=True)
    with open_engine([]) as engine, engine.folder() as alive, open_engine([]):
        assert list((home / "scratch").iterdir()) == [alive]


def test_doctor_makes_five_checks(home: Path, triage: Triage) -> None:
    checks = json.loads(triage("doctor", "--format", "json").stdout)["checks"]
    names = " ".join(check["check"] for check in checks)
    assert names == "home machine seal toolchains index"
