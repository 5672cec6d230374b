"""Reductions on released compilers from the command line, and what their folders are good for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT, Triage

pytestmark = [pytest.mark.real, pytest.mark.slow]
RECIPES = ROOT / "recipes"
DEVICE = RECIPES / "sharded-llama-undeclared-device.yaml"


def answer(triage: Triage, *words: object, code: int = 0) -> Any:
    done = triage(*words, "--format", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def compiler(triage: Triage, version: str) -> str:
    return str(answer(triage, "toolchains", "info", version)["program"])


def started(*words: object, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from triage.cli import main; main()", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)


def interrupt_when(running: subprocess.Popen[str], path: Path) -> str:
    """Ctrl-C as soon as a file is there; what was said."""
    while not path.exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert "Traceback" not in said
    return said


def test_a_regression_stays_a_regression(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    words = ["reduce", RECIPES / "cuda-matmul-f32.yaml", "-t", "3.3.0", "--good", "3.0.0", "--out", tmp_path / "small"]
    told = answer(triage, *words, "--save-other-failures", tmp_path / "other")
    assert (told["status"], told["signature"]) == ("reduced", "shared-memory-overflow")
    assert sorted(told["other_reproducers"]) == sorted(map(str, (tmp_path / "other").iterdir()))
    assert len(told["other_reproducers"]) == len(told["others"]) > 0
    others = answer(triage, "replay", tmp_path / "other", "-t", "3.3.0")["reproducers"]
    assert [one["versions"][0]["status"] for one in others] == ["reproduces"] * len(others)
    assert told["failure"]["details"]["bytes_used"] > told["failure"]["details"]["bytes_limit"] == 166912
    assert told["lines"]["after"] <= 10
    status = {one["version"]: one["status"] for one in told["evidence"]}
    assert (status["3.0.0"], status["3.3.0"]) == ("passed", "failed")

    folder = Path(told["reproducer"])
    record = json.loads((folder / "reproducer.json").read_text())
    assert record["bad"]["commit"] == "9f4212cc3a64487c5bc7b003e5e197295a8fddf5"
    assert record["good"]["name"] == "3.0.0"
    readme = (folder / "README.md").read_text()
    assert "pip install iree-base-compiler==3.3.0" in readme
    assert (folder / "input.mlir").read_text() in readme

    [replayed] = answer(triage, "replay", tmp_path / "small")["reproducers"]
    assert (replayed["status"], replayed["holds"]) == ("fixed", True)
    assert [one["status"] for one in replayed["versions"]] == ["reproduces", "fixed"]
    compared = answer(triage, "nightly", folder / "recipe.yaml", "-t", "3.3.0", "-b", "3.2.0")
    assert [one["case"] for one in compared["known"]] == ["cuda-matmul-f32-reduced"]

    for version, fails in (("3.3.0", True), ("latest", False)):
        env = {**os.environ, "IREE_COMPILE": compiler(triage, version)}
        done = subprocess.run([folder / "repro.sh"], env=env, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is fails, done.stderr
        assert ("shared memory" in done.stderr) is fails


def test_devices_go_and_the_undeclared_one_stays(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    told = answer(triage, "reduce", DEVICE, "-t", "3.8.0", "--out", tmp_path / "small")
    assert told["signature"] == "undeclared-device:__device_7"
    assert "__device_7" in told["program"]
    assert told["operations"]["after"] < 20 < told["operations"]["before"]
    [replayed] = answer(triage, "replay", tmp_path / "small", "-t", "3.3.0", "-t", "latest")["reproducers"]
    assert [one["status"] for one in replayed["versions"]] == ["reproduces", "reproduces"]
    script = (Path(told["reproducer"]) / "repro.sh").read_text()
    assert script.count("--iree-hal-target-device=") < 7


def test_an_interrupted_reduction_goes_on(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    words = ["reduce", DEVICE, "-t", "3.8.0", "--out", tmp_path / "small"]
    running = started(*words, cwd=tmp_path)
    kept = shared_home / "reductions"
    while not list(kept.glob("*/settings.json")):
        assert running.poll() is None
        time.sleep(0.05)
    said = interrupt_when(running, kept)
    assert "To go on:" in said
    assert not (tmp_path / "small").exists()
    told = answer(triage, *words, "--resume")
    assert told["operations"]["after"] < 20
    assert told["reproducer"] == str(tmp_path / "small" / "sharded-llama-undeclared-device")


def test_a_night_leaves_a_reproducer_for_each_new_failure(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    twice = tmp_path / "twice.yaml"
    text = (RECIPES / "i4-matvec.yaml").read_text()
    twice.write_text(text.replace("name: i4-matvec", "name: twice").replace("models/", f"{RECIPES}/models/"))
    out = tmp_path / "out"
    words = ["nightly", RECIPES / "i4-matvec.yaml", twice, RECIPES / "globals-chain.yaml", "-t", "3.3.0", "-b", "3.2.0"]
    words += ["--reduce", "--out", out]
    running = started(*words, cwd=tmp_path)
    said = interrupt_when(running, out / "reproducers" / "i4-matvec")
    assert "To go on:" in said
    assert {one.name for one in out.iterdir()} >= {"nightly.md", "nightly.xml", "nightly.json", "reproducers"}
    assert len(json.loads((out / "nightly.json").read_text())["regressed"]) == 3

    night = answer(triage, *words, code=1)
    told = {one["case"]: one["example"] for one in night["regressed"]}
    assert told["twice"] == told["i4-matvec"]
    assert {Path(one["reproducer"]).name for one in told.values()} == {"i4-matvec", "globals-chain"}
    assert all(0 < one["operations"] < 110 for one in told.values())
    readme = "reproducers/i4-matvec/README.md"
    assert f"]({readme})" in (out / "nightly.md").read_text()
    assert (out / readme).is_file()
    failures = ElementTree.fromstring((out / "nightly.xml").read_text()).iter("failure")
    assert [("reproducers/" in (one.text or "")) for one in failures] == [True] * 3
    assert json.loads((out / "nightly.json").read_text())["regressed"] == night["regressed"]
    replayed = answer(triage, "replay", out / "reproducers", "-t", "3.3.0")["reproducers"]
    assert [one["holds"] for one in replayed] == [True, True]
