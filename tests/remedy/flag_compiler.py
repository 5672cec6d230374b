"""An engine whose compiler is a function of its flags, and cases for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from triage.execution.task import ProbeJob
from triage.model.case import Case, Flag, Input, InputKind, Target
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    Measured,
    NoAnswer,
    Outcome,
    Probe,
)
from triage.model.revision import Capabilities, Revision, Toolchain
from triage.toolchains.home import Progress
from triage.toolchains.registry import ToolchainRef

Behaviour = Callable[[frozenset[str], str], Outcome]
"""The outcome of flags on the revision of that name."""

SWITCHES = frozenset(
    {
        "iree-codegen-llvmgpu-use-igemm",
        "iree-codegen-llvmgpu-test-tile-and-fuse-vectorize",
        "iree-codegen-new-thing",
        "iree-codegen-dump-everything",
        "iree-llvmcpu-disable-distribution",
        "iree-dispatch-creation-fuse-multi-use",
        "iree-stream-emulate-memset",
        "iree-opt-data-tiling",
    }
)
FLAGS = SWITCHES | {"iree-opt-level", "iree-stream-affinity-solver-max-iterations"}


def failed(name: str = "shared-memory-overflow") -> Failed:
    return Failed(Failure(name, name, name, f"{name}!"))


def a_case(*flags: str, backend: str = "rocm", **more: Any) -> Case:
    path = Path("/nowhere/m.mlir")
    given, target = tuple(map(Flag, flags)), Target(backend, "gfx942")
    program = Input(path, InputKind.MLIR)
    return Case("m", "m", "", "iree", path, program, target, given, **more)


def a_toolchain(name: str = "3.3.0") -> Toolchain:
    known, program = Capabilities(flags=FLAGS, switches=SWITCHES), Path("iree-compile")
    return Toolchain("iree", Revision(name), name, Path(), program, known, name)


def a_place(name: str = "3.3.0") -> ToolchainRef:
    return ToolchainRef("iree", Revision(name))


class FlagEngine:
    """An engine, and its registry. `asked`: the flags of all probes."""

    progress = Progress()
    inputs = SimpleNamespace(
        input_of=lambda *_: NoAnswer(Cause.RECIPE, "there is none")
    )

    def __init__(
        self,
        behaviour: Behaviour,
        newest: str | None = None,
        seconds: Callable[[frozenset[str]], float] = lambda flags: 1.0,
    ) -> None:
        self.behaviour, self.newest, self.seconds = behaviour, newest, seconds
        self.asked: list[tuple[str, frozenset[str]]] = []
        self.jobs, self.registry = 2, self

    def obtain(self, place: ToolchainRef) -> Toolchain:
        return a_toolchain(place.revision.name)

    def resolve(self, text: str, family: str) -> ToolchainRef:
        if self.newest is None:
            raise EnvironmentFailure("no network")
        return a_place(self.newest)

    def probe(self, job: ProbeJob) -> Probe:
        [probe] = self.probe_all([job])
        return probe

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in reversed(jobs):  # probes come in any order
            flags = frozenset(flag.text for flag in job.case.flags)
            revision = job.ref.revision
            self.asked.append((revision.name, flags))
            spent = self.seconds(flags)
            metrics = {"artifact_bytes": 10.0, "dispatches": 4.0 + len(flags)}
            measured = Measured(spent, spent, 100.0, metrics)
            outcome = self.behaviour(flags, revision.name)
            yield Probe(job.case, revision, revision.name, outcome, measured)
