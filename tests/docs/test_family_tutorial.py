"""The family of CONTRIBUTING.md works: its folder and one line of the registry give
every answer that the page shows, on real releases.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

import triage.compilers
from tests.compilers.contract import CHECKS, Contract, Sample
from tests.conftest import ROOT, Asked
from triage.compilers import registry

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
def test_the_commands_of_the_page(asked: Asked, tmp_path: Path) -> None:
    def answer(command: str, code: int) -> Any:
        assert f"triage {command}" in PAGE
        words = command.replace("docs/examples", str(EXAMPLES)).split()
        return asked(*words, code=code, cwd=tmp_path)

    recipe = "docs/examples/pad-pool.yaml"
    passed, failed = answer(f"run {recipe} -t 1.19.2 -t 1.20.1", 1)["results"]
    assert (passed["status"], failed["status"]) == ("passed", "failed")
    assert failed["failure"]["class"] == "wrong-result"
    assert failed["failure"]["details"]["actual"] == 1
    bisection = answer(f"bisect {recipe} --good 1.19.2 --bad 1.20.1", 0)
    assert bisection["after"]["name"] == "1.20.0"
    reduced = answer(f"reduce {recipe} -t 1.20.1 --good 1.19.2", 0)
    assert reduced["program"] is None  # ONNX is not a text
    remedies = answer(f"remedy {recipe} -t 1.20.1", 0)["remedies"]
    assert "--disable=Pad_Fusion" in json.dumps(remedies)
