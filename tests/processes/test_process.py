from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from triage.compilers.interpreters import prefixes_of
from triage.execution.judge import compiler_rules, judge
from triage.model.errors import Interrupted
from triage.model.execution import Ending, Limits
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.processes.answering import AnsweringProcess
from triage.processes.containment import Purpose
from triage.processes.process import run, unlimited
from triage.processes.sealing import Seal


def python(code: str, tmp_path: Path, **options: object):
    limits = options.pop("limits", Limits(timeout=60))
    return run([sys.executable, "-c", code], limits, tmp_path, **options, seal=None)


def processes_with(mark: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if mark in (process.info["cmdline"] or [])
    ]


def wait_until(condition: Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    execution = python(code, tmp_path, limits=Limits(timeout=0.5))
    assert (execution.ending, execution.signal) == (Ending.TIMED_OUT, signal.SIGKILL)


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to a core"
)
def test_waiting_for_a_core_is_no_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stretch = "triage.processes.process._MAX_STRETCH"
    core = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, {{{core}}}); os.write(1, b'x')\nwhile True: pass"
    with subprocess.Popen(
        [sys.executable, "-c", spin], stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout
            other.stdout.read(1)  # from now on it shares the core
            monkeypatch.setattr(stretch, 1.0)
            wall = python(spin, tmp_path, limits=Limits(timeout=2.0))
            # no load of this machine reaches it
            monkeypatch.setattr(stretch, 200.0)
            own = python(spin, tmp_path, limits=Limits(timeout=0.5))
        finally:
            other.kill()
    assert (wall.ending, own.ending) == (Ending.TIMED_OUT, Ending.TIMED_OUT)
    assert wall.waited > 0.4
    assert own.waited == 0
    assert own.seconds > 0.7
    outcomes = [judge(execution, compiler_rules()) for execution in (wall, own)]
    assert isinstance(outcomes[0], NoAnswer)
    assert outcomes[0].cause is Cause.ENVIRONMENT
    assert isinstance(outcomes[1], Failed)


def test_the_head_and_the_tail_of_a_long_output_are_kept(tmp_path: Path) -> None:
    code = "import sys\nfor n in range(200000): sys.stderr.write(f'line {n:08d}\\n')"
    seen = bytearray()
    kept = python(code, tmp_path, on_stderr=seen.extend).stderr
    assert kept.head.startswith("line 00000000\n")
    assert kept.tail.endswith("line 00199999\n")
    assert len(seen) == 200000 * len("line 00000000\n")
    assert len(kept.head) == len(kept.tail) == 256 << 10
    assert kept.dropped == len(seen) - (512 << 10)


def test_a_command_does_not_wait_for_what_it_left_behind(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 50 & echo first; echo last"]
    execution = run(command, unlimited(20), tmp_path, purpose=Purpose.BUILD, seal=None)
    assert (execution.status, execution.stdout.text) == (0, "first\nlast\n")


ECHO = """
import sys, time
while len(header := sys.stdin.buffer.read(8)) == 8:
    text = sys.stdin.buffer.read(int(header, 16))
    if text == b"end": sys.exit(1)
    if text == b"hang": time.sleep(300)
    sys.stdout.buffer.write(b"%08x" % (2 * len(text)) + 2 * text)
    sys.stdout.buffer.flush()
"""


def answering(
    code: str,
    folder: Path,
    stop: threading.Event | None = None,
    memory: int = 8 << 30,
) -> AnsweringProcess:
    return AnsweringProcess(
        [sys.executable, "-c", code],
        {},
        stop or threading.Event(),
        seal=Seal(prefixes_of(Path(sys.executable))),
        folder=folder,
        limits=Limits(memory=memory),
    )


def test_a_process_answers_and_is_started_again_when_it_ended(tmp_path: Path) -> None:
    with closing(answering(ECHO, tmp_path)) as process:
        assert process.ask(b"one", timeout=60) == b"oneone"
        assert process.ask(b"", timeout=60) == b""
        assert process.ask(b"x" * 1_000_000, timeout=60) == b"x" * 2_000_000
        assert process.ask(b"end", timeout=60) is None
        assert process.ask(b"one", timeout=60) == b"oneone"
        assert process.ask(b"hang", timeout=0.2) is None


def test_a_process_that_uses_too_much_memory_is_ended(tmp_path: Path) -> None:
    grows = f"{ECHO.splitlines()[1]}\nsys.stdin.buffer.read(11); text = b'x' * (1 << 28); time.sleep(300)"
    with closing(answering(grows, tmp_path, memory=128 << 20)) as process:
        assert process.ask(b"one", timeout=60) is None


def test_waiting_for_an_answer_ends_with_the_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    process = answering("import time; time.sleep(600)", tmp_path, stop)
    with closing(process), ThreadPoolExecutor(1) as pool:
        # more than a pipe holds
        waiting = pool.submit(process.ask, b"x" * (1 << 20), 600.0)
        stop.set()
        assert isinstance(waiting.exception(timeout=30), Interrupted)
