"""A program compiled for an NVIDIA GPU gives the same results there as on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Asked

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/dev/nvidia0").exists(),
        reason="device: cuda is not tested: no NVIDIA GPU (/dev/nvidia0)",
    ),
]


def test_a_program_runs_on_a_gpu(asked: Asked, tmp_path: Path) -> None:
    text = (ROOT / "recipes" / "masked-mean.yaml").read_text()
    text = text.partition("expect:\n  - ")[0]
    for old, new in {
        "{backend: llvm-cpu}": "{backend: cuda, chip: sm_86}",
        "run:\n": "run:\n  device: cuda\n",
        "models/": f"{ROOT}/recipes/models/",
        "@values/": f"@{ROOT}/recipes/values/",
    }.items():
        text = text.replace(old, new)
    path = tmp_path / "masked-mean.yaml"
    path.write_text(text)
    [result] = asked("run", path, "-t", "3.13.0")["results"]
    assert result["status"] == "passed", result
    assert result["metrics"]["run_seconds"] > 0
