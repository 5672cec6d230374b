"""A model to reduce in a folder of its own, with its toolchains and its oracle, for `benchmarks/reduce.py`."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reduce_inputs import recipe
from benchmarks.reduce_oracle import Plan
from benchmarks.reduce_patterns import PATTERNS
from benchmarks.reduce_peers import WORKERS
from triage.cli.context import load_cases, open_runner
from triage.cli.screen import AppContext
from triage.compilers.invocation import Invocation
from triage.compilers.registry import family_of
from triage.execution.judge import same_signature
from triage.execution.mlir_tools import Reader
from triage.execution.prober import Naming
from triage.model.case import Case
from triage.model.revision import Toolchain
from triage.reduce.baseline import Baseline, baseline
from triage.reduce.frontends.mlir.frontend import MlirFrontend
from triage.toolchains.home import home_path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Task:
    """A model in a folder of its own, the case of its recipe, and the toolchains."""

    pattern: str
    folder: Path
    case: Case
    bad: Toolchain
    good: Toolchain | None

    @property
    def model(self) -> Path:
        return self.case.input.path

    @property
    def env(self) -> dict[str, str]:
        """A home with these toolchains alone: without evidence, and what is left is not probed on any other release."""
        return {**os.environ, "TRIAGE_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT)}


def task_of(pattern: str, text: str, folder: Path) -> Task:
    """The toolchains are installed in the user's own home, where they are not there yet."""
    folder.mkdir()
    (folder / "model.mlir").write_text(text)
    (folder / f"{pattern}.yaml").write_text(recipe(pattern, "model.mlir"))
    [case] = load_cases([folder / f"{pattern}.yaml"])
    with open_runner(AppContext(quiet=True), [case]) as bench:
        names = [PATTERNS[pattern].bad, PATTERNS[pattern].good]
        bad, *others = [bench.registry.obtain(bench.registry.resolve(name, case.compiler)) for name in names if name]
    task = Task(pattern, folder, case, bad, others[0] if others else None)
    fresh_home(task)
    return task


def fresh_home(task: Task) -> None:
    """Make a home with only the toolchains of the task."""
    home = task.folder / "home"
    (home / "toolchains").mkdir(parents=True)
    (home / "state.db").symlink_to(home_path() / "state.db")
    for toolchain in (task.bad, task.good):
        if toolchain:
            (home / "toolchains" / toolchain.root.name).symlink_to(toolchain.root)


@contextmanager
def living_in(task: Task) -> Iterator[None]:
    """Set TRIAGE_HOME to the home of the task."""
    before = os.environ.get("TRIAGE_HOME")
    os.environ["TRIAGE_HOME"] = task.env["TRIAGE_HOME"]
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRIAGE_HOME"]
        else:
            os.environ["TRIAGE_HOME"] = before


def started(task: Task) -> Baseline:
    """Return the original's failure on the bad toolchain, for the peers' interestingness test."""
    with living_in(task), open_runner(AppContext(quiet=True), [task.case], WORKERS) as bench:
        start = baseline(bench, task.case, task.bad, None, same_signature, None)
    assert isinstance(start, Baseline), start.reason
    assert start.repeats == 1, start.notes
    return start


def planned(task: Task, case: Case, start: Baseline) -> Plan:
    """Return the interestingness test of a case: the task's own, or a reduced one."""
    compiler = family_of(case)

    def words(toolchain: Toolchain, naming: bool) -> tuple[list[str], Invocation]:
        invocation = compiler.invocation(case, toolchain)
        assert isinstance(invocation, Invocation)
        chosen = compiler.with_pass_reporting(invocation, crashed=False) if naming else invocation
        return chosen.argv(toolchain.program, Path("INPUT"), Path("OUTPUT")), invocation

    naming = start.naming is Naming.AT_ONCE
    bad, invocation = words(task.bad, naming)
    good = words(task.good, naming=False)[0] if task.good else None
    timeout = max(10.0, 4 * start.seconds)
    return Plan(bad, good, dict(invocation.env), start.failure.signature, naming, timeout, case.limits.memory)


def script(folder: Path, plan: Plan) -> Path:
    """Write the interestingness test as a script that peers call with a path, or beside the model."""
    path = folder / "oracle.sh"
    words = [sys.executable, "-m", "benchmarks.reduce_oracle", str(plan.write(folder / "oracle"))]
    line = f'PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.join(words)} "$(realpath "${{1:-model.mlir}}")"'
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def sized(task: Task, path: Path) -> tuple[int, int | None]:
    """Return the lines that are not blank, and the operations if the bad toolchain reads the program."""
    lines = sum(bool(line.strip()) for line in path.read_text("utf-8", "replace").splitlines())
    tools = family_of(task.case).mlir_tools(task.bad)
    assert tools
    form = MlirFrontend(Reader(tools, threading.Event()))
    document = next(form.open(path), None)
    form.close()
    return lines, document.size if document else None
