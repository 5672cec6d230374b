"""The other reducers in `benchmarks/reduce.py`: installing them, calling them, and running them under a time limit."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

import platformdirs
import psutil

WORKERS = 2
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_PACKAGES = ("shrinkray", "picire", "setuptools<81")  # picire imports pkg_resources, which newer ones do not have


@dataclass(frozen=True)
class Peer:
    """A reducer that calls a script with a candidate. `command`: script and file -> what to run in the file's folder."""

    name: str
    version: str
    command: Callable[[str, str], list[str]]


@dataclass(frozen=True)
class Run:
    """The cost of a run.

    seconds: wall time. cpu_seconds: of the process and all processes it started. own_mb: largest resident memory of all
    processes that are not compilers. ended: by itself, within the time limit.
    """

    seconds: float
    cpu_seconds: float
    own_mb: float
    ended: bool
    status: int | None


def peers(python: str) -> tuple[list[Peer], list[str]]:
    """Return the available peers, and for the missing ones how to install them."""
    available, missing = [], []
    if cvise := shutil.which("cvise"):
        version = subprocess.run([cvise, "--version"], capture_output=True, text=True).stdout.split()
        available.append(Peer("C-Vise", version[1], lambda script, file: [cvise, "--not-c", f"--n={WORKERS}", script, file]))
    else:
        missing.append("C-Vise is not installed: apt-get install cvise")
    tools, trouble = _installed(python)
    if trouble:
        missing.append(f"Shrink Ray and picire could not be installed: {trouble}")
        return available, missing
    versions = {
        found.name: found.version
        for found in distributions(path=[str(path) for path in tools.glob("lib/python*/site-packages")])
    }
    ray, picire = str(tools / "bin" / "shrinkray"), str(tools / "bin" / "picire")
    words = [f"--parallelism={WORKERS}", "--input-type=arg", "--ui=basic", "--volume=quiet"]
    available.append(Peer("Shrink Ray", versions["shrinkray"], lambda script, file: [ray, *words, script, file]))
    available.append(
        Peer(
            "picire",
            versions["picire"],
            lambda script, file: [
                picire,
                "-i",
                file,
                "--test",
                script,
                "-o",
                "out",
                "-p",
                "-j",
                str(WORKERS),
                "-q",
                "--cache=content",
            ],
        )
    )
    return available, missing


def _installed(python: str) -> tuple[Path, str | None]:
    """A virtual environment with the peers from PyPI, kept in the platform's cache; what went wrong, if anything.

    Nothing is built: the newest Shrink Ray needs Python 3.12, an older Python gets an older release.
    """
    folder = Path(platformdirs.user_cache_dir("triage-benchmarks", appauthor=False)) / "reducers"
    if (folder / "bin" / "shrinkray").is_file() and (folder / "bin" / "picire").is_file():
        return folder, None
    uv = [sys.executable, "-m", "uv", "--quiet", "--no-python-downloads"]
    make = [*uv, "venv", "--clear", "--python", python, str(folder)]
    install = [*uv, "pip", "install", "--python", str(folder / "bin" / "python"), "--no-build", *_PACKAGES]
    for command in (make, install):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return folder, "no answer in five minutes"
        if done.returncode:
            return folder, done.stderr.strip().splitlines()[-1]
    return folder, None


def timed(command: list[str], cwd: Path, limit: float, env: dict[str, str] | None = None, out: Path | None = None) -> Run:
    """Run a command for at most `limit` seconds, then end it and its children. out: a file for its output."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # what a peer leaves behind becomes a child of this process, and is counted
    before, begun, peak = _cpu(), time.perf_counter(), 0.0
    try:
        with (out or Path(os.devnull)).open("wb") as sink, (cwd / "stderr").open("wb") as errors:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=errors,
            )
            while process.poll() is None and time.perf_counter() - begun < limit:
                peak = max(peak, _own_mb(process.pid))
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
        seconds, status = time.perf_counter() - begun, process.returncode
    finally:
        _end_all()
    return Run(seconds, _cpu() - before, peak, status is not None, status)


def _end_all() -> None:
    """Kill and reap every descendant of this process; what is killed may have started something meanwhile."""
    while left := psutil.Process().children(recursive=True):
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _own_mb(pid: int) -> float:
    """Resident memory of a process and its descendants, compilers apart. MiB."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        for process in (top, *top.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                if process.name() != "iree-compile":
                    total += process.memory_info().rss
    return total / (1 << 20)
