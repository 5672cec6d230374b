"""Ctrl-C and SIGTERM end the program while it waits for a server."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.test_cli import TRIAGE
from tests.toolchains.hostile import HostileServer, http, serve_hostile


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """The index that the program asks."""
    with serve_hostile() as server:
        monkeypatch.setenv("TRIAGE_INDEX_URL", f"{server.url}/simple/")
        yield server


def stop_while(
    is_waiting: Callable[[], bool], folder: Path, number: int, *words: str
) -> None:
    """Start the program, send it a signal once it waits, and check that it ends."""
    command, errors = [*TRIAGE, *words], folder / "stderr"
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


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("a wheel", signal.SIGINT),
        pytest.param("a header", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_request_is_stopped(
    home: Path, tmp_path: Path, server: HostileServer, name: str, number: int
) -> None:
    server.answers = {"/": server.trickle(b"HTTP/1.1 200 OK\r\nX: ")}
    if name == "a wheel":
        wheel = server.trickle(http(length=1 << 20))
        server.answers = {"/simple": server.index(), "/wheel": wheel}
    stop_while(server.asked.is_set, tmp_path, number, "toolchains", "install", "1.0.0")
