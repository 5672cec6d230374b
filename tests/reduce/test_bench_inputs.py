"""The benchmark's models fail as described, and its interestingness script accepts exactly that failure."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest

from benchmarks.reduce import with_constants
from benchmarks.reduce_inputs import model, recipe
from benchmarks.reduce_patterns import PATTERNS
from benchmarks.reduce_task import planned, script, sized, started, task_of
from tests.conftest import Triage
from triage.compilers.registry import Families
from triage.execution.mlir_tools import Reader
from triage.reduce.frontends.mlir.frontend import MlirFrontend

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", ["undeclared-device", "segfault"])
def test_a_model_fails_on_one_release_and_compiles_on_the_other(
    name: str, tmp_path: Path, triage: Triage, shared_home: Path
) -> None:
    pattern = PATTERNS[name]
    (tmp_path / "model.mlir").write_text(model(name, 300))
    (tmp_path / "model.yaml").write_text(recipe(name, "model.mlir"))
    versions = [version for version in (pattern.bad, pattern.good) if version]
    done = triage("run", tmp_path / "model.yaml", *(word for version in versions for word in ("-t", version)), "-f", "json")
    results = {one["toolchain"]["name"]: one for one in json.loads(done.stdout)["results"]}
    assert results[pattern.bad]["failure"]["class"] == pattern.failure
    assert bool(results[pattern.bad]["failure"]["location"]) == pattern.located
    assert [results[version]["status"] for version in versions[1:]] == ["passed"] * len(versions[1:])


def test_the_oracle_holds_for_the_model_and_for_nothing_else(tmp_path: Path, shared_home: Path) -> None:
    name = "undeclared-device"
    task = task_of(name, model(name, 300), tmp_path / "task")
    oracle = script(task.folder, planned(task, task.case, started(task)))

    def asked(text: str) -> int:
        (tmp_path / "candidate.mlir").write_text(text)
        return subprocess.run([oracle, tmp_path / "candidate.mlir"], check=False).returncode

    text = task.model.read_text()
    assert asked(text) == 0
    assert asked(text.replace("@__device_7", "@__device_1")) == 1  # compiles
    assert asked(text.replace("@main", "@@main")) == 1  # fails in another way
    log = (task.folder / "oracle" / "calls").read_text().split()
    assert log == ["call", "bad"] * 3
    assert [one.read_text() for one in (task.folder / "oracle" / "kept").iterdir()] == [text]


class RecordingReader(Reader):
    """Keeps in mind how files were read."""

    def generic(self, path: Path, *, elide: bool = False) -> str | None:
        readings.append(elide)
        return super().generic(path, elide=elide)


readings: list[bool] = []


def test_large_constants_are_read_only_where_the_program_does_not_fail_without_them(tmp_path: Path, shared_home: Path) -> None:
    name = "undeclared-device"
    text = model(name, 400)
    weights = text.count("_w1:") + text.count("_w2:")
    task = task_of(name, with_constants(text), tmp_path / "task")
    assert task.model.stat().st_size > weights * 128 * 256 * 4 * 2  # hexadecimal
    path = tmp_path / "plain.mlir"
    path.write_text(text)
    assert sized(task, task.model)[1] == (sized(task, path)[1] or 0) + weights
    tools = Families()["iree"].mlir_tools(task.bad)
    assert tools
    documents = iter(MlirFrontend(RecordingReader(tools, threading.Event())).open(task.model))
    readings.clear()
    small, whole = next(documents), readings.copy()
    assert whole == [True]
    assert len(small.content) < task.model.stat().st_size / 10
    assert len(next(documents).content) > task.model.stat().st_size
    assert readings == [True, False]
