"""The scheduler, with functions in place of toolchains, compiles and evidence."""

from __future__ import annotations

import threading
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


@pytest.mark.parametrize(
    ("error", "cause"),
    [(Unobtainable("does not build"), Cause.TOOLCHAIN), (EnvironmentFailure("no network"), Cause.ENVIRONMENT)],
)
def test_a_toolchain_that_cannot_be_obtained_makes_its_probes_untestable(error: Exception, cause: Cause) -> None:
    def refuse(ref: ToolchainRef) -> Toolchain:
        if ref.revision.name == "1.1.0":
            raise error
        return obtain(ref)

    probes_of = Scheduler(refuse, compiled, lambda _: 100.0, threading.Event(), 4, 1e6)
    probes = {probe.revision.name: probe.outcome for probe in probes_of.run([job("a"), job("a", "1.1.0")])}
    assert isinstance(probes["1.0.0"], Compiled)
    assert probes["1.1.0"] == Untestable(cause, str(error))


def test_closing_the_iterator_stops_what_runs() -> None:
    stop, started, stopped = threading.Event(), threading.Event(), list[str]()

    def until_stopped(job: ProbeJob, toolchain: Toolchain) -> Probe:
        if job.case.name == "first":
            assert started.wait(PATIENCE)
            return compiled(job, toolchain)
        started.set()
        assert stop.wait(PATIENCE)
        stopped.append(job.case.name)
        raise Interrupted("stopped")

    probes = Scheduler(obtain, until_stopped, lambda _: 1.0, stop, 2, 1e6).run([job("first"), job("b"), job("c")])
    assert next(probes).case.name == "first"
    probes.close()  # type: ignore[attr-defined]
    assert stopped == ["b"]  # the third never started
