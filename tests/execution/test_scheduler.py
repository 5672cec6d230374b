"""The scheduler, with functions in place of toolchains, compiles and evidence."""

from __future__ import annotations

import threading
from pathlib import Path

from triage.execution.scheduler import ProbeJob, Scheduler
from triage.model.case import Case, Input, InputKind, Target
from triage.model.outcome import Compiled, Measured, Probe
from triage.model.revision import Capabilities, Revision, Toolchain
from triage.toolchains.registry import ToolchainRef

PATIENCE = 20.0  # seconds for what must happen


def job(name: str, release: str = "1.0.0") -> ProbeJob:
    path = Path(f"{name}.mlir")
    case = Case(name, name, "", "iree", path, Input(path, InputKind.MLIR), Target("llvm-cpu"))
    return ProbeJob(case, ToolchainRef("iree", Revision(release)))


def obtain(ref: ToolchainRef) -> Toolchain:
    name = ref.revision.name
    return Toolchain(ref.family, ref.revision, name, Path(), Path("compiler"), Capabilities(), name)


def compiled(job: ProbeJob, toolchain: Toolchain) -> Probe:
    return Probe(job.case, toolchain.revision, toolchain.version, Compiled(), Measured(seconds=1.0), cached=False)


def test_jobs_run_together_only_within_the_memory() -> None:
    together, most = list[str](), list[int]()
    both = threading.Barrier(2, timeout=PATIENCE)

    def probe(job: ProbeJob, toolchain: Toolchain) -> Probe:
        together.append(job.case.name)
        both.wait()
        most.append(len(together))
        both.wait()
        together.remove(job.case.name)
        return compiled(job, toolchain)

    jobs = [job(f"case-{number}") for number in range(6)]
    assert len(list(Scheduler(obtain, probe, lambda _: 100.0, threading.Event(), 4, 250.0).run(jobs))) == 6
    assert most == [2] * 6
