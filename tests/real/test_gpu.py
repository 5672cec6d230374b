"""A program compiled for an NVIDIA GPU gives the same results there as on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/dev/nvidia0").exists(),
        reason="device: cuda is not tested: no NVIDIA GPU (/dev/nvidia0)",
    ),
]


def test_a_program_runs_on_a_gpu(
    shared_home: Path, triage: Triage, tmp_path: Path
) -> None:
    text = (
        (ROOT / "recipes" / "masked-mean.yaml")
        .read_text()
        .partition("expect:\n  - ")[0]
    )
    text = text.replace("{backend: llvm-cpu}", "{backend: cuda, chip: sm_86}").replace(
        "run:\n", "run:\n  device: cuda\n"
    )
    path = tmp_path / "masked-mean.yaml"
    path.write_text(
        text.replace("models/", f"{ROOT}/recipes/models/").replace(
            "@values/", f"@{ROOT}/recipes/values/"
        )
    )
    done = triage("run", path, "-t", "3.13.0", "--format", "json")
    [result] = json.loads(done.stdout)["results"]
    assert result["status"] == "passed", result
    assert result["metrics"]["run_seconds"] > 0
