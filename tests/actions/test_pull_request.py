"""The action on the packages of a pull request: two virtual environments with IREE,
which the job made.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.actions.runner import OWN, Runner
from tests.conftest import ROOT
from triage.nightly.store import read_night

pytestmark = pytest.mark.real
RECIPES = ("cuda-matmul-f32.yaml", "llama-attention-aggressive-fusion.yaml")


def make_environment(folder: Path, version: str) -> None:
    """Make a virtual environment as a job does that installs what it built."""
    uv = Path(sys.executable).parent / "uv"
    packages = ("--python", folder, f"iree-base-compiler=={version}")
    subprocess.run([uv, "venv", "--quiet", folder], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", *packages], check=True)


def test_packages_of_a_pull_request_are_compared(tmp_path: Path) -> None:
    recipes = tmp_path / "checkout" / "recipes"
    shutil.copytree(ROOT / "recipes" / "models", recipes / "models")
    for name in RECIPES:
        shutil.copy(ROOT / "recipes" / name, recipes)
    for name, version in (("new", "3.3.0"), ("base", "3.2.0")):
        make_environment(tmp_path / "run" / "compare" / name, version)
    inputs = {
        "recipes": "\n".join(f"recipes/{name}" for name in RECIPES),
        "toolchain": "path:../new",
        "baseline": "path:../base",
        "options": "--reduce",
        "cache-key": "",
    }
    job = {"steps": [{"uses": "actions/checkout@v7"}, {"uses": OWN, "with": inputs}]}
    workflow = tmp_path / "pull-request.yml"
    workflow.write_text(yaml.safe_dump({"jobs": {"compare": job}}))
    values = {"runner.os": "Linux"}
    runner = Runner(tmp_path / "run", recipes.parent, ROOT, values, {})
    [done] = runner.run(workflow).values()
    assert done.failed == ["Run the nightly"]
    assert (done.outputs["regressed"], done.outputs["failing"]) == ("1", "1")
    night = read_night(done.workspace / "out")
    assert [(case.case, case.change.value) for case in night.cases] == [
        ("cuda-matmul-f32", "known"),
        ("llama-attention-aggressive-fusion[dtype=f16]", "regressed"),
        ("llama-attention-aggressive-fusion[dtype=f8]", "passing"),
    ]
    commits = [(night.toolchain.commit or "")[:10], (night.baseline.commit or "")[:10]]
    assert commits == ["9f4212cc3a", "f3bef2de12"]
    [cluster] = night.clusters
    readme = done.workspace / "out" / str(cluster.reproducer) / "README.md"
    assert "It passes with local build (f3bef2de12" in readme.read_text()
    assert "rocm: 1 of 2 cases newly fail on path:../new" in done.summary
