"""A reduction that the machine stops says so, and is no answer about the program."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Triage
from tests.fake_releases import command_recipe

# It fails on the recipe's own file, and is killed from outside on every other one, as
# by a system without memory.
COMPILER = """#!/bin/sh
case "$1" in
--version) echo 'version 1.0.0'; exit;;
*/case.txt) echo "case.txt:1:1: error: 'a.b' op failed to verify" >&2; exit 1;;
esac
kill -9 $$
"""


def test_a_reduction_that_the_machine_stops_ends_with_exit_4(
    triage: Triage, home: Path, tmp_path: Path
) -> None:
    program = tmp_path / "built" / "tools" / "iree-compile"
    program.parent.mkdir(parents=True)
    program.write_text(COMPILER)
    program.chmod(0o755)
    recipe = command_recipe(tmp_path, "case", "one\ntwo\nthree")
    done = triage(
        "reduce",
        recipe,
        "-t",
        f"path:{tmp_path / 'built'}",
        "--out",
        tmp_path / "out",
        "--format",
        "json",
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert "killed from outside" in json.loads(done.stdout)["reason"]
