"""Reductions on released compilers: from the command line to the reproducer folder."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, Asked

pytestmark = [pytest.mark.real, pytest.mark.slow]
RECIPES = ROOT / "recipes"


def test_a_regression_stays_a_regression(asked: Asked, tmp_path: Path) -> None:
    recipe, small = RECIPES / "cuda-matmul-f32.yaml", tmp_path / "small"
    words = ("-t", "3.3.0", "--good", "3.0.0", "--out", small)
    report = asked("reduce", recipe, *words)
    assert report["signature"] == "shared-memory-overflow"
    details = report["failure"]["details"]
    assert details["bytes_used"] > details["bytes_limit"] == 166912
    assert report["lines"]["after"] <= 10
    status = {row["toolchain"]["name"]: row["status"] for row in report["evidence"]}
    assert (status["3.0.0"], status["3.3.0"]) == ("passed", "failed")

    folder = Path(report["reproducer"])
    record = json.loads((folder / "reproducer.json").read_text())
    assert record["bad"]["commit"] == "9f4212cc3a64487c5bc7b003e5e197295a8fddf5"
    assert record["good"]["name"] == "3.0.0"
    readme = (folder / "README.md").read_text()
    assert "pip install iree-base-compiler==3.3.0" in readme
    assert (folder / "input.mlir").read_text() in readme

    [replayed] = asked("replay", small)["reproducers"]
    assert (replayed["status"], replayed["holds"]) == ("fixed", True)
    assert [*replayed["states"].values()] == ["reproduces", "fixed"]
    compared = asked("nightly", folder / "recipe.yaml", "-t", "3.3.0", "-b", "3.2.0")
    [entry] = compared["cases"]
    assert (entry["case"], entry["change"]) == ("cuda-matmul-f32-reduced", "known")

    for version, fails in (("3.3.0", True), ("latest", False)):
        compiler = asked("toolchains", "info", version)["program"]
        env = {**os.environ, "IREE_COMPILE": compiler}
        done = subprocess.run(
            [folder / "repro.sh"], env=env, capture_output=True, text=True, check=False
        )
        assert (done.returncode != 0) is fails, done.stderr
        assert ("shared memory" in done.stderr) is fails


def test_a_wrong_result_is_reduced(asked: Asked, tmp_path: Path) -> None:
    words = ("-t", "3.12.0", "--good", "3.13.0", "--out", tmp_path)
    found = asked("reduce", RECIPES / "masked-mean.yaml", *words)
    assert found["operations"]["after"] == 4
    assert found["oracle_calls"] <= 48
