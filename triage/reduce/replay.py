"""Whether reproducers still reproduce, and on which versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from triage.model.outcome import Compiled, Failed, Outcome, Untestable
from triage.model.probe import Probe
from triage.probe.workbench import Job, Workbench
from triage.reduce.recorded import Recorded
from triage.toolchains.shed import Place


class Finding(StrEnum):
    """What a version makes of a reproducer."""

    REPRODUCES = "reproduces"
    FIXED = "fixed"  # it compiles
    CHANGED = "changed"  # it fails with another signature
    UNTESTABLE = "untestable"


@dataclass(frozen=True, slots=True)
class Replay:
    """A reproducer on the versions that were asked, in that order; its status is what the last one makes of it. bad: the
    probe of the version it was recorded on, None where that was not asked.
    """

    recorded: Recorded
    probes: tuple[Probe, ...]
    bad: Probe | None

    @property
    def status(self) -> Finding:
        """What the last version makes of it."""
        return self.finding(self.probes[-1])

    @property
    def holds(self) -> bool | None:
        """Whether it still fails, in the same way, on the version it was recorded on; None where that was not asked or
        could not be tested.
        """
        finding = self.finding(self.bad) if self.bad else Finding.UNTESTABLE
        return None if finding is Finding.UNTESTABLE else finding is Finding.REPRODUCES

    @property
    def tested(self) -> bool:
        """Whether it can be told if the reproducer is as it was: by the recorded version, by any where that was not asked."""
        asked = (self.bad,) if self.bad else self.probes
        return any(self.finding(probe) is not Finding.UNTESTABLE for probe in asked)

    def finding(self, probe: Probe) -> Finding:
        """What one of the versions makes of it."""
        if self.recorded.measured:
            return Finding.UNTESTABLE
        return _finding(probe.outcome, self.recorded.signature)

    def reason(self, probe: Probe) -> str | None:
        """Why a version is untestable; None where it is not."""
        if isinstance(probe.outcome, Untestable):
            return probe.outcome.reason
        return "it stands for a number that grew, which is not measured again" if self.recorded.measured else None


def _finding(outcome: Outcome, signature: str) -> Finding:
    match outcome:
        case Compiled():
            return Finding.FIXED
        case Failed(failure=failure):
            return Finding.REPRODUCES if failure.signature == signature else Finding.CHANGED
        case Untestable():
            return Finding.UNTESTABLE


def replay(
    bench: Workbench, reproducers: Sequence[Recorded], named: Sequence[str] = (), *, fresh: bool = False
) -> tuple[Replay, ...]:
    """Compile each reproducer on the revisions named, in that order; without any, on the one it was recorded on and on the
    newest release.
    """
    asked = {one.folder: _places(bench, one, named) for one in reproducers}
    jobs = [Job(one.case, place, fresh) for one in reproducers for place in asked[one.folder]]
    # Two folders may hold recipes of one name, so that probes are told apart by the recipe's file.
    found = {(probe.case.source, probe.revision.name): probe for probe in bench.probe_all(jobs, "replay")}
    return tuple(_replay(one, asked[one.folder], found) for one in reproducers)


def _replay(one: Recorded, places: Iterable[Place], found: Mapping[tuple[Path, str], Probe]) -> Replay:
    probes = {place.revision.name: found[one.case.source, place.revision.name] for place in places}
    return Replay(one, tuple(probes.values()), probes.get(one.bad) if one.bad else None)


def _places(bench: Workbench, one: Recorded, named: Sequence[str]) -> list[Place]:
    texts = named or [*([one.bad] if one.bad else []), "latest"]
    places = [bench.shed.place(text, one.case.compiler) for text in texts]
    return list({place.revision.name: place for place in places}.values())
