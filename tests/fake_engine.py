"""An engine without compilers, for searches: a test says how each compile ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from triage.execution.engine import Engine
from triage.execution.task import ProbeJob
from triage.model.errors import BadInput
from triage.model.outcome import Cause, Measured, NoAnswer, Outcome, Probe
from triage.model.revision import Capabilities, Revision, Toolchain
from triage.toolchains.home import Progress
from triage.toolchains.index import Release
from triage.toolchains.registry import ToolchainRef


@dataclass
class FakeEngine:
    """Stands where an Engine, its registry and its inputs stand."""

    answer: Callable[[ProbeJob], Outcome]
    names: Sequence[str] = ()
    """The releases, oldest first."""
    jobs: int = 1
    home: Path = Path()
    installed: Collection[str] | None = None
    """The releases that are installed, if not all are."""
    commits: Mapping[str, str] = field(default_factory=dict)
    """The commits that releases report."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    measure: Callable[[ProbeJob], Measured] = lambda _: Measured(seconds=1.0)
    asked: list[ProbeJob] = field(default_factory=list)
    compiles: int = 0
    progress = Progress()
    stop = threading.Event()

    @property
    def registry(self) -> FakeEngine:
        return self

    inputs = registry

    def input_of(self, *_: object) -> NoAnswer:
        return NoAnswer(Cause.INPUT, "")

    def package(self, family: str) -> None:
        return None

    def resolve(self, text: str, family: str) -> ToolchainRef:
        name = self.names[-1] if self.names and text == "latest" else text
        if name not in self.names:
            raise BadInput(f"no release {name}")
        release = Release("fake", name, "", "", None, None)
        return ToolchainRef(family, Revision(name), release)

    def releases(self, family: str) -> tuple[ToolchainRef, ...]:
        return tuple(self.resolve(name, family) for name in self.names)

    def installed_releases(self, family: str) -> tuple[ToolchainRef, ...]:
        return tuple(filter(self.is_installed, self.releases(family)))

    def is_installed(self, ref: ToolchainRef) -> bool:
        return self.installed is None or ref.revision.name in self.installed

    def revision(self, ref: ToolchainRef) -> Revision:
        return ref.revision

    def reported_commit(self, family: str, root: Path) -> None:
        return None

    def obtain(self, ref: ToolchainRef) -> Toolchain:
        name, known = ref.revision.name, self.capabilities
        revision = replace(ref.revision, commit=self.commits.get(name))
        return Toolchain(ref.family, revision, name, self.home, self.home, known, name)

    def cached_probe(self, job: ProbeJob) -> None:
        return None

    def probe(self, job: ProbeJob) -> Probe:
        [probe] = self.probe_all([job])
        return probe

    probe_in_order = Engine.probe_in_order

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in reversed(jobs):  # probes come in any order
            self.asked.append(job)
            revision = job.ref.revision
            outcome, measured = self.answer(job), self.measure(job)
            yield Probe(job.case, revision, revision.name, outcome, measured)
