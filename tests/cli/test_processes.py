"""The program as a process: signals end it with all that it started, it says what it
does, its files are not pruned, and it imports no more than it needs.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.cli.conftest import Lab, rows
from tests.fake_releases import install
from tests.programs import TRIAGE
from tests.toolchains.hostile import http, serve_hostile
from triage.cli.command import LiveBars

GENERATED = "name: gen\ninput: gen.py\ntarget: {backend: llvm-cpu}\n"
PIPES = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)


@contextmanager
def started(lab: Lab, line: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*TRIAGE, *line.split()], cwd=lab.folder, text=True, **PIPES
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def send_to_thread(process: psutil.Process, number: int) -> None:
    """Send a signal to another thread than the main one, once that one waits: the
    system may choose any, and only the main thread handles signals.
    """
    time.sleep(0.5)
    thread = max(thread.id for thread in process.threads())
    assert ctypes.CDLL(None).tgkill(process.pid, thread, number) == 0


def stop_while(
    lab: Lab,
    line: str,
    number: int,
    is_busy: Callable[[], bool],
    by_thread: bool = False,
) -> str:
    """Start the program, send it a signal once it is busy, and check that it ends with
    all that it started. Return what it printed.
    """
    with started(lab, line) as running:
        process = psutil.Process(running.pid)
        while not is_busy():
            assert running.poll() is None, running.communicate()
            time.sleep(0.05)
        children = process.children(recursive=True)
        if by_thread:
            send_to_thread(process, number)
        else:
            process.send_signal(number)
        out, errors = running.communicate(timeout=20)
    assert (running.returncode, out) == (130, ""), errors
    assert "Traceback" not in errors
    assert not psutil.wait_procs(children, timeout=10)[1]
    return errors


@pytest.mark.parametrize(
    ("line", "again", "number"),
    [
        ("run --fresh", "run", signal.SIGINT),
        ("reduce -t installed", "reduce -t installed", signal.SIGTERM),
    ],
)
def test_an_interruption_leaves_no_child_and_prints_how_to_resume(
    lab: Lab, line: str, again: str, number: int
) -> None:
    lab.write("gen.py", "import time; time.sleep(600)")
    lab.write("gen.yaml", f"{GENERATED}args: {{mark: {lab.folder}}}\n")

    def generates() -> bool:
        """A generator in no group of the program has the mark in its command line."""
        lines = [each.info["cmdline"] for each in psutil.process_iter(["cmdline"])]
        return any(str(lab.folder) in (words or []) for words in lines)

    by_thread = number == signal.SIGTERM
    message = stop_while(lab, f"{line} gen.yaml", number, generates, by_thread)
    assert f"  triage {again} gen.yaml\n" in message
    assert not generates()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("a wheel", signal.SIGINT),
        pytest.param("a header", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_request_is_stopped(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    with serve_hostile() as server:
        monkeypatch.setenv("TRIAGE_INDEX_URL", f"{server.url}/simple/")
        server.answers = {"/": server.trickle(b"HTTP/1.1 200 OK\r\nX: ")}
        if name == "a wheel":
            wheel = server.trickle(http(length=1 << 20))
            server.answers = {"/simple": server.index(), "/wheel": wheel}
        stop_while(lab, "toolchains install 1.0.0", number, server.asked.is_set)


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
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "stopped\n")


@pytest.mark.parametrize(
    ("line", "is_shown"), [("classify -", True), ("-q classify -", False)]
)
def test_a_command_names_what_it_waits_for_unless_it_is_quiet(
    lab: Lab, line: str, is_shown: bool
) -> None:
    with started(lab, line) as process:
        ready = select.select([process.stderr], [], [], 30 if is_shown else 2)[0]
        assert bool(ready) == is_shown
        log = "m.mlir:1:1: error: 'a.b' op failed to verify\n"
        out, errors = process.communicate(log, timeout=30)
    assert process.returncode == 1
    assert "verif" in out
    assert ("classify" in errors) == is_shown


def test_bars_are_removed() -> None:
    shown = LiveBars()
    with shown.task("bisect"), shown.task("compile", 2) as update:
        update("compile a", 1)
        assert [bar.completed for bar in shown.bars.tasks] == [0, 1]
    assert shown.bars.tasks == []


@pytest.mark.usefixtures("in_time")
def test_pruning_leaves_the_files_of_a_command_that_runs(lab: Lab) -> None:
    """A generated input that a hanging compiler reads stays; it is made again after it
    was pruned.
    """
    pipe = lab.folder / "pipe"
    os.mkfifo(pipe)
    lab.write("gen.py", f"print('// hangs {pipe}')")
    lab.write("gen.yaml", GENERATED)
    install(lab.folder / "built", 5)
    with started(lab, "run gen.yaml -t path:built") as process:
        with pipe.open("rb"):  # the compiler runs
            message = lab.refused("toolchains prune --keep 0", 4)
        assert "another command uses it" in message
        [kept] = lab.home.glob("inputs/*.mlir")
        process.terminate()
        process.communicate(timeout=30)
    lab("toolchains prune --keep 0")
    assert not kept.exists()
    lab.write("gen.py", "print('// fine')")
    lab("run gen.yaml -t path:built")
    assert [*lab.home.glob("inputs/*.mlir")]


PRINT_MODULES = """
import sys
from triage.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
# Modules of which no other one is needed for a fast command.
SEARCHES = (
    "triage.attribute triage.bisect triage.git_history triage.nightly triage.reduce"
)
HEAVY = f"jinja2 numpy onnx psutil pypi_simple requests uv {SEARCHES}".split()
# A command line, a module that it imports, and modules that it must not import.
STARTS = """
--help              triage.cli.app          pydantic sqlite3 triage.compilers triage.execution triage.recipes yaml
run good.yaml       triage.execution.cache  statistics triage.compilers.triton.adapter triage.execution.benchmark
classify build.log  triage.classify         yaml sqlite3 triage.compilers.registry triage.execution.engine
"""


@pytest.mark.parametrize(("line", "needed", "others"), rows(STARTS))
def test_a_command_imports_only_what_it_needs(
    lab: Lab, line: str, needed: str, others: str
) -> None:
    lab.recipe("good", "fine")
    lab.write("good.mlir", "func.func @f() { return }\n")
    lab.write("build.log", "all is well\n")
    for _ in range(2):  # keep the result, and rules and schemas that are read
        lab(line)
    command = [sys.executable, "-c", PRINT_MODULES, *line.split()]
    done = subprocess.run(
        command, cwd=lab.folder, capture_output=True, text=True, check=True
    )
    modules = set(done.stderr.splitlines()[-1].split())
    assert needed in modules
    assert not modules & {*HEAVY, *others.split()}
