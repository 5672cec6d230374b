"""A jaxlib that compiles one program after another in one process."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from triage.compilers.registry import load_cases
from triage.execution.engine import open_engine
from triage.execution.persistent_workers import PersistentWorkers
from triage.execution.plan import plan_task
from triage.execution.task import ProbeJob, Task
from triage.model.execution import Stage
from triage.model.outcome import Failed

pytestmark = pytest.mark.real


def serves_in(process: psutil.Process, folder: Path) -> bool:
    """Return whether a process is a persistent worker of this test. Another test of
    this process may have left a child, which may have ended.
    """
    try:
        return str(folder) in process.cwd() and "serve" in process.cmdline()
    except psutil.Error:
        return False


def test_a_persistent_worker_says_what_new_processes_say(tmp_path: Path) -> None:
    [case] = load_cases([ROOT / "recipes" / "xla" / "thin-matmul.yaml"])
    (tmp_path / "broken.mlir").write_text("func.func @main() { return %x }")
    broken = replace(case, input=replace(case.input, path=tmp_path / "broken.mlir"))
    with open_engine([case]) as engine:
        bad = engine.registry.obtain(engine.registry.resolve("0.10.2", "xla"))
        task, invalid = (
            plan_task(engine, case, bad),
            plan_task(engine, broken, bad),
        )
        assert isinstance(task, Task)
        assert isinstance(invalid, Task)
        fresh = engine.probe(ProbeJob(case, engine.registry.ref_of(bad))).outcome
        with closing(PersistentWorkers(tmp_path, engine.stop)) as workers:
            answers = [
                workers.run(each, tmp_path / str(number), (0, 85, 170))
                for number, each in enumerate((task, invalid, task))
            ]
            children = psutil.Process().children(recursive=True)
            [worker] = [child for child in children if serves_in(child, tmp_path)]
            worker.kill()
            # wait without reaping, which is left to the program
            os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
            assert workers.run(task, tmp_path / "killed") is None
            assert workers.run(task, tmp_path / "anew") is not None
        assert not worker.is_running()
    first, second, third = filter(None, answers)
    assert second.stage is Stage.COMPILE
    assert len(first.files) == 3
    assert isinstance(fresh, Failed)
    for probe in filter(None, (first.probe(), third.probe())):
        assert isinstance(probe.outcome, Failed)
        assert probe.outcome.failure.signature == fresh.failure.signature
