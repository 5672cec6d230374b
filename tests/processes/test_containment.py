"""No process of a run survives it or escapes its limits, wherever the process moves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.processes.test_process import (
    ECHO,
    answering,
    processes_with,
    wait_until,
)
from triage.model.execution import Ending, Limits
from triage.processes import containment
from triage.processes.process import run

# Starts a process as a daemon does: in a session of its own, without its parent, and
# here with an empty environment. The starter waits until the daemon runs.
DAEMON = """
import os, sys
def daemon(code, mark):
    ready, started = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(started, 7)
            os.execve(sys.executable, [sys.executable, "-c", code, mark], {})
        os._exit(0)
    os.wait()
    os.close(started)
    os.read(ready, 1)
"""
STAYS = "import os, time; os.write(7, b'x'); os.close(7); os.closerange(0, 3); time.sleep(300)"
GROWS = "import os, time; x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096]); os.write(7, b'x'); time.sleep(300)"
# Always a new process, whose parent has just ended.
HOPS = """
import os, sys
os.write(7, b'x'); os.close(7); os.closerange(0, 3)
while True:
    if os.fork(): os._exit(0)
    os.setsid()
"""


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    return f"mark-{os.getpid()}-{request.node.name}"


def starting(code: str, mark: str, then: str = "") -> list[str]:
    return [sys.executable, "-c", f"{DAEMON}\ndaemon({code!r}, {mark!r})\n{then}"]


@pytest.mark.parametrize("code", [STAYS, HOPS])
def test_a_daemon_does_not_survive_its_run(
    tmp_path: Path, mark: str, code: str
) -> None:
    execution = run(starting(code, mark), Limits(timeout=60), tmp_path, seal=None)
    assert execution.ok, execution
    assert not processes_with(mark)


def test_the_memory_of_a_daemon_counts(tmp_path: Path, mark: str) -> None:
    command = starting(GROWS, mark, "import time; time.sleep(300)")
    execution = run(command, Limits(timeout=60, memory=200 << 20), tmp_path, seal=None)
    assert execution.ending is Ending.OVER_MEMORY
    assert execution.peak_rss_mb > 200
    assert not processes_with(mark)


def test_each_run_has_its_own_daemons(tmp_path: Path, mark: str) -> None:
    """A run that ends does not end the daemon of another run."""
    go = tmp_path / "go"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    with ThreadPoolExecutor(1) as pool:
        longer = pool.submit(
            run, starting(STAYS, mark, waits), Limits(timeout=60), tmp_path, seal=None
        )
        wait_until(lambda: len(processes_with(mark)) == 1)
        assert run(
            starting(STAYS, f"{mark}-other"), Limits(timeout=60), tmp_path, seal=None
        ).ok
        assert not processes_with(f"{mark}-other")
        assert len(processes_with(mark)) == 1
        go.touch()
        assert longer.result().ok
    assert not processes_with(mark)


def test_other_children_of_this_program_are_left_alone(
    tmp_path: Path, mark: str
) -> None:
    other = subprocess.Popen(["sleep", "300"], start_new_session=True)
    ended = subprocess.Popen(["sh", "-c", "exit 3"], start_new_session=True)
    wait_until(lambda: psutil.Process(ended.pid).status() == psutil.STATUS_ZOMBIE)
    run(starting(STAYS, mark), Limits(timeout=60), tmp_path, seal=None)
    assert (other.poll(), ended.wait()) == (None, 3)
    other.kill()
    other.wait()


def test_an_answering_process_leaves_no_daemon(tmp_path: Path, mark: str) -> None:
    code = starting(STAYS, mark, ECHO)[-1]
    with closing(answering(code, tmp_path)) as process:
        assert process.ask(b"one", timeout=60) == b"oneone"
        assert len(processes_with(mark)) == 1
    assert not processes_with(mark)


UNMARKED = "import time; open('ready', 'w'); time.sleep(300)"


def test_kill_9_of_this_program_ends_a_run_without_a_mark(
    tmp_path: Path, mark: str
) -> None:
    unmarked = [sys.executable, "-c", UNMARKED, mark]
    code = f"""
import contextlib, functools, threading, time
from pathlib import Path
from triage.processes import containment
from triage.processes.process import run
from triage.model.execution import Limits
containment._marking = lambda: contextlib.nullcontext(5)  # the kernel hides the limit
told, tell = [], containment._tell_watchdog
containment._tell_watchdog = lambda line: told.append(tell(line))
for _ in range(3):
    run(["true"], Limits(), Path(), seal=None)
start = functools.partial(run, {unmarked!r}, Limits(), Path({str(tmp_path)!r}), seal=None)
threading.Thread(target=start, daemon=True).start()
run(["true"], Limits(), Path(), seal=None)
while len(told) < 9:  # four that ended, and one that runs
    time.sleep(0.02)
Path({str(tmp_path / "told")!r}).touch()
time.sleep(300)
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    for name in ("told", "ready"):
        while not (tmp_path / name).exists():  # however long a busy machine takes
            assert parent.poll() is None
            time.sleep(0.02)
    started = [psutil.Process(pid) for pid in processes_with(mark)]
    parent.kill()
    parent.wait()
    psutil.wait_procs(started, timeout=600)
    assert not processes_with(mark)


def test_the_watchdog_forgets_a_run_before_its_number_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would kill the process that gets the number next."""
    told: list[tuple[str, bool]] = []

    def tell(line: str) -> None:
        told.append((line.strip(), psutil.pid_exists(int(line.split()[0]))))

    monkeypatch.setattr(containment, "_tell_watchdog", tell)
    run(["true"], Limits(), tmp_path, seal=None)
    [(begun, _), (ended, is_taken)] = told
    assert (ended, is_taken) == (f"{begun} ended", True)


def test_kill_9_of_this_program_ends_daemons(tmp_path: Path, mark: str) -> None:
    code = f"""
from pathlib import Path
from triage.processes.process import run
from triage.model.execution import Limits
run({starting(STAYS, mark, "import time; time.sleep(300)")!r}, Limits(), Path({str(tmp_path)!r}), seal=None)
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    wait_until(
        lambda: any(
            psutil.Process(pid).ppid() == parent.pid for pid in processes_with(mark)
        )
    )
    parent.kill()
    parent.wait()
    wait_until(lambda: not processes_with(mark))
