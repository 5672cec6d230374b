"""Wrong results and failed runs of released compilers are reduced with their inputs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT, Triage
from tests.real.answers import json_answer
from triage.compilers.iree import Iree
from triage.toolchains.registry import ToolchainRegistry

pytestmark = [pytest.mark.real, pytest.mark.slow]
MASKED_MEAN = ROOT / "recipes" / "masked-mean.yaml"


def tools_of(home: Path, version: str) -> dict[str, str]:
    """The variables that make a script use the tools of a release."""
    registry = ToolchainRegistry(home, {"iree": Iree()})
    toolchain = registry.obtain(registry.resolve(version, "iree"))
    runner = Iree().runner()
    program = runner.program(registry.runtime(toolchain, runner.distribution))
    return {"IREE_COMPILE": str(toolchain.program), "IREE_RUN_MODULE": str(program)}


def test_a_wrong_result_is_reduced_with_its_inputs(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    report = json_answer(triage, "reduce", MASKED_MEAN, "-t", "3.12.0", "--good", "3.13.0", "--out", tmp_path / "small")
    assert (report["status"], report["failure"]["class"], report["failure"]["stage"]) == ("reduced", "wrong-result", "compare")
    assert report["operations"]["before"] == 19
    assert report["operations"]["after"] <= 4
    assert "onnx.ReduceMax" in report["program"]
    status = {entry["version"]: entry["status"] for entry in report["evidence"]}
    assert (status["3.12.0"], status["3.13.0"]) == ("failed", "passed")
    folder = Path(report["reproducer"])
    tokens = np.load(folder / "input_0.npy")
    assert tokens.dtype == np.dtype("?")
    assert tokens.size < 24
    for version, wrong in (("3.12.0", True), ("3.13.0", False)):
        env = {**os.environ, **tools_of(shared_home, version)}
        done = subprocess.run([folder / "repro.sh"], env=env, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is wrong, done.stdout
        assert ("[FAILED]" in done.stdout) is wrong
    readme = (folder / "README.md").read_text()
    assert "iree-base-compiler==3.12.0 iree-base-runtime==3.12.0" in readme
    assert "--expected_output=" in readme
    [replayed] = json_answer(triage, "replay", tmp_path / "small", "-t", "3.12.0", "-t", "3.13.0")["reproducers"]
    assert [version["status"] for version in replayed["versions"]] == ["reproduces", "fixed"]
    again = json_answer(
        triage, "reduce", MASKED_MEAN, "-t", "3.12.0", "--good", "3.13.0", "--out", tmp_path / "small", "--resume"
    )
    assert again["operations"]["after"] <= report["operations"]["after"]


def test_without_anything_to_compare_with_nothing_is_reduced(shared_home: Path, triage: Triage) -> None:
    report = json_answer(triage, "reduce", MASKED_MEAN, "-t", "3.12.0", code=3)
    assert report["status"] == "not-reproducible"
    assert "--good" in report["reason"]


def test_a_regression_that_the_good_release_does_not_confirm_is_refused(shared_home: Path, triage: Triage) -> None:
    report = json_answer(triage, "reduce", MASKED_MEAN, "-t", "3.12.0", "--good", "3.11.0", code=3)
    assert report["status"] == "not-reproducible"
    assert {entry["status"] for entry in report["tried"]} == {"failed", "xfail"} or len(report["tried"]) == 2


def test_the_same_reproducer_as_the_bundled_one(shared_home: Path, triage: Triage) -> None:
    folder = ROOT / "reproducers" / "masked-mean"
    record = json.loads((folder / "reproducer.json").read_text())
    assert record["operations"] == {"before": 19, "after": 4}
    [replayed] = json_answer(triage, "replay", folder, "-t", "3.12.0", "-t", "3.13.0")["reproducers"]
    assert [version["status"] for version in replayed["versions"]] == ["reproduces", "fixed"]
