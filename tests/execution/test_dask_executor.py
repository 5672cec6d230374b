"""Probes on a Dask cluster of real processes, each worker with a home of its own, and what goes wrong there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from triage.execution.cache import Evidence

pytestmark = pytest.mark.slow
PATIENCE = 300.0  # seconds for what must happen

#: Its input says what it does; `calls` beside it counts the compiles.
COMPILER = """#!/bin/sh
here="$(dirname "$0")"
[ "$1" = --version ] && echo version 1.0 && exit
echo "$$ $PPID $(cat "$1")" >> "$here/calls"
case "$(cat "$1")" in
  *die-once*) [ -e "$here/died" ] || { touch "$here/died"; kill -9 $PPID; sleep 60; } ;;
  *die*) kill -9 $PPID; sleep 60 ;;
  *wait*) while [ ! -e "$here/go" ]; do sleep 0.05; done ;;
esac
case "$(cat "$1")" in *fail*) echo "error: it fails" >&2; exit 1 ;; esac
echo done > "$2"
"""
RECIPE = """name: mine
compiler: command
command: ["{toolchain}/bin/cc", "{input}", "{output}"]
version: {run: ["{toolchain}/bin/cc", "--version"], pattern: "version (.+)"}
input: ${what}.txt
matrix: {what: [NAMES]}
"""


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@dataclass
class Lab:
    """A scheduler, workers and a client, each a process. toolchain: a folder with the compiler."""

    folder: Path
    port: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def toolchain(self) -> Path:
        return self.folder / "built"

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def write(self, **inputs: str) -> None:
        (self.toolchain / "bin").mkdir(parents=True, exist_ok=True)
        compiler = self.toolchain / "bin" / "cc"
        compiler.write_text(COMPILER)
        compiler.chmod(0o755)
        for name, text in inputs.items():
            (self.folder / f"{name}.txt").write_text(text)

    def start(self, name: str, *words: object, **env: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("ab")
        cwd = self.folder / f"cwd-{name}"
        cwd.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "dask", *map(str, words)]
        settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2", "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "3s"}
        environ = os.environ | settings | {"TRIAGE_HOME": str(self.folder / f"home-{name}")} | env
        self.processes[name] = subprocess.Popen(command, env=environ, cwd=cwd, stdout=log, stderr=log, start_new_session=True)
        return self.processes[name]

    def scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        self.start(
            "scheduler", "scheduler", "--host", "127.0.0.1", "--port", self.port, "--no-dashboard", "--scheduler-file", file
        )
        until(lambda: file.exists() and file.read_text().strip().endswith("}"), "the scheduler starts")
        self.port = int(json.loads(file.read_text())["address"].rpartition(":")[2])

    def worker(self, name: str, *words: str, **env: str) -> None:
        options = ["--nthreads", "1", "--no-dashboard", "--name", name, "--memory-limit", "0", *words]
        self.start(name, "worker", self.address, *options, **env)
        until(lambda: b"Registered to" in (self.folder / f"{name}.log").read_bytes(), f"{name} registers")

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        process = self.processes.pop(name)
        os.killpg(process.pid, number)
        process.wait()

    def client(self, *names: str, first: str = "") -> subprocess.Popen[str]:
        """Start `triage run` for these inputs. first: Python that runs before it."""
        (self.folder / "mine.yaml").write_text(RECIPE.replace("NAMES", ", ".join(names)))
        words = ["run", "mine.yaml", "-t", f"path:{self.toolchain}", "--format", "json", "-q"]
        command = [sys.executable, "-c", f"{first}from triage.cli import main; main()", *words]
        env = os.environ | {"TRIAGE_HOME": str(self.folder / "home-client"), "TRIAGE_EXECUTOR": f"dask:{self.address}"}
        return subprocess.Popen(command, env=env, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def answer(self, process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
        """Return the exit code, the results by input, and what was printed to stderr."""
        stdout, stderr = process.communicate(timeout=PATIENCE)
        print(stderr)
        results = json.loads(stdout)["results"] if stdout else []
        return process.returncode, {result["case"].rpartition("=")[2].rstrip("]"): result for result in results}, stderr

    def run(self, *names: str) -> tuple[int, dict[str, Any], str]:
        return self.answer(self.client(*names))

    def calls(self) -> list[list[str]]:
        """Return the process, its parent and the input of each compile."""
        file = self.toolchain / "bin" / "calls"
        return [line.split(maxsplit=2) for line in file.read_text().splitlines()] if file.exists() else []

    def records(self, home: str) -> int:
        with closing(Evidence(self.folder / f"home-{home}" / "evidence.db")) as evidence:
            return evidence.count()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    lab.scheduler()
    try:
        yield lab
    finally:
        for name in list(lab.processes):
            lab.end(name)


def test_workers_make_the_probes_and_the_client_keeps_the_facts(lab: Lab) -> None:
    lab.write(fine="fine", wrong="fail", other="other")
    lab.worker("first")
    lab.worker("second")
    code, results, _ = lab.run("fine", "wrong", "other")
    assert code == 1
    assert {name: (result["status"], result["cached"]) for name, result in results.items()} == {
        "fine": ("passed", False),
        "wrong": ("failed", False),
        "other": ("passed", False),
    }
    assert (lab.records("client"), lab.records("first") + lab.records("second")) == (3, 3)
    calls = lab.calls()
    code, results, _ = lab.run("fine", "wrong", "other")
    assert (code, {result["cached"] for result in results.values()}, lab.calls()) == (1, {True}, calls)


def test_a_job_whose_worker_is_killed_is_made_elsewhere_and_counted_once(lab: Lab) -> None:
    lab.write(unlucky="die-once", fine="fine")
    lab.worker("first")
    lab.worker("second")
    code, results, _ = lab.run("unlucky", "fine")
    assert (code, {result["status"] for result in results.values()}) == (0, {"passed"})
    assert [call[2] for call in lab.calls()].count("die-once") == 2
    assert lab.records("client") == 2


def test_jobs_that_were_sent_together_are_sent_alone_when_their_worker_dies(lab: Lab) -> None:
    names = [f"fine{number}" for number in range(15)]
    lab.write(deadly="die", **{name: name for name in names})
    lab.worker("first")
    first = "from triage.execution import dask_executor as d; d._MANY_SLOTS = 0; "  # as for 200 workers
    code, results, _ = lab.answer(lab.client("deadly", *names, first=first))
    assert (code, results.pop("deadly")["status"]) == (4, "untestable")
    assert ({result["status"] for result in results.values()}, len(results)) == ({"passed"}, 15)
    assert lab.records("client") == 15


def test_a_job_that_ends_three_workers_is_untestable(lab: Lab) -> None:
    lab.write(deadly="die", fine="fine")
    lab.worker("first")
    lab.worker("second")
    code, results, _ = lab.run("deadly", "fine")
    assert (code, results["deadly"]["status"], results["fine"]["status"]) == (4, "untestable", "passed")
    assert "KilledWorker" in results["deadly"]["reason"]
    assert [call[2] for call in lab.calls()].count("die") == 6, "with other jobs on the workers, then alone"
    assert lab.records("client") == 1


LIE = """
from dataclasses import replace
from pathlib import Path
from triage.toolchains.registry import ToolchainRegistry
obtain = ToolchainRegistry._obtain
ToolchainRegistry._obtain = lambda self, ref: obtain(self, replace(ref, path=Path(FOLDER)))
"""


def test_a_worker_with_another_compiler_of_that_name_has_no_say(lab: Lab) -> None:
    lab.write(fine="fine", wrong="fail")
    other = lab.folder / "other" / "bin" / "cc"
    other.parent.mkdir(parents=True)
    other.write_text(COMPILER + "# other bytes\n")
    other.chmod(0o755)
    (lab.folder / "lie").mkdir()
    (lab.folder / "lie" / "sitecustomize.py").write_text(LIE.replace("FOLDER", repr(str(lab.folder / "other"))))
    lab.worker("liar", PYTHONPATH=str(lab.folder / "lie"))
    code, results, _ = lab.run("fine")
    assert (code, results["fine"]["status"]) == (4, "untestable")
    assert "other bytes" in results["fine"]["reason"]
    lab.worker("honest")
    code, results, _ = lab.run("fine", "wrong")
    assert (code, results["fine"]["status"], results["wrong"]["status"]) == (1, "passed", "failed")
    assert (lab.records("client"), lab.records("liar")) == (2, 0)


def test_a_worker_whose_disk_is_full_passes_jobs_on(lab: Lab) -> None:
    lab.write(fine="fine", other="other")
    (lab.folder / "home-full").mkdir()
    (lab.folder / "home-full" / "delivered").symlink_to("/proc/1/full")  # nothing can be written there
    lab.worker("full")
    lab.worker("sound")
    code, results, _ = lab.run("fine", "other")
    assert (code, {result["status"] for result in results.values()}) == (0, {"passed"})
    assert lab.records("sound") == 2


def test_a_restarted_scheduler_loses_no_result(lab: Lab) -> None:
    lab.write(fine="fine", slow="wait")
    lab.worker("first")
    process = lab.client("fine", "slow")
    until(lambda: any(call[2] == "wait" for call in lab.calls()), "the second job starts")
    lab.end("scheduler")
    lab.end("first")
    lab.scheduler()
    lab.worker("second")
    (lab.toolchain / "bin" / "go").touch()
    code, results, stderr = lab.answer(process)
    assert (code, [result["status"] for result in results.values()]) == (0, ["passed", "passed"]), stderr
    assert lab.records("client") == 2


def test_a_worker_that_is_cut_off_for_a_while_is_not_counted_twice(lab: Lab) -> None:
    lab.write(slow="wait")
    lab.worker("first", "--no-nanny")
    process = lab.client("slow")
    until(lab.calls, "the job starts")
    os.kill(lab.processes["first"].pid, signal.SIGSTOP)
    lab.worker("second", "--no-nanny")
    until(lambda: len(lab.calls()) == 2, "the job starts elsewhere")
    (lab.toolchain / "bin" / "go").touch()
    os.kill(lab.processes["first"].pid, signal.SIGCONT)
    code, results, stderr = lab.answer(process)
    assert (code, [result["status"] for result in results.values()]) == (0, ["passed"]), stderr
    assert lab.records("client") == 1


def test_ctrl_c_ends_what_runs_on_workers(lab: Lab) -> None:
    lab.write(slow="wait")
    lab.worker("first")
    process = lab.client("slow")
    until(lab.calls, "the job starts")
    process.send_signal(signal.SIGINT)
    code, _, stderr = lab.answer(process)
    assert (code, "To continue" in stderr) == (130, True)
    [[compiler, _, _]] = lab.calls()
    until(lambda: not Path("/proc", compiler).exists(), "the compiler ends")
    (lab.toolchain / "bin" / "go").touch()
    assert lab.run("slow")[0] == 0, "the worker goes on"


def test_a_worker_of_another_version_is_refused(lab: Lab) -> None:
    lab.write(fine="fine")
    other = lab.folder / "other" / "iree_triage-99.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: iree-triage\nVersion: 99.0\n")
    lab.worker("newer", PYTHONPATH=str(other.parent))
    code, _, stderr = lab.run("fine")
    assert (code, "triage 99.0" in stderr) == (4, True)


def test_a_scheduler_that_is_not_there_is_an_environment_failure(lab: Lab) -> None:
    lab.write(fine="fine")
    lab.end("scheduler")
    code, _, stderr = lab.run("fine")
    assert (code, lab.address in stderr) == (4, True)
