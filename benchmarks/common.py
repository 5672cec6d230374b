"""What the benchmarks share: run a command and say what it cost, and print a figure of
triage next to that of a peer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

TRIAGE = [sys.executable, "-c", "from triage.cli import main; main()", "--quiet"]
LINES = [sys.executable, "-m", "benchmarks.command_lines"]
TOOLCHAINS = (
    Path(os.environ.get("TRIAGE_HOME") or Path.home() / ".cache" / "triage")
    / "toolchains"
)


@dataclass(frozen=True)
class Cost:
    """One run of a command: wall and CPU seconds (child processes included), the
    largest process in MiB, and its output.
    """

    wall: float
    cpu: float
    peak_mb: float
    code: int
    stdout: str


def cost_of(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
) -> Cost:
    """Run a command; end the benchmark if its exit code is not one of `codes`."""
    with (
        TemporaryFile("w+", errors="replace") as out,
        TemporaryFile("w+", errors="replace") as errors,
    ):
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall, process.returncode = (
            time.perf_counter() - started,
            os.waitstatus_to_exitcode(status),
        )
        out.seek(0)
        errors.seek(0)
        if process.returncode not in codes:
            sys.exit(
                f"{' '.join(command)[:300]} ended with exit code {process.returncode}\n{errors.read()[-3000:]}"
            )
        return Cost(
            wall,
            used.ru_utime + used.ru_stime,
            used.ru_maxrss / 1024,
            process.returncode,
            out.read(),
        )


def new_home(folder: Path) -> dict[str, str]:
    """Make a TRIAGE_HOME with the user's toolchains and no results; return the
    environment that uses it.
    """
    folder.mkdir(parents=True)
    (folder / "toolchains").symlink_to(TOOLCHAINS)
    if (TOOLCHAINS.parent / "state").exists():
        (folder / "state").symlink_to(TOOLCHAINS.parent / "state")
    return {**os.environ, "TRIAGE_HOME": str(folder)}


@dataclass(frozen=True)
class Ratio:
    """A figure of triage next to that of a peer. Less is better."""

    what: str
    ours: float
    peer: str
    theirs: float
    unit: str
    limit: float = float("inf")
    """The largest ratio that is accepted."""

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.theirs else float("inf")

    @property
    def is_beyond(self) -> bool:
        return self.ratio > self.limit

    def __str__(self) -> str:
        line = f"{self.what:52} {self.ours:9.2f} {self.unit:9} {self.peer:22} {self.theirs:9.2f}   ratio {self.ratio:6.3f}"
        if self.limit == float("inf"):
            return line
        return f"{line}  limit {self.limit:g}{'  BEYOND' if self.is_beyond else ''}"
