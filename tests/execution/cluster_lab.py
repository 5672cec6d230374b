"""A Dask cluster of real processes, each with a home of its own, and a compiler whose
input says what it does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.programs import PATIENCE, TRIAGE, until, write_program

#: Its input says what it does; `calls` beside its folder counts the compiles.
COMPILER = """#!/bin/sh
here="$(dirname "$0")/../.."
[ "$1" = --version ] && echo version 1.0 && exit
echo "$$ $PPID $(head -n 1 "$1")" >> "$here/calls"
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

    def write(self, **inputs: str) -> list[str]:
        """Write the compiler and inputs, and return the words that run them."""
        write_program(self.toolchain / "bin" / "cc", COMPILER)
        for name, text in inputs.items():
            (self.folder / f"{name}.txt").write_text(text)
        recipe = self.folder / "mine.yaml"
        recipe.write_text(RECIPE.replace("NAMES", ", ".join(inputs)))
        return ["run", str(recipe), "-t", f"path:{self.toolchain}", "-q"]

    def start(self, name: str, *words: str, **env: str) -> None:
        environ = {
            **os.environ,
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2",
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "3s",
            "TRIAGE_HOME": str(self.folder / f"home-{name}"),
            **env,
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--no-dashboard"],
                env=environ,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        options = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        self.start("scheduler", "scheduler", *options)
        until(lambda: file.exists() and file.read_text().strip().endswith("}"))
        self.port = int(json.loads(file.read_text())["address"].rpartition(":")[2])

    def worker(self, name: str, **env: str) -> None:
        options = ("--nthreads", "1", "--name", name, "--memory-limit", "0")
        self.start(name, "worker", self.address, *options, **env)
        log = self.folder / f"{name}.log"
        until(lambda: b"Registered to" in log.read_bytes())

    def end(self, name: str) -> None:
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def client(self, words: list[str], executor: str = "") -> subprocess.Popen[str]:
        """Start a command that uses the cluster, or another executor."""
        environ = {
            **os.environ,
            "TRIAGE_HOME": str(self.folder / "home-client"),
            "TRIAGE_EXECUTOR": executor or f"dask:{self.address}",
        }
        return subprocess.Popen(
            [*TRIAGE, *words, "--format", "json"],
            env=environ,
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def answer(self, process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
        """Return the exit code, the results by input, and what was printed to stderr."""
        stdout, stderr = process.communicate(timeout=PATIENCE)
        results = {
            result["case"].partition("=")[2].rstrip("]"): result
            for result in json.loads(stdout or "{}").get("results", ())
        }
        return process.returncode, results, stderr

    def calls(self) -> list[list[str]]:
        """Return the process, its parent and the input of each compile."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.split(maxsplit=2) for line in lines]
