"""Ctrl-C and SIGTERM end the program wherever it waits: for a server, a lock, a child process or the next attempt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from tests.git_history.history import ENV, History
from tests.toolchains.hostile import HostileServer, http, redirect, serve_hostile

MAIN = "from triage.cli import main; main()"
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000\r\n\r\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """The index that the program asks."""
    with serve_hostile() as server:
        monkeypatch.setenv("TRIAGE_INDEX_URL", f"{server.url}/simple/")
        yield server


def stop_while(is_waiting: Callable[[], bool], folder: Path, number: int, *words: str) -> None:
    """Start the program, send it a signal once it waits, and check that it ends."""
    command, errors = [sys.executable, "-c", MAIN, *words], folder / "stderr"
    with errors.open("w") as sink:
        running = subprocess.Popen(command, stderr=sink, stdout=sink, cwd=folder)
    try:
        while not is_waiting():
            assert running.poll() is None, errors.read_text()
            time.sleep(0.02)
        children = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(number)
        running.wait(timeout=10)
    finally:
        running.kill()
    message = errors.read_text()
    assert running.returncode == 130, message
    assert "Traceback" not in message
    assert not psutil.wait_procs(children, timeout=10)[1]


def answers(server: HostileServer, name: str) -> None:
    server.answers = {
        "a header": {"/": server.trickle(b"HTTP/1.1 200 OK\r\nX: ")},
        "TLS": {"": server.wait},
        "a redirect": {"/simple": redirect("/elsewhere"), "/elsewhere": server.wait},
        "a wheel": {"/simple": server.index(), "/wheel": server.trickle(http(length=1 << 20))},
        "the next attempt": {"/": lambda sink: (sink.write(http(status="429 No", Retry_After=80)), server.asked.set())},
    }[name]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("a wheel", signal.SIGINT),
        pytest.param("TLS", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("a header", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("a redirect", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("the next attempt", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_request_is_stopped(
    home: Path, tmp_path: Path, server: HostileServer, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    answers(server, name)
    if name == "TLS":
        monkeypatch.setenv("TRIAGE_INDEX_URL", server.url.replace("http:", "https:") + "/simple/")
    stop_while(server.asked.is_set, tmp_path, number, "toolchains", "install", "1.0.0")


def test_waiting_for_a_lock_is_stopped(home: Path, tmp_path: Path, server: HostileServer) -> None:
    server.answers = {"/simple": server.index()}
    (home / "toolchains").mkdir(parents=True)
    with FileLock(home / "toolchains" / ".iree-base-compiler-1.0.0-unhashed.lock"):

        def is_waiting() -> bool:
            return "waiting for another process" in (tmp_path / "stderr").read_text()

        stop_while(is_waiting, tmp_path, signal.SIGTERM, "toolchains", "install", "1.0.0")


def test_git_is_stopped(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in ENV.items():
        monkeypatch.setenv(variable, value)
    History.begin(tmp_path / "repo").commit("c")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git"
    hang = f"touch {tmp_path}/asked; exec sleep 600"
    program.write_text(f'#!/bin/sh\ncase "$*" in version) echo git version 2.40.0;; *rev-parse*) {hang};; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "log.txt").write_text("error: boom\n")
    ends = ["--repo", "repo", "--good", "a", "--bad", "b"]
    stop_while((tmp_path / "asked").exists, tmp_path, signal.SIGTERM, "suspects", "log.txt", *ends)
