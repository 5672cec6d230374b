"""Programs that tests write, and processes that they wait for and kill."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

TRIAGE = [sys.executable, "-c", "from triage.cli import main; main()"]
PATIENCE = 300.0  # seconds for what must happen, however busy the machine is


def write_program(path: Path, text: str) -> Path:
    """Write a script that can be run, in a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


def processes_with(word: str) -> list[psutil.Process]:
    """Return the processes with this word in their command line. One that ended but was
    not collected has none.
    """
    processes = psutil.process_iter(["cmdline"])
    return [process for process in processes if word in (process.info["cmdline"] or ())]


def kill_when(condition: Callable[[], object], code: str, *words: object) -> None:
    """Run Python code, and kill it with signal 9 when a condition holds."""
    command = [sys.executable, "-c", code, *map(str, words)]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, cwd=root) as process:
        until(lambda: condition() or process.poll() is not None)
        assert process.poll() is None, "it ended by itself"
        process.kill()
