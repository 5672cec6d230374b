"""Commit bisects whose compilers are built on Dask workers of real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bisect.driving import PROJECT, words
from tests.bisect.small_compiler import PROGRAM, RECIPE, Fate, SmallCompiler, begin
from tests.execution.cluster_lab import Lab, until
from tests.execution.conftest import lab

__all__ = ["lab"]
pytestmark = pytest.mark.slow
COUNT, CULPRIT = 24, 15
BROKEN = (9, 20)
#: Python that a client runs first: no worker has the path of its clone.
ELSEWHERE = """
from pathlib import Path
from triage.toolchains.sources import build
order = build.BuildOrder
build.BuildOrder = lambda sha, clone, *others: order(sha, Path("/no/such/clone"), *others)
"""
#: Python that a worker runs first: what it sends is not what it packed.
DAMAGE = """
from triage.cli import dask_worker
packed = dask_worker.packed
Damaged = type("Damaged", (bytes,), {"__reduce__": lambda data: (bytes, (data[:-9],))})
dask_worker.packed = lambda folder: Damaged(packed(folder))
"""
#: `builds` gets the worker's home, the commit and the process of each build; a file `hang` lets builds wait.
BUILD = """build:
  submodules: false
  env: [BUILDS]
  commands:
    - echo "$TRIAGE_HOME $TRIAGE_COMMIT $$" >> "$BUILDS/builds"; while [ -e "$BUILDS/hang" ]; do sleep 0.05; done
    - mkdir "$TRIAGE_OUT/tools"
    - cc -O0 "-DCOMMIT=\\"$TRIAGE_COMMIT\\"" -o "$TRIAGE_OUT/tools/iree-compile" $(find . -name "*.c")
"""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> SmallCompiler:
    fates = [Fate.BROKEN if number in BROKEN else Fate.SOUND for number in range(COUNT)]
    return begin(tmp_path_factory.mktemp("history") / "repo", fates, CULPRIT, suspicious=2)


@pytest.fixture
def asked(lab: Lab, history: SmallCompiler, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return the words of a bisect of a clone."""
    monkeypatch.setenv("BUILDS", str(lab.folder))
    (lab.folder / "m.mlir").write_text(PROGRAM)
    (lab.folder / "attention.yaml").write_text(RECIPE)
    (lab.folder / "triage.yaml").write_text(PROJECT + BUILD)

    def command(clone: Path = history.path) -> list[str]:
        small = SmallCompiler(clone, history.shas, history.fates, history.culprit)
        return [*words(small, Path("attention.yaml"), Path("triage.yaml"), last=COUNT - 1)[:-2], "--no-attribute"]

    return command


def builds(lab: Lab) -> list[list[str]]:
    """Return the home, the commit and the process of each build."""
    file = lab.folder / "builds"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def homes(lab: Lab) -> set[str]:
    """Return the names of the machines that built."""
    return {Path(home).name for home, _, _ in builds(lab)}


def bisected(code: int, answer: dict[str, object], history: SmallCompiler) -> None:
    assert (code, answer["status"], answer["confirmed"]) == (0, "culprit", True), answer.get("reason")
    assert answer["before"]["commit"] == history.shas[CULPRIT - 1]  # type: ignore[index]
    assert answer["after"]["commit"] == history.sha  # type: ignore[index]


def test_workers_build_the_commits_of_a_bisect(lab: Lab, history: SmallCompiler, asked: Callable[..., list[str]]) -> None:
    lab.worker("first")
    lab.worker("second")
    code, answer = lab.triage(*asked())
    bisected(code, answer, history)
    assert homes(lab) == {"home-first", "home-second"}
    shas = [sha for _, sha, _ in builds(lab)]
    repeated = {sha for sha in shas if shas.count(sha) > 1}
    assert repeated <= {history.shas[number] for number in BROKEN}, "only failed builds are repeated"
    assert len(set(shas)) == answer["obtained"]["builds"] + len(answer["untestable"])
    assert not (lab.folder / "home-client" / "builders").exists()
    for name in ("first", "second"):
        assert lab.records(name) == 0, "the client compiles the case"
    there = facts(answer)
    (lab.folder / "builds").unlink()
    again = lab.triage(*asked())
    bisected(*again, history)
    assert not builds(lab), "toolchains and failures are known here now"
    local = lab.triage(*asked(), home="here", TRIAGE_EXECUTOR="local")
    bisected(*local, history)
    assert facts(local[1]) == there
    assert homes(lab) == {"home-here"}


