"""A run and a process that answers: how they end, and that no process of theirs survives
them or escapes their limits, wherever it moves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.processes.conftest import INTERPRETER, ran, starting
from tests.programs import kill_when, processes_with, until
from triage.compilers.interpreters import interpreter_folders
from triage.execution.judge import compiler_rules, judge
from triage.model.errors import Interrupted
from triage.model.execution import Ending, Limits
from triage.model.outcome import Cause, Failed, NoAnswer
from triage.processes import containment
from triage.processes.containment import Purpose
from triage.processes.process import AnsweringProcess, run, unlimited
from triage.processes.sealing import Seal

STAYS = "import os, time; os.write(7, b'x'); os.close(7); os.closerange(0, 3); time.sleep(300)"
GROWS = "import os, time; x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096]); os.write(7, b'x'); time.sleep(300)"
WAITS = "import time; time.sleep(300)"
# Always a new process, whose parent has just ended.
HOPS = """
import os, sys
os.write(7, b'x'); os.close(7); os.closerange(0, 3)
while True:
    if os.fork(): os._exit(0)
    os.setsid()
"""


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
    execution = ran(code, tmp_path, timeout=0.5)
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
    command = [sys.executable, "-c", spin]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout
            other.stdout.read(1)  # from now on it shares the core
            monkeypatch.setattr(stretch, 1.0)
            wall = ran(spin, tmp_path, timeout=2.0)
            # no load of this machine reaches it
            monkeypatch.setattr(stretch, 200.0)
            own = ran(spin, tmp_path, timeout=0.5)
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
    command, seen = [sys.executable, "-c", code], bytearray()
    kept = run(command, Limits(), tmp_path, seal=None, on_stderr=seen.extend).stderr
    assert kept.head.startswith("line 00000000\n")
    assert kept.tail.endswith("line 00199999\n")
    assert len(seen) == 200000 * len("line 00000000\n")
    assert len(kept.head) == len(kept.tail) == 256 << 10
    assert kept.dropped == len(seen) - (512 << 10)


def test_a_command_does_not_wait_for_what_it_left_behind(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 50 & echo first; echo last"]
    execution = run(command, unlimited(20), tmp_path, purpose=Purpose.BUILD, seal=None)
    assert (execution.status, execution.stdout.text) == (0, "first\nlast\n")


MIB = 1 << 20


@pytest.mark.parametrize(
    "code",
    [
        "exec cat /dev/zero > out",
        "for n in 1 2 3 4; do head -c 3M /dev/zero > $n; done; sleep 300",
        "mkdir $TMPDIR/deep; for n in 1 2 3 4; do head -c 3M /dev/zero > $TMPDIR/deep/$n; done",
    ],
)
def test_one_file_many_files_and_temporary_files_are_over_the_limit(
    tmp_path: Path, code: str
) -> None:
    execution = ran(["sh", "-c", code], tmp_path, output=8 * MIB)
    assert execution.ending is Ending.OVER_OUTPUT


def test_less_than_the_limit_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "before").write_bytes(bytes(32 * MIB))
    command = ["sh", "-c", "head -c 6M /dev/zero > out"]
    assert ran(command, tmp_path, output=8 * MIB).ok


# Daemons


@pytest.mark.parametrize("code", [STAYS, HOPS])
def test_a_daemon_does_not_survive_its_run(
    tmp_path: Path, mark: str, code: str
) -> None:
    execution = ran(starting(code, mark), tmp_path)
    assert execution.ok, execution
    assert not processes_with(mark)


def test_the_memory_of_a_daemon_counts(tmp_path: Path, mark: str) -> None:
    execution = ran(starting(GROWS, mark, WAITS), tmp_path, memory=200 << 20)
    assert execution.ending is Ending.OVER_MEMORY
    assert execution.peak_rss_mb > 200
    assert not processes_with(mark)


def test_each_run_has_its_own_daemons(tmp_path: Path, mark: str) -> None:
    """A run that ends does not end the daemon of another run."""
    go, other = tmp_path / "go", f"{mark}-other"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    with ThreadPoolExecutor(1) as pool:
        longer = pool.submit(ran, starting(STAYS, mark, waits), tmp_path)
        until(lambda: len(processes_with(mark)) == 1)
        assert ran(starting(STAYS, other), tmp_path).ok
        assert not processes_with(other)
        assert len(processes_with(mark)) == 1
        go.touch()
        assert longer.result().ok
    assert not processes_with(mark)


def test_other_children_of_this_program_are_left_alone(
    tmp_path: Path, mark: str
) -> None:
    other = psutil.Popen(["sleep", "300"], start_new_session=True)
    ended = psutil.Popen(["sh", "-c", "exit 3"], start_new_session=True)
    until(lambda: ended.status() == psutil.STATUS_ZOMBIE)
    ran(starting(STAYS, mark), tmp_path)
    assert (other.poll(), ended.wait()) == (None, 3)
    other.kill()
    other.wait()


# kill -9 of this program

RUNS = """
import sys
from pathlib import Path
from triage.model.execution import Limits
from triage.processes.process import run
def start(*command):
    run(command, Limits(), Path(), seal=None)
