"""A bench whose compiler is a string of letters: P passes, F and G fail in two ways, U is untestable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from triage.model.case import Case, Expectation, Input, InputKind, Target
from triage.model.outcome import Cause, Compiled, Failed, Failure, Measured, Outcome, Probe, Untestable
from triage.model.progress import Silent
from triage.model.revision import Revision
from triage.toolchains.registry import ToolchainRef


def case_named(name: str, *expect: Expectation) -> Case:
    source = Path(f"{name}.mlir")
    return Case(name, name, "", "iree", Path(f"{name}.yaml"), Input(source, InputKind.MLIR), Target("llvm-cpu"), expect=expect)


def places(count: int) -> list[ToolchainRef]:
    return [ToolchainRef("iree", Revision(f"1.{number}.0")) for number in range(count)]


def failure(letter: str) -> Failure:
    return Failure(f"class-{letter}", "family", f"class-{letter}:same text", "it failed")


def outcome(letter: str) -> Outcome:
    if letter == "P":
        return Compiled()
    if letter == "U":
        return Untestable(Cause.FLAG, "unknown flag")
    return Failed(failure(letter))


class HistoryBench:
    """Stands where a Workbench stands; `asked` lists (case, index, fresh) in order of asking."""

    progress = Silent()

    def __init__(self, histories: dict[str, str], jobs: int = 1) -> None:
        self.histories, self.jobs = histories, jobs
        self.asked: list[tuple[str, int, bool]] = []
        self.flips: dict[tuple[str, int], list[str]] = {}

    def probe_all(self, jobs: Sequence, what: str = "") -> Iterator[Probe]:
        for job in jobs:
            index = int(job.place.revision.name.split(".")[1])
            name = job.case.name
            self.asked.append((name, index, job.fresh))
            letters = self.flips.get((name, index))
            letter = letters.pop(0) if letters else self.histories[name][index]
            yield Probe(
                job.case,
                job.place.revision,
                job.place.revision.name,
                outcome(letter),
                Measured(seconds=1.0),
                cached=False,
            )