def facts(answer: dict[str, object]) -> object:
    """Return what an answer says of the change, without how it was found."""
    return [answer[key] for key in ("before", "after", "suspects", "failure", "confirmed")]


def test_the_build_of_a_killed_worker_is_made_elsewhere(
    lab: Lab, history: SmallCompiler, asked: Callable[..., list[str]]
) -> None:
    lab.worker("first")
    lab.worker("second")
    (lab.folder / "hang").touch()
    process = lab.start_triage(*asked())
    until(lambda: len(homes(lab)) == 2, "both workers build")
    lab.end("first")
    [(_, sha, pid)] = [build for build in builds(lab) if build[0].endswith("first")]
    until(lambda: not Path("/proc", pid).exists(), "its build ends with it")
    (lab.folder / "hang").unlink()
    bisected(*lab.ended(process), history)
    assert [Path(home).name for home, commit, _ in builds(lab) if commit == sha] == ["home-first", "home-second"]


def test_a_build_that_ends_three_workers_is_the_fault_of_the_machine(
    lab: Lab, history: SmallCompiler, asked: Callable[..., list[str]]
) -> None:
    deadly = f"if [ $TRIAGE_COMMIT = {history.shas[-1]} ]; then kill -9 $PPID; sleep 60; fi; mkdir"
    (lab.folder / "triage.yaml").write_text(PROJECT + BUILD.replace("mkdir", deadly, 1))
    lab.worker("first")
    code, answer = lab.triage(*asked())
    assert (code, answer["status"]) == (4, "inconclusive")
    assert "ended its worker each time" in str(answer["reason"])
    assert [sha for _, sha, _ in builds(lab)].count(history.shas[-1]) == 3


def test_a_worker_without_a_compiler_decides_nothing(
    lab: Lab, history: SmallCompiler, asked: Callable[..., list[str]], tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "git", "mkdir", "sleep", "env"):
        (tools / name).symlink_to(str(shutil.which(name)))
    lab.worker("bare", PATH=str(tools))
    code, answer = lab.triage(*asked())
    assert (code, answer["status"]) == (4, "inconclusive")
    assert "built no other commit" in str(answer["reason"])
    lab.worker("able")
    bisected(*lab.triage(*asked()), history)
    assert homes(lab) == {"home-bare", "home-able"}


def test_a_toolchain_with_another_digest_is_not_used(lab: Lab, history: SmallCompiler, asked: Callable[..., list[str]]) -> None:
    (lab.folder / "damage").mkdir()
    (lab.folder / "damage" / "sitecustomize.py").write_text(DAMAGE)
    lab.worker("damaging", PYTHONPATH=str(lab.folder / "damage"))
    code, answer = lab.triage(*asked())
    assert (code, answer["status"]) == (4, "inconclusive")
    assert "damaged" in str(answer["reason"])
    lab.worker("sound")
    bisected(*lab.triage(*asked()), history)
    assert homes(lab) == {"home-damaging", "home-sound"}


def test_a_worker_without_the_clone_fetches_the_commits(
    lab: Lab, history: SmallCompiler, asked: Callable[..., list[str]]
) -> None:
    clone = lab.folder / "clone"
    subprocess.run(["git", "clone", "--quiet", history.path, clone], check=True)
    lab.worker("first")
    lab.worker("second")
    bisected(*lab.ended(lab.start_triage(*asked(clone), first=ELSEWHERE)), history)
    assert homes(lab) == {"home-first", "home-second"}
    subprocess.run(["git", "remote", "set-url", "origin", lab.folder / "gone"], cwd=clone, check=True)
    code, answer = lab.ended(lab.start_triage(*asked(clone), first=ELSEWHERE, home="other"))
    assert (code, answer["status"]) == (4, "inconclusive")
    assert "cannot fetch the repository" in str(answer["reason"])


def test_a_build_ends_with_its_client(lab: Lab, asked: Callable[..., list[str]]) -> None:
    lab.worker("first")
    (lab.folder / "hang").touch()
    process = lab.start_triage(*asked())
    until(lambda: builds(lab), "a worker builds")
    os.kill(process.pid, signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    until(lambda: not Path("/proc", builds(lab)[0][2]).exists(), "the build ends")
