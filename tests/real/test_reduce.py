"""Reductions on released compilers: from the command line to the reproducer folder."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage
from tests.real.answers import json_answer

pytestmark = [pytest.mark.real, pytest.mark.slow]
RECIPES = ROOT / "recipes"


def program_of(triage: Triage, version: str) -> str:
    return str(json_answer(triage, "toolchains", "info", version)["program"])


def test_a_regression_stays_a_regression(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    words = [
        "reduce",
        RECIPES / "cuda-matmul-f32.yaml",
        "-t",
        "3.3.0",
        "--good",
        "3.0.0",
        "--out",
        tmp_path / "small",
    ]
    report = json_answer(triage, *words)
    assert (report["status"], report["signature"]) == (
        "reduced",
        "shared-memory-overflow",
    )
    assert (
        report["failure"]["details"]["bytes_used"]
        > report["failure"]["details"]["bytes_limit"]
        == 166912
    )
    assert report["lines"]["after"] <= 10
    status = {
        entry["toolchain"]["name"]: entry["status"] for entry in report["evidence"]
    }
    assert (status["3.0.0"], status["3.3.0"]) == ("passed", "failed")

    folder = Path(report["reproducer"])
    record = json.loads((folder / "reproducer.json").read_text())
    assert record["bad"]["commit"] == "9f4212cc3a64487c5bc7b003e5e197295a8fddf5"
    assert record["good"]["name"] == "3.0.0"
    readme = (folder / "README.md").read_text()
    assert "pip install iree-base-compiler==3.3.0" in readme
    assert (folder / "input.mlir").read_text() in readme

    [replayed] = json_answer(triage, "replay", tmp_path / "small")["reproducers"]
    assert (replayed["status"], replayed["holds"]) == ("fixed", True)
    assert [*replayed["states"].values()] == [
        "reproduces",
        "fixed",
    ]
    compared = json_answer(
        triage, "nightly", folder / "recipe.yaml", "-t", "3.3.0", "-b", "3.2.0"
    )
    assert [entry["case"] for entry in compared["known"]] == ["cuda-matmul-f32-reduced"]

    for version, fails in (("3.3.0", True), ("latest", False)):
        env = {**os.environ, "IREE_COMPILE": program_of(triage, version)}
        done = subprocess.run(
            [folder / "repro.sh"], env=env, capture_output=True, text=True, check=False
        )
        assert (done.returncode != 0) is fails, done.stderr
        assert ("shared memory" in done.stderr) is fails


def test_a_wrong_result_is_reduced(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    words = ("-t", "3.12.0", "--good", "3.13.0", "--out", tmp_path)
    found = json_answer(triage, "reduce", RECIPES / "masked-mean.yaml", *words)
    assert found["operations"]["after"] == 4
    assert found["oracle_calls"] <= 48
