"""What the benchmarks share: run a command and say what it cost, and print a figure of
triage next to that of a peer.
"""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

TRIAGE = [sys.executable, "-c", "from triage.cli import main; main()", "--quiet"]
TOOLCHAINS = (
    Path(os.environ.get("TRIAGE_HOME") or Path.home() / ".cache" / "triage")
    / "toolchains"
)


@dataclass(frozen=True)
class Cost:
    """One run of a command: wall and CPU seconds, child processes included, and its
    output.
    """

    wall: float
    cpu: float
    stdout: str


def cpu_seconds(*whos: int) -> float:
    """Return the CPU time of this process, its ended children, or both."""
    return sum(sum(resource.getrusage(who)[:2]) for who in whos)


def cost_of(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
) -> Cost:
    """Run a command; end the benchmark if its exit code is not one of `codes`."""
    began = time.perf_counter()
    cpu = cpu_seconds(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    wall = time.perf_counter() - began
    cpu = cpu_seconds(resource.RUSAGE_CHILDREN) - cpu
    if done.returncode not in codes:
        line = " ".join(command)[:300]
        error = done.stderr[-3000:]
        sys.exit(f"{line} ended with exit code {done.returncode}\n{error}")
    return Cost(wall, cpu, done.stdout)


def cpu_of(
    *command: str | Path,
    rounds: int = 3,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
) -> float:
    """Return the CPU seconds of the best of several rounds."""
    words = list(map(str, command))
    costs = [cost_of(words, cwd=cwd, env=env, codes=codes) for _ in range(rounds)]
    return min(cost.cpu for cost in costs)


@contextmanager
def new_home() -> Iterator[tuple[Path, dict[str, str]]]:
    """Make a folder whose `home` is a TRIAGE_HOME with the user's toolchains and no
    results; yield it, and the environment that uses it.
    """
    with TemporaryDirectory(prefix="bench-") as place:
        home = Path(place, "home")
        home.mkdir()
        (home / "toolchains").symlink_to(TOOLCHAINS)
        if (TOOLCHAINS.parent / "state").exists():
            (home / "state").symlink_to(TOOLCHAINS.parent / "state")
        yield Path(place), {**os.environ, "TRIAGE_HOME": str(home)}


def command_lines(path: Path, rev: str, output: Path) -> str:
    """Return what `triage run` starts for the cases below a path, a shell command a
    line, with other outputs.
    """
    from triage.cli.cases import cases_in
    from triage.execution.engine import open_engine
    from triage.execution.judge import NoTask
    from triage.execution.plan import plan_task

    lines = ""
    cases = cases_in([path])
    with open_engine(cases) as engine:
        for case in cases:
            ref = engine.registry.resolve(rev, case.compiler)
            with suppress(NoTask):
                task = plan_task(engine, case, engine.registry.obtain(ref))
                words = task.toolchain.program, task.prepared.path, output
                lines += shlex.join(task.invocation.argv(*words)) + "\n"
    return lines


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
    def is_beyond(self) -> bool:
        return self.ours > self.limit * self.theirs

    def __str__(self) -> str:
        ratio = self.ours / self.theirs if self.theirs else float("inf")
        ours = f"{self.what:52} {self.ours:9.2f} {self.unit:9}"
        line = f"{ours} {self.peer:22} {self.theirs:9.2f}   ratio {ratio:6.3f}"
        if self.limit < float("inf"):
            line += f"  limit {self.limit:g}"
        return line + "  BEYOND" * self.is_beyond


def show(ratios: Iterable[Ratio]) -> int:
    """Print each figure when it is known. Return 1 if one is beyond its limit."""
    beyond = 0
    for ratio in ratios:
        print(ratio, flush=True)
        beyond += ratio.is_beyond
    return min(beyond, 1)
