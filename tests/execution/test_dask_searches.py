"""Searches on a Dask cluster of real processes give the same answers as on one machine, also when workers die."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.execution.cluster_lab import Lab, until
from tests.torture.fake_releases import FakeReleases, fake_releases, write_case

pytestmark = pytest.mark.slow
RECIPES = ROOT / "recipes"
#: More than goes with a job, and its candidates soon less.
LINES = "".join(f"line {number} {'x' * 2000}\n" if number != 41 else "this must fail\n" for number in range(60))
TIMES = (
    "started",
    "seconds",
    "compile_seconds",
    "peak_rss_mb",
    "oracle_calls",
    "cached",
    "metrics",
    "probes",
    "rounds",
    "compiles",
)


def reduced(lab: Lab, home: str, executor: str | None = None) -> dict[str, bytes]:
    """Reduce the input `large`, and return the files of its reproducer."""
    out, env = lab.folder / f"out-{home}", {"TRIAGE_EXECUTOR": executor} if executor else {}
    code, answer = lab.triage("reduce", lab.recipe("large"), "-t", f"path:{lab.toolchain}", "--out", out, home=home, **env)
    assert (code, answer["status"], answer["program"]) == (0, "reduced", "this must fail\n")
    return {path.name: path.read_bytes() for path in Path(lab.folder, answer["reproducer"]).iterdir()}


def pause(lab: Lab) -> int:
    """Let the compiles that start from now on wait; return the process that waits for the first of them."""
    (lab.toolchain / "bin" / "pause").touch()
    before = len(lab.calls())
    until(lambda: len(lab.calls()) > before, "a compile waits")
    return int(lab.calls()[before][1])


def test_reduce_on_workers_writes_the_reproducer_that_it_writes_here(lab: Lab) -> None:
    lab.write(large=LINES)
    here = reduced(lab, "here", "local")
    calls = len(lab.calls())
    lab.worker("first")
    lab.worker("second")
    there = reduced(lab, "client")
    inexact = {"reproducer.json", "README.md", "issue.md"}  # they name times and counts
    assert there.keys() == here.keys()
    assert {name: text for name, text in there.items() if name not in inexact} == {
        name: text for name, text in here.items() if name not in inexact
    }
    workers = {call[1] for call in lab.calls()[calls:]}
    assert len(workers) == 2, "both workers compile, and the client does not"
    assert lab.records("first") > 0 < lab.records("second")
    for name in ("first", "second"):
        left = list((lab.folder / f"home-{name}" / "delivered").rglob("*.txt"))
        assert not left, "inputs are removed"


def test_reduce_goes_on_when_a_worker_is_killed(lab: Lab) -> None:
    lab.write(large=LINES)
    here = reduced(lab, "here", "local")
    calls = len(lab.calls())
    lab.worker("first")
    lab.worker("second")
    out = lab.folder / "out"
    process = lab.start_triage("reduce", lab.recipe("large"), "-t", f"path:{lab.toolchain}", "--out", out)
    until(lambda: len(lab.calls()) > calls + 5, "candidates are compiled")
    os.kill(pause(lab), signal.SIGKILL)
    (lab.toolchain / "bin" / "pause").unlink()
    code, answer = lab.ended(process)
    assert (code, answer["status"]) == (0, "reduced")
    assert Path(answer["reproducer"], "input.txt").read_bytes() == here["input.txt"]


def test_the_compile_of_a_candidate_ends_when_its_client_is_gone(lab: Lab) -> None:
    lab.write(large="this must fail\n" + "wait\n" * 3)
    lab.worker("first")
    process = lab.start_triage("reduce", lab.recipe("large"), "-t", f"path:{lab.toolchain}")
    until(lab.calls, "the original is compiled")
    process.kill()
    lab.ended(process)
    until(lambda: not Path("/proc", lab.calls()[0][0]).exists(), "the compiler ends")


def test_reduce_takes_nothing_from_a_worker_with_another_compiler(lab: Lab) -> None:
    lab.write(large=LINES)
    lab.liar("liar")
    code, answer = lab.triage("reduce", lab.recipe("large"), "-t", f"path:{lab.toolchain}")
    assert (code, answer["status"]) == (4, "not-reproducible")
    assert "other bytes" in answer["reason"]
    lab.worker("honest")
    reduced(lab, "client")
    assert lab.records("liar") == 0


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=False, capture_output=True
    ).returncode:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_jobs_of_a_worker_without_space_on_its_disk_are_made_elsewhere(lab: Lab, full_disk: Path) -> None:
    lab.write(fine="fine", other="other", wrong="fail")
    lab.worker("full", TRIAGE_HOME=str(full_disk))
    (full_disk / "filler").write_bytes(bytes(shutil.disk_usage(full_disk).free))
    lab.worker("sound")
    code, results, _ = lab.run("fine", "other", "wrong")
    assert code == 1
    assert {name: result["status"] for name, result in results.items()} == {
        "fine": "passed",
        "other": "passed",
        "wrong": "failed",
    }
    assert (lab.records("client"), lab.records("sound")) == (3, 3)


def with_toolchains(lab: Lab, home: Path, *names: str) -> None:
    """Give processes the released compilers that tests share."""
    for name in names:
        (lab.folder / f"home-{name}").mkdir()
        (lab.folder / f"home-{name}" / "toolchains").symlink_to((home / "toolchains").resolve())


def facts(value: Any, place: str = "") -> dict[str, Any]:
    """Return the parts of an answer by their places, without times and what depends on the number of workers."""
    if not isinstance(value, dict | list):
        return {place: value}
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    parts = [facts(item, f"{place}/{key}") for key, item in entries if key not in TIMES and "seconds" not in str(key)]
    return {name: item for part in parts for name, item in part.items()}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeReleases]:
    """Six releases of a small compiler on an index."""
    with fake_releases(tmp_path_factory.mktemp("releases"), count=6) as made:
        yield made


@pytest.mark.parametrize(
    "words",
    [
        ("history", "cases"),
        ("bisect", "cases/breaks.yaml"),
        ("nightly", "cases", "-t", "latest", "-b", "1.1.0", "--investigate", "--out", "out"),
    ],
    ids=["history", "bisect", "nightly"],
)
def test_searches_answer_as_they_do_here(lab: Lab, releases: FakeReleases, words: tuple[str, ...]) -> None:
    for name, marks in {
        "steady": (),
        "breaks": ("breaks-3",),
        "later": ("breaks-4",),
        "fixed": ("breaks-0", "fixed-3"),
    }.items():
        write_case(lab.folder / "cases", name, *marks)
    index = {"TRIAGE_INDEX_URL": releases.url}
    lab.worker("first", **index)
    lab.worker("second", **index)
    there = lab.triage(*words, **index)
    shutil.rmtree(lab.folder / "out", ignore_errors=True)
    here = lab.triage(*words, home="here", TRIAGE_EXECUTOR="local", **index)
    assert there[0] == here[0] < 2
    ours, theirs = facts(here[1]), facts(there[1])
    assert {
        place: (ours.get(place), theirs.get(place)) for place in ours | theirs if ours.get(place) != theirs.get(place)
    } == {}
    assert lab.records("first") > 0 < lab.records("second")


@pytest.mark.real
@pytest.mark.parametrize(
    "words",
    [
        ("remedy", RECIPES / "cuda-matmul-f32.yaml", "-t", "3.3.0", "--good", "3.0.0", "--budget", "12"),
        ("attribute", RECIPES / "cuda-matmul-f32.yaml", "--bad", "3.1.0", "--good", "3.0.0"),
    ],
    ids=["remedy", "attribute"],
)
def test_remedies_and_passes_are_the_same_as_here(lab: Lab, shared_home: Path, words: tuple[str, ...]) -> None:
    with_toolchains(lab, shared_home, "client", "here", "first", "second")
    lab.worker("first")
    lab.worker("second")
    there = lab.triage(*words)
    here = lab.triage(*words, home="here", TRIAGE_EXECUTOR="local")
    assert there[0] == here[0] == 0
    ours, theirs = facts(here[1]), facts(there[1])
    different = {place: (ours.get(place), theirs.get(place)) for place in ours | theirs if ours.get(place) != theirs.get(place)}
    assert {place: values for place, values in different.items() if place not in ("/tried", "/left")} == {}
    assert lab.records("first") > 0 < lab.records("second")
    assert 2 * (lab.records("first") + lab.records("second")) > lab.records("client"), "most compiles are made by workers"


@pytest.mark.real
def test_a_bisect_goes_on_when_a_worker_is_gone(lab: Lab, shared_home: Path) -> None:
    with_toolchains(lab, shared_home, "client", "first", "second")
    lab.worker("first")
    process = lab.start_triage("bisect", RECIPES / "paged-gather.yaml", "--good", "3.0.0", "--bad", "3.3.0")
    database = lab.folder / "home-first" / "evidence.db"
    until(lambda: database.exists() and lab.records("first"), "the first probe is made")
    lab.end("first")
    lab.worker("second")
    code, answer = lab.ended(process)
    assert (code, answer["status"], answer["before"]["name"], answer["after"]["name"]) == (0, "culprit", "3.1.0", "3.2.0")
    assert lab.records("second") > 0


DEVICE = """name: gpu
input: a.mlir
target: {backend: rocm, chip: gfx942}
run: {device: hip}
"""
PROGRAM = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = arith.addf %a, %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""


@pytest.mark.real
def test_a_case_for_a_device_goes_only_to_workers_that_offer_it(lab: Lab, shared_home: Path) -> None:
    with_toolchains(lab, shared_home, "client", "plain", "gpu")
    (lab.folder / "a.mlir").write_text(PROGRAM)
    (lab.folder / "gpu.yaml").write_text(DEVICE)
    lab.worker("plain")
    code, answer = lab.triage("run", "gpu.yaml", "-t", "3.13.0")
    assert (code, answer["results"][0]["status"]) == (3, "untestable")
    assert "no worker offers the device hip" in answer["results"][0]["reason"]
    lab.worker("gpu", "--resources", "hip=1")
    lab.triage("run", "gpu.yaml", "-t", "3.13.0")
    assert (lab.records("plain"), lab.records("gpu") > 0) == (0, True)