"""


def test_kill_9_of_this_program_ends_daemons(mark: str) -> None:
    code = f"{RUNS}\nstart({INTERPRETER!r}, '-c', {starting(STAYS, mark, WAITS)!r})"

    def is_inherited() -> bool:
        programs = psutil.Process().children()
        return any(daemon.parent() in programs for daemon in processes_with(mark))

    kill_when(is_inherited, code)
    until(lambda: not processes_with(mark))


UNMARKED = "import time; open('ready', 'w'); time.sleep(300)"
WITHOUT_MARKS = """
import contextlib, os, threading, time
from triage.processes import containment
containment._marking = lambda: contextlib.nullcontext(5)  # the kernel hides the limit
told, tell = [], containment._tell_watchdog
containment._tell_watchdog = lambda line: told.append(tell(line))
for _ in range(3):
    start("true")
threading.Thread(target=start, args=COMMAND, daemon=True).start()
start("true")
while len(told) < 9 or not os.path.exists("ready"):  # four that ended, one that runs
    time.sleep(0.02)
open("told", "w")
time.sleep(300)
"""


def test_kill_9_of_this_program_ends_a_run_without_a_mark(
    tmp_path: Path, mark: str
) -> None:
    code = WITHOUT_MARKS.replace("COMMAND", str((INTERPRETER, "-c", UNMARKED, mark)))
    begin = f"import os; os.chdir({str(tmp_path)!r})"
    kill_when((tmp_path / "told").exists, f"{RUNS}\n{begin}\n{code}")
    until(lambda: not processes_with(mark))


def test_the_watchdog_forgets_a_run_before_its_number_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would kill the process that gets the number next."""
    told: list[tuple[str, bool]] = []

    def tell(line: str) -> None:
        told.append((line.strip(), psutil.pid_exists(int(line.split()[0]))))

    monkeypatch.setattr(containment, "_tell_watchdog", tell)
    ran(["true"], tmp_path)
    [(begun, _), (ended, is_taken)] = told
    assert (ended, is_taken) == (f"{begun} ended", True)


# Processes that answer

ECHO = """
import sys, time
while len(header := sys.stdin.buffer.read(8)) == 8:
    text = sys.stdin.buffer.read(int(header, 16))
    if text == b"end": sys.exit(1)
    if text == b"hang": time.sleep(300)
    if text == b"grow": memory = b"x" * (1 << 28); time.sleep(300)
    sys.stdout.buffer.write(b"%08x" % (2 * len(text)) + 2 * text)
    sys.stdout.buffer.flush()
"""


def answering(
    code: str, folder: Path, stop: threading.Event | None = None, memory: int = 8 << 30
) -> AnsweringProcess:
    return AnsweringProcess(
        [sys.executable, "-c", code],
        {},
        stop or threading.Event(),
        seal=Seal(interpreter_folders(Path(sys.executable))),
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
    with closing(answering(ECHO, tmp_path, memory=128 << 20)) as process:
        assert process.ask(b"grow", timeout=60) is None


def test_waiting_for_an_answer_ends_with_the_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    process = answering(WAITS, tmp_path, stop)
    with closing(process), ThreadPoolExecutor(1) as pool:
        # more than a pipe holds
        waiting = pool.submit(process.ask, b"x" * (1 << 20), 600.0)
        stop.set()
        assert isinstance(waiting.exception(timeout=30), Interrupted)


def test_an_answering_process_leaves_no_daemon(tmp_path: Path, mark: str) -> None:
    code = starting(STAYS, mark, ECHO)
    with closing(answering(code, tmp_path)) as process:
        assert process.ask(b"one", timeout=60) == b"oneone"
        assert len(processes_with(mark)) == 1
    assert not processes_with(mark)
