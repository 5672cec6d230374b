"""The family of CONTRIBUTING.md works: its folder and one line of the registry give
every answer that the page shows, on real releases.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import triage.compilers
from tests.compilers.contract import CHECKS, Contract, Sample
from tests.conftest import Triage
from triage.compilers import registry

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
NAME, CLASS = "onnxruntime", "triage.compilers.onnxruntime.adapter:OnnxRuntime"
SAMPLE = Sample(
    NAME,
    "1.20.1",
    "pad-pool.onnx",
    (EXAMPLES / "pad-pool.onnx").read_bytes(),
    "target: {backend: cpu}",
    'run: {inputs: ["1x1x2x2xf32=1"]}',
    backends=frozenset({"cpu"}),
)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry with the line."""
    path = [*triage.compilers.__path__, str(EXAMPLES)]
    monkeypatch.setattr(triage.compilers, "__path__", path)
    importlib.invalidate_caches()
    monkeypatch.setitem(registry._CLASSES, NAME, CLASS)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("check", CHECKS)
def test_the_family_keeps_the_contract(
    check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    getattr(Contract(SAMPLE, tmp_path), check)()


@pytest.mark.real
@pytest.mark.usefixtures("registered", "shared_home")
def test_the_commands_of_the_page(triage: Triage, tmp_path: Path) -> None:
    def answer(command: str, code: int) -> Any:
        assert f"triage {command}" in PAGE
        words = command.replace("docs/examples", str(EXAMPLES)).split()
        done = triage(*words, "--format", "json", cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    recipe = "docs/examples/pad-pool.yaml"
    found = answer(f"run {recipe} -t 1.19.2 -t 1.20.1", 1)["results"]
    assert [each["status"] for each in found] == ["passed", "failed"]
    assert found[1]["failure"]["class"] == "wrong-result"
    assert found[1]["failure"]["details"]["actual"] == 1

    found = answer(f"bisect {recipe} --good 1.19.2 --bad 1.20.1", 0)
    assert found["after"]["name"] == "1.20.0"

    found = answer(f"reduce {recipe} -t 1.20.1 --good 1.19.2", 0)
    assert found["program"] is None  # ONNX is not a text
    folder = tmp_path / found["reproducer"]
    home = Path(os.environ["TRIAGE_HOME"])
    for version, status in (("1.19.2", 0), ("1.20.1", 1)):
        [root] = home.glob(f"toolchains/venv-onnxruntime-*-{version}-*")
        env = {"PATH": "/usr/bin:/bin", "PYTHON": f"{root}/bin/python"}
        done = subprocess.run(
            [folder / "repro.sh"], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr

    found = answer(f"remedy {recipe} -t 1.20.1", 0)
    assert "--disable=Pad_Fusion" in json.dumps(found["remedies"])
