"""Ctrl-C, SIGTERM and kill -9 leave no process running and lose no finished result."""

from __future__ import annotations

import ctypes
import json
import platform
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.test_cli import GOOD, TRIAGE, recipe
from tests.conftest import Triage

_TGKILL = {"x86_64": 234, "aarch64": 131}  # the numbers of a system call


def endless(tmp_path: Path) -> Path:
    """Write a recipe whose generator sleeps with a mark on its command line."""
    (tmp_path / "gen.py").write_text("import time; time.sleep(600)")
    path = tmp_path / "gen.yaml"
    path.write_text(
        f"name: gen\ninput: gen.py\nargs: {{mark: {mark_of(tmp_path)}}}\ntarget: {{backend: llvm-cpu}}\n"
    )
    return path


def mark_of(tmp_path: Path) -> str:
    """Return a mark that is unique to this test and this worker."""
    return f"mark-{tmp_path.parent.name}-{tmp_path.name}"


def marked(tmp_path: Path) -> list[int]:
    mark = mark_of(tmp_path)
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if mark in (process.info["cmdline"] or [])
    ]


@pytest.mark.parametrize(
    ("number", "words", "again"),
    [
        (signal.SIGINT, ["run", "--fresh"], "run"),
        (signal.SIGTERM, ["reduce", "-t", "installed"], "reduce -t installed"),
    ],
)
def test_an_interruption_leaves_no_child_and_prints_how_to_resume(
    home: Path, tmp_path: Path, number: signal.Signals, words: list[str], again: str
) -> None:
    path = endless(tmp_path)
    running = subprocess.Popen(
        [*TRIAGE, *words, path],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    while not marked(tmp_path):
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(number)
    _, message = running.communicate(timeout=20)
    assert running.returncode == 130, message
    assert f"  triage {again} {path}\n" in message
    assert "Traceback" not in message
    assert not marked(tmp_path)


def test_a_signal_that_another_thread_receives_ends_the_program(
    home: Path, tmp_path: Path
) -> None:
    """The system may choose any thread, and only the main thread handles signals."""
    running = subprocess.Popen(
        [*TRIAGE, "run", endless(tmp_path)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    while not marked(tmp_path):
        assert running.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)  # until the main thread waits
    threads = {thread.id for thread in psutil.Process(running.pid).threads()}
    send = ctypes.CDLL(None).syscall
    thread = max(threads - {running.pid})
    assert send(_TGKILL[platform.machine()], running.pid, thread, signal.SIGTERM) == 0
    running.communicate(timeout=20)
    assert running.returncode == 130
    assert not marked(tmp_path)


def test_kill_9_loses_at_most_the_compile_in_flight(
    home: Path, triage: Triage, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    for number in range(5):
        recipe(folder, f"case-{number}", GOOD.replace("4", str(number + 3)))
    running = subprocess.Popen(
        [*TRIAGE, "run", folder, "--jobs", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while stored(home) < 2:
        assert running.poll() is None
        time.sleep(0.02)
    running.kill()
    running.wait()
    kept = stored(home)
    results = json.loads(triage("run", folder, "--format", "json").stdout)["results"]
    endings = [(result["status"], result["reason"]) for result in results]
    assert endings == [("passed", None)] * 5
    assert sum(result["cached"] for result in results) == kept
    assert not list((home / "scratch").iterdir())


def stored(home: Path) -> int:
    try:
        return (
            sqlite3.connect(home / "evidence.db")
            .execute("SELECT count(*) FROM probes")
            .fetchone()[0]
        )
    except sqlite3.OperationalError:
        return 0
