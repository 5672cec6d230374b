"""Programs that are run, daemons that they leave, and attacks on a folder and a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from triage.model.execution import Execution, Limits
from triage.processes.process import run
from triage.processes.sealing import Seal

ATTACKS = Path(__file__).with_name("attacks.py")
INTERPRETER = os.path.realpath(sys.executable)

# Starts a process as a daemon does: in a session of its own, without its parent, and
# here with an empty environment. The starter waits until the daemon runs.
DAEMON = f"""
import os
def daemon(code, mark):
    ready, started = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(started, 7)
            os.execve({INTERPRETER!r}, ["python", "-c", code, mark], {{}})
        os._exit(0)
    os.wait()
    os.close(started)
    os.read(ready, 1)
"""


def ran(
    command: str | Sequence[str],
    folder: Path,
    seal: Seal | None = None,
    **limits: float,
) -> Execution:
    """Run a program, or Python code, by default for a minute."""
    if isinstance(command, str):
        command = [INTERPRETER, "-c", command]
    return run(command, Limits(**{"timeout": 60, **limits}), folder, seal=seal)


def starting(code: str, mark: str, then: str = "") -> str:
    """Return code that starts other code as a daemon, with a word in its command line."""
    return f"{DAEMON}\ndaemon({code!r}, {mark!r})\n{then}"


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    return f"mark-{os.getpid()}-{request.node.name}"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    for name in ("private", "mode", "times", "attributes"):
        (folder / name).write_text("secret")
        (folder / name).chmod(0o644)
    os.utime(folder / "times", (10**9, 10**9))
    return folder


@pytest.fixture
def bystander() -> Iterator[psutil.Popen]:
    """A process of the same user."""
    with psutil.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def state_of(victim: Path, bystander: psutil.Popen) -> object:
    files = {
        path.name: (path.read_text(), path.stat().st_mode, path.stat().st_mtime)
        for path in sorted(victim.iterdir())
    }
    return (
        files,
        (victim / "mode").stat().st_uid,
        os.listxattr(victim / "attributes"),
        bystander.poll(),
        bystander.nice(),
        bystander.cpu_affinity(),
        bystander.rlimit(psutil.RLIMIT_NOFILE),
        os.getpriority(os.PRIO_PROCESS, 0),
        Path("/dev/shm/triage-attack").exists(),
    )


def attack_code(victim: Path, bystander: psutil.Popen) -> str:
    """Return Python code that attacks a folder and a process. Its variable ANSWERS says
    what came of each attack.
    """
    call = f"ANSWERS = answers({str(victim)!r}, {bystander.pid})"
    return f"{ATTACKS.read_text()}\n{call}\n"


@pytest.fixture
def attack(victim: Path, bystander: psutil.Popen) -> Iterator[str]:
    """Attacking code. At the end of a test, all must be as before."""
    before = state_of(victim, bystander)
    yield attack_code(victim, bystander)
    assert state_of(victim, bystander) == before
