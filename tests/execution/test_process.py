from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.classify import packaged_rules
from triage.execution.environment import Purpose
from triage.execution.judge import judge
from triage.execution.process import Worker, run, run_logged
from triage.execution.streams import Capture, Log
from triage.model.errors import Interrupted
from triage.model.execution import Ending, Limits
from triage.model.outcome import Cause, Failed, Untestable


def python(code: str, tmp_path: Path, **options: object):
    limits = options.pop("limits", Limits(timeout=60))
    return run([sys.executable, "-c", code], limits, tmp_path, **options)


def processes_with(mark: str) -> list[int]:
    return [process.pid for process in psutil.process_iter(["cmdline"]) if mark in (process.info["cmdline"] or [])]


def wait_until(condition: Callable[[], bool], timeout: float = 20) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    execution = python(code, tmp_path, limits=Limits(timeout=0.5))
    assert (execution.ending, execution.signal) == (Ending.TIMED_OUT, signal.SIGKILL)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to a core")
def test_waiting_for_a_core_is_no_timeout(tmp_path: Path) -> None:
    spin = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin]) as other:
        try:
            wall = python(spin, tmp_path, limits=Limits(timeout=1.0, without_waiting=False))
            own = python(spin, tmp_path, limits=Limits(timeout=0.5))
        finally:
            other.kill()
    assert (wall.ending, own.ending) == (Ending.TIMED_OUT, Ending.TIMED_OUT)
    assert wall.waited > 0.2
    assert own.waited == 0
    assert own.seconds > 0.7
    outcomes = [judge(execution, packaged_rules()) for execution in (wall, own)]
    assert isinstance(outcomes[0], Untestable)
    assert outcomes[0].cause is Cause.ENVIRONMENT
    assert isinstance(outcomes[1], Failed)


def test_the_head_and_the_tail_of_a_long_output_are_kept(tmp_path: Path) -> None:
    code = "import sys\nfor n in range(200000): sys.stderr.write(f'line {n:08d}\\n')"
    seen = bytearray()
    execution = python(code, tmp_path, limits=Limits(timeout=60, kept=4096), on_stderr=seen.extend)
    total = 200000 * len("line 00000000\n")
    assert execution.stderr.head.startswith("line 00000000\n")
    assert execution.stderr.tail.endswith("line 00199999\n")
    assert len(execution.stderr.head) + len(execution.stderr.tail) + execution.stderr.dropped == total == len(seen)
    assert len(execution.stderr.head) == len(execution.stderr.tail) == 2048


def test_a_stop_ends_the_run(tmp_path: Path) -> None:
    mark, stop = f"mark-{os.getpid()}-stop", threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Interrupted):
        run([sys.executable, "-c", "import time; time.sleep(300)", mark], Limits(timeout=60), tmp_path, stop=stop)
    assert not processes_with(mark)


def test_a_missing_program_is_not_started(tmp_path: Path) -> None:
    execution = run([str(tmp_path / "nothing")], Limits(), tmp_path)
    assert execution.ending is Ending.NOT_STARTED
    assert "nothing" in execution.stderr.text


def test_a_logged_command_does_not_wait_for_what_it_left_behind(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        command = ["sh", "-c", "sleep 50 & echo first; echo last"]
        execution = run_logged(command, log, tmp_path, purpose=Purpose.BUILD, stop=threading.Event(), timeout=20)
    assert (execution.status, execution.stdout.last_line) == (0, "last")
    assert (tmp_path / "log").read_text() == "first\nlast\n"


ECHO = """
import sys, time
while len(header := sys.stdin.buffer.read(8)) == 8:
    text = sys.stdin.buffer.read(int(header, 16))
    if text == b"end": sys.exit(1)
    if text == b"hang": time.sleep(300)
    sys.stdout.buffer.write(b"%08x" % (2 * len(text)) + 2 * text)
    sys.stdout.buffer.flush()
"""


def test_a_worker_answers_until_it_ends() -> None:
    with Worker([sys.executable, "-c", ECHO], {}) as worker:
        assert worker.ask(b"one", timeout=60, stop=threading.Event()) == b"oneone"
        assert worker.ask(b"", timeout=60, stop=threading.Event()) == b""
        assert worker.ask(b"x" * 1_000_000, timeout=60, stop=threading.Event()) == b"x" * 2_000_000
        assert worker.ask(b"end", timeout=60, stop=threading.Event()) is None
        assert worker.ask(b"one", timeout=60, stop=threading.Event()) is None


def test_waiting_for_a_worker_ends_with_the_stop() -> None:
    stop = threading.Event()
    with Worker([sys.executable, "-c", "import time; time.sleep(600)"], {}) as worker, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(worker.ask, b"x" * (1 << 20), 600.0, stop)  # more than a pipe holds
        stop.set()
        try:
            assert isinstance(waiting.exception(timeout=30), Interrupted)
        finally:
            worker.close()


@given(st.lists(st.binary(max_size=50).map(lambda data: data.hex().encode()), max_size=30), st.integers(2, 200))
def test_a_stream_split_anywhere_gives_the_same_capture(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    piecewise, at_once = Capture(limit // 2, limit // 2), Capture(limit // 2, limit // 2)
    for piece in pieces:
        piecewise.write(piece)
    at_once.write(whole)
    assert piecewise.captured() == at_once.captured()
    captured = at_once.captured()
    assert len(captured.head) + captured.dropped + len(captured.tail) == len(whole)
    assert whole.decode().startswith(captured.head)
    assert whole.decode().endswith(captured.tail)
    assert len(captured.head) + len(captured.tail) <= limit or not captured.dropped
