"""A Dask cluster of real processes, each with a home of its own, and a compiler whose
input says what it does.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.programs import write_program

PATIENCE = 300.0  # seconds for what must happen

#: Its input says what it does; `calls` beside its folder counts the compiles.
COMPILER = """#!/bin/sh
here="$(dirname "$0")/../.."
[ "$1" = --version ] && echo version 1.0 && exit
echo "$$ $PPID $(head -n 1 "$1")" >> "$here/calls"
while [ -e "$here/pause" ]; do sleep 0.05; done
case "$(cat "$1")" in
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

#: Python that a worker runs first: every toolchain is the one in another folder.
LIE = """
from dataclasses import replace
from pathlib import Path
from triage.toolchains.registry import ToolchainRegistry
obtain = ToolchainRegistry._obtain
ToolchainRegistry._obtain = lambda self, ref: obtain(self, replace(ref, path=Path(FOLDER)))
"""


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@dataclass
class Lab:
    """A scheduler, workers and a client, each a process. toolchain: a folder with the
    compiler.
    """

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
        write_program(self.toolchain / "bin" / "cc", COMPILER)
        for name, text in inputs.items():
            (self.folder / f"{name}.txt").write_text(text)

    def start(self, name: str, *words: str, **env: str) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        environ = {
            **os.environ,
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2",
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "3s",
            "TRIAGE_HOME": str(self.folder / f"home-{name}"),
            **env,
        }
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            env=environ,
            cwd=self.folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        options = f"--host 127.0.0.1 --port {self.port} --no-dashboard".split()
        self.start("scheduler", "scheduler", *options, "--scheduler-file", str(file))
        until(
            lambda: file.exists() and file.read_text().strip().endswith("}"),
            "the scheduler starts",
        )
        self.port = int(json.loads(file.read_text())["address"].rpartition(":")[2])

    def worker(self, name: str, **env: str) -> None:
        options = f"--nthreads 1 --no-dashboard --name {name} --memory-limit 0".split()
        self.start(name, "worker", self.address, *options, **env)
        until(
            lambda: b"Registered to" in (self.folder / f"{name}.log").read_bytes(),
            f"{name} registers",
        )

    def liar(self, name: str) -> None:
        """Start a worker whose compiler has other bytes."""
        other, lie = self.folder / "other", self.folder / "lie"
        write_program(other / "bin" / "cc", COMPILER + "# other bytes\n")
        lie.mkdir()
        text = LIE.replace("FOLDER", repr(str(other)))
        (lie / "sitecustomize.py").write_text(text)
        self.worker(name, PYTHONPATH=str(lie))

    def end(self, name: str) -> None:
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def recipe(self, *names: str) -> Path:
        """Write the recipe of these inputs."""
        path = self.folder / "mine.yaml"
        path.write_text(RECIPE.replace("NAMES", ", ".join(names)))
        return path

    def start_triage(self, *words: object) -> subprocess.Popen[str]:
        """Start a command that uses the cluster."""
        program = [sys.executable, "-c", "from triage.cli import main; main()"]
        environ = {
            **os.environ,
            "TRIAGE_HOME": str(self.folder / "home-client"),
            "TRIAGE_EXECUTOR": f"dask:{self.address}",
        }
        return subprocess.Popen(
            [*program, *map(str, words), "--format", "json"],
            env=environ,
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ended(self, process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
        """Wait for a command; return its exit code, its answer, and what was printed to
        stderr.
        """
        stdout, stderr = process.communicate(timeout=PATIENCE)
        return process.returncode, json.loads(stdout or "{}"), stderr

    def words(self, *names: str) -> list[str]:
        """Return the command that runs these inputs."""
        rev = f"path:{self.toolchain}"
        return ["run", str(self.recipe(*names)), "-t", rev, "-q"]

    def client(self, *names: str) -> subprocess.Popen[str]:
        """Start `triage run` for these inputs."""
        return self.start_triage(*self.words(*names))

    def answer(self, process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
        """Return the exit code, the results by input, and what was printed to stderr."""
        code, answer, stderr = self.ended(process)
        results = {
            result["case"].rpartition("=")[2].rstrip("]"): result
            for result in answer.get("results", ())
        }
        return code, results, stderr

    def run(self, *names: str) -> tuple[int, dict[str, Any], str]:
        return self.answer(self.client(*names))

    def calls(self) -> list[list[str]]:
        """Return the process, its parent and the input of each compile."""
        file = self.folder / "calls"
        if not file.exists():
            return []
        return [line.split(maxsplit=2) for line in file.read_text().splitlines()]

    def records(self, home: str) -> int:
        path = self.folder / f"home-{home}" / "evidence.db"
        with closing(sqlite3.connect(path)) as db:
            [(count,)] = db.execute("SELECT count(*) FROM probes")
        return int(count)
