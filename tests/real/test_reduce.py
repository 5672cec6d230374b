"""Reductions on released compilers: from the command line to the reproducer folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT, Triage
from tests.real.answers import json_answer

pytestmark = [pytest.mark.real, pytest.mark.slow]
RECIPES = ROOT / "recipes"


def program_of(triage: Triage, version: str) -> str:
    return str(json_answer(triage, "toolchains", "info", version)["program"])


def start_triage(*words: object, cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from triage.cli import main; main()", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)


def interrupt_when(process: subprocess.Popen[str], path: Path) -> str:
    """Send Ctrl-C as soon as a file exists; return the standard error."""
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    return stderr


def test_a_regression_stays_a_regression(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    words = ["reduce", RECIPES / "cuda-matmul-f32.yaml", "-t", "3.3.0", "--good", "3.0.0", "--out", tmp_path / "small"]
    report = json_answer(triage, *words)
    assert (report["status"], report["signature"]) == ("reduced", "shared-memory-overflow")
    assert report["failure"]["details"]["bytes_used"] > report["failure"]["details"]["bytes_limit"] == 166912
    assert report["lines"]["after"] <= 10
    status = {entry["version"]: entry["status"] for entry in report["evidence"]}
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
    assert [version["status"] for version in replayed["versions"]] == ["reproduces", "fixed"]
    compared = json_answer(triage, "nightly", folder / "recipe.yaml", "-t", "3.3.0", "-b", "3.2.0")
    assert [entry["case"] for entry in compared["known"]] == ["cuda-matmul-f32-reduced"]

    for version, fails in (("3.3.0", True), ("latest", False)):
        env = {**os.environ, "IREE_COMPILE": program_of(triage, version)}
        done = subprocess.run([folder / "repro.sh"], env=env, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is fails, done.stderr
        assert ("shared memory" in done.stderr) is fails


def test_a_nightly_writes_a_reproducer_for_each_new_failure(shared_home: Path, triage: Triage, tmp_path: Path) -> None:
    twice = tmp_path / "twice.yaml"
    text = (RECIPES / "i4-matvec.yaml").read_text()
    twice.write_text(text.replace("name: i4-matvec", "name: twice").replace("models/", f"{RECIPES}/models/"))
    out = tmp_path / "out"
    words = ["nightly", RECIPES / "i4-matvec.yaml", twice, RECIPES / "globals-chain.yaml", "-t", "3.3.0", "-b", "3.2.0"]
    words += ["--reduce", "--out", out]
    process = start_triage(*words, cwd=tmp_path)
    stderr = interrupt_when(process, out / "reproducers" / "i4-matvec")
    assert "triage nightly" in stderr
    assert {path.name for path in out.iterdir()} >= {"nightly.md", "nightly.xml", "nightly.json", "reproducers"}
    assert len(json.loads((out / "nightly.json").read_text())["regressed"]) == 3

    night = json_answer(triage, *words, code=1)
    assert {cluster["reproducer"] for cluster in night["clusters"]} == {"reproducers/i4-matvec", "reproducers/globals-chain"}
    assert all(0 < cluster["operations"] < 110 for cluster in night["clusters"])
    readme = "reproducers/i4-matvec/README.md"
    assert f"]({readme})" in (out / "nightly.md").read_text()
    assert (out / readme).is_file()
    failures = ElementTree.fromstring((out / "nightly.xml").read_text()).iter("failure")
    assert [("reproducers/" in (entry.text or "")) for entry in failures] == [True] * 3
    assert json.loads((out / "nightly.json").read_text())["regressed"] == night["regressed"]
    replayed = json_answer(triage, "replay", out / "reproducers", "-t", "3.3.0")["reproducers"]
    assert [entry["holds"] for entry in replayed] == [True, True]
