"""Ctrl-C and SIGTERM leave no process running, also while the program waits for a
server. `tests.torture` kills it.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.cli.test_cli import TRIAGE
from tests.toolchains.hostile import http, serve_hostile

_TGKILL = {"x86_64": 234, "aarch64": 131}  # the numbers of a system call


def endless(tmp_path: Path) -> Path:
    """Write a recipe whose generator sleeps with a mark on its command line."""
    (tmp_path / "gen.py").write_text("import time; time.sleep(600)")
    path = tmp_path / "gen.yaml"
    path.write_text(
        f"name: gen\ninput: gen.py\nargs: {{mark: {tmp_path}}}\ntarget: {{backend: llvm-cpu}}\n"
    )
    return path


def marked(tmp_path: Path) -> bool:
    return any(
        str(tmp_path) in (process.info["cmdline"] or [])
        for process in psutil.process_iter(["cmdline"])
    )


def by_process(running: subprocess.Popen[str], number: int) -> None:
    running.send_signal(number)


def by_thread(running: subprocess.Popen[str], number: int) -> None:
    """Send a signal to another thread than the main one, once that one waits: the
    system may choose any, and only the main thread handles signals.
    """
    time.sleep(0.5)
    threads = {thread.id for thread in psutil.Process(running.pid).threads()}
    send, thread = ctypes.CDLL(None).syscall, max(threads - {running.pid})
    assert send(_TGKILL[platform.machine()], running.pid, thread, number) == 0


def stop_while(
    is_busy: Callable[[], bool],
    folder: Path,
    number: int,
    *words: object,
    send: Callable[[subprocess.Popen[str], int], None] = by_process,
) -> str:
    """Start the program, send it a signal once it is busy, and check that it ends with
    all that it started. Return what it printed.
    """
    errors = folder / "stderr"
    with errors.open("w") as sink:
        running = subprocess.Popen(
            [*TRIAGE, *words], stderr=sink, stdout=sink, text=True
        )
    try:
        while not is_busy():
            assert running.poll() is None, errors.read_text()
            time.sleep(0.05)
        children = psutil.Process(running.pid).children(recursive=True)
        send(running, number)
        running.wait(timeout=20)
    finally:
        running.kill()
    message = errors.read_text()
    assert running.returncode == 130, message
    assert "Traceback" not in message
    assert not psutil.wait_procs(children, timeout=10)[1]
    return message


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
    message = stop_while(lambda: marked(tmp_path), tmp_path, number, *words, path)
    assert f"  triage {again} {path}\n" in message
    assert not marked(tmp_path)


def test_a_signal_that_another_thread_receives_ends_the_program(
    home: Path, tmp_path: Path
) -> None:
    words = ("run", endless(tmp_path))
    is_busy = lambda: marked(tmp_path)  # noqa: E731
    stop_while(is_busy, tmp_path, signal.SIGTERM, *words, send=by_thread)
    assert not marked(tmp_path)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("a wheel", signal.SIGINT),
        pytest.param("a header", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_request_is_stopped(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    words = ("toolchains", "install", "1.0.0")
    with serve_hostile() as server:
        monkeypatch.setenv("TRIAGE_INDEX_URL", f"{server.url}/simple/")
        server.answers = {"/": server.trickle(b"HTTP/1.1 200 OK\r\nX: ")}
        if name == "a wheel":
            wheel = server.trickle(http(length=1 << 20))
            server.answers = {"/simple": server.index(), "/wheel": wheel}
        stop_while(server.asked.is_set, tmp_path, number, *words)


EARLY = """
import os, signal, sys
from triage.cli import main

class Interrupts:
    def find_spec(self, name, *_):
        if name == "triage.cli.app":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
main()
"""


def test_an_interruption_while_the_program_is_imported_is_one_line() -> None:
    words = [sys.executable, "-c", EARLY, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "stopped\n")
