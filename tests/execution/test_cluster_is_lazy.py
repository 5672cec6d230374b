"""A command connects to a cluster only when it has a compile to make."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.execution.cluster_lab import Lab
from triage.cli.app import app

NOWHERE = "dask:tcp://127.0.0.1:1"


@pytest.mark.parametrize("words", [("evidence", "export"), ("evidence", "check"), ("toolchains", "list"), ("nights", "list")])
def test_a_command_that_compiles_nothing_needs_no_scheduler(words: tuple[str, ...], home: Path) -> None:
    assert CliRunner().invoke(app, list(words), env={"TRIAGE_EXECUTOR": NOWHERE}).exit_code == 0


def test_known_results_need_no_scheduler(home: Path, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write(fine="fine", wrong="fail")
    words = ["run", str(lab.recipe("fine", "wrong")), "-t", f"path:{lab.toolchain}"]
    assert CliRunner().invoke(app, [*words, "--executor", "local"]).exit_code == 1
    assert CliRunner().invoke(app, words, env={"TRIAGE_EXECUTOR": NOWHERE}).exit_code == 1
    assert CliRunner().invoke(app, [*words, "--dry-run", "--fresh"], env={"TRIAGE_EXECUTOR": NOWHERE}).exit_code == 0
    assert CliRunner().invoke(app, words, env={"TRIAGE_EXECUTOR": "slurm"}).exit_code == 2
