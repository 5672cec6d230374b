from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from triage.execution.process import run
from triage.model.errors import Interrupted
from triage.model.execution import Ending, Limits

ORPHANS = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)', {mark!r}])"


def python(code: str, tmp_path: Path, **options: object):
    limits = options.pop("limits", Limits(timeout=60))
    return run([sys.executable, "-c", code], limits, tmp_path, **options)


def alive(mark: str) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"]) if mark in (one.info["cmdline"] or [])]


def test_what_was_printed_and_how_it_ended(tmp_path: Path) -> None:
    execution = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (execution.ending, execution.exit_code, execution.signal) == (Ending.EXITED, 3, None)
    assert (execution.stdout.text, execution.stderr.text) == ("out\n", "err\n")
    assert execution.cpu_seconds > 0


def test_a_crash_keeps_its_signal(tmp_path: Path) -> None:
    execution = python("import os; os.kill(os.getpid(), 11)", tmp_path)
    assert (execution.ending, execution.signal, execution.exit_code) == (Ending.SIGNALLED, 11, None)


def test_a_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-timeout"
    execution = python(ORPHANS.format(mark=mark) + "; time.sleep(300)", tmp_path, limits=Limits(timeout=1))
    assert execution.ending is Ending.TIMED_OUT
    assert not alive(mark)


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    execution = python(code, tmp_path, limits=Limits(timeout=0.5))
    assert (execution.ending, execution.signal) == (Ending.TIMED_OUT, signal.SIGKILL)


def test_a_busy_loop_is_ended_too(tmp_path: Path) -> None:
    assert python("while True: pass", tmp_path, limits=Limits(timeout=0.5)).ending is Ending.TIMED_OUT


def test_what_a_process_leaves_behind_is_killed(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-orphan"
    execution = python(ORPHANS.format(mark=mark), tmp_path)
    assert execution.ok
    time.sleep(0.2)
    assert not alive(mark)


def test_a_memory_limit_counts_the_whole_group(tmp_path: Path) -> None:
    grab = "x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096]); import time; time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grab!r}])"
    execution = python(code, tmp_path, limits=Limits(timeout=60, memory=200 << 20))
    assert execution.ending is Ending.OVER_MEMORY
    assert execution.peak_rss_mb > 200


def test_peak_memory_comes_from_the_operating_system(tmp_path: Path) -> None:
    code = "x = bytearray(400 << 20); x[::4096] = b'x' * len(x[::4096])"
    assert 400 < python(code, tmp_path).peak_rss_mb < 800


def test_head_and_tail_of_a_long_output_are_kept(tmp_path: Path) -> None:
    code = "import sys\nfor n in range(200000): sys.stderr.write(f'line {n:08d}\\n')"
    seen = bytearray()
    execution = python(code, tmp_path, limits=Limits(timeout=60, output=4096), on_stderr=seen.extend)
    total = 200000 * len("line 00000000\n")
    assert execution.stderr.head.startswith("line 00000000\n")
    assert execution.stderr.tail.endswith("line 00199999\n")
    assert len(execution.stderr.head) + len(execution.stderr.tail) + execution.stderr.dropped == total == len(seen)
    assert len(execution.stderr.head) == len(execution.stderr.tail) == 2048


def test_addresses_are_the_same_every_time(tmp_path: Path) -> None:
    code = "print(open('/proc/self/maps').readline().split()[0], id(object))"
    first, second = python(code, tmp_path), python(code, tmp_path)
    if first.randomised:
        pytest.fail("this system does not allow fixed addresses; verdicts may flicker")
    assert first.stdout == second.stdout


def test_a_stop_ends_the_run_and_records_nothing(tmp_path: Path) -> None:
    mark, stop = f"mark-{os.getpid()}-stop", threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Interrupted):
        run([sys.executable, "-c", "import time; time.sleep(300)", mark], Limits(timeout=60), tmp_path, stop=stop)
    assert not alive(mark)


def test_kill_9_of_this_program_ends_the_compiler_as_well(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-kill9"
    code = (
        "import sys; from pathlib import Path\n"
        "from triage.model.execution import Limits; from triage.execution.process import run\n"
        f"run([sys.executable, '-c', 'import time; time.sleep(300)', {mark!r}], Limits(), Path({str(tmp_path)!r}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    while not alive(mark):
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    time.sleep(0.3)
    assert not alive(mark)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    execution = run([str(tmp_path / "nothing")], Limits(), tmp_path)
    assert execution.ending is Ending.NOT_STARTED
    assert "nothing" in execution.stderr.text


def test_output_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "printed"
    assert python("print('x' * 1000)", tmp_path, stdout_to=target).stdout.empty
    assert target.read_text() == "x" * 1000 + "\n"
