"""The scheduler, with functions in place of toolchains, compiles and evidence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from triage.execution.scheduler import ProbeJob, Scheduler
from triage.model.case import Case, Input, InputKind, Target
from triage.model.errors import EnvironmentFailure, Interrupted, Unobtainable
from triage.model.outcome import Cause, Compiled, Measured, Probe, Untestable
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


def scheduler(
    probe: Callable[[ProbeJob, Toolchain], Probe] = compiled,
    *,
    obtain: Callable[[ToolchainRef], Toolchain] = obtain,
    reservation: Callable[[Case], float] = lambda case: 100.0,
    jobs: int = 4,
    memory_mb: float = 1e6,
) -> Scheduler:
    return Scheduler(obtain, probe, reservation, threading.Event(), jobs, memory_mb)


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

    assert len(list(scheduler(probe, memory_mb=250.0).run([job(f"case-{number}") for number in range(6)]))) == 6
    assert most == [2] * 6


@pytest.mark.parametrize(
    ("error", "cause"),
    [(Unobtainable("does not build"), Cause.TOOLCHAIN), (EnvironmentFailure("no network"), Cause.ENVIRONMENT)],
)
def test_a_toolchain_that_cannot_be_obtained_makes_its_probes_untestable(error: Exception, cause: Cause) -> None:
    def refuse(ref: ToolchainRef) -> Toolchain:
        if ref.revision.name == "1.1.0":
            raise error
        return obtain(ref)

    probes = {probe.revision.name: probe.outcome for probe in scheduler(obtain=refuse).run([job("a"), job("a", "1.1.0")])}
    assert isinstance(probes["1.0.0"], Compiled)
    assert probes["1.1.0"] == Untestable(cause, str(error))


@dataclass
class UntilStopped:
    """Compiles that run until they are stopped, as processes do; a case named `first` ends at once."""

    stop: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)
    stopped: int = 0

    def __call__(self, job: ProbeJob, toolchain: Toolchain) -> Probe:
        if job.case.name == "first":
            assert self.started.wait(PATIENCE)
            return compiled(job, toolchain)
        self.started.set()
        assert self.stop.wait(PATIENCE)
        self.stopped += 1
        raise Interrupted("stopped")


def test_closing_the_iterator_stops_what_runs() -> None:
    compile_ = UntilStopped()
    probes = Scheduler(obtain, compile_, lambda case: 1.0, compile_.stop, 2, 1e6).run([job("first"), job("b"), job("c")])
    assert next(probes).case.name == "first"
    probes.close()  # type: ignore[attr-defined]
    assert compile_.stop.is_set()
    assert compile_.stopped == 1  # the third never started
