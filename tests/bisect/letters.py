"""Ranges and engines whose compilers are a string of letters: P passes, F and G
fail in two ways, U is untestable, X cannot be obtained, N lacks a name.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from triage.bisect.line import BisectRequest, Candidate, Line
from triage.bisect.prior import Suspicion
from triage.bisect.result import Bisection, BisectKind, Transition
from triage.bisect.search import Search, find_changes, whole_search
from triage.execution.task import ProbeJob
from triage.model.case import Case, Expectation, Input, InputKind, Target
from triage.model.errors import EnvironmentFailure
from triage.model.outcome import (
    Cause,
    Failed,
    Failure,
    Measured,
    NoAnswer,
    Outcome,
    Passed,
    Probe,
)
from triage.model.revision import Commit, Revision
from triage.toolchains.home import Progress
from triage.toolchains.index import Release
from triage.toolchains.registry import ToolchainRef


def case_named(name: str, *expect: Expectation) -> Case:
    program = Input(Path(f"{name}.mlir"), InputKind.MLIR)
    source, target = Path(f"{name}.yaml"), Target("llvm-cpu")
    return Case(name, name, "", "iree", source, program, target, expect=expect)


def release_refs(count: int) -> tuple[ToolchainRef, ...]:
    releases = [
        Release("iree-base-compiler", f"1.{number}.0", "", "3.11", None, None)
        for number in range(count)
    ]
    return tuple(ToolchainRef("iree", Revision(one.version), one) for one in releases)


def index_of(revision: Revision) -> int:
    """Return the index of a candidate: commits are named c7, releases 1.7.0."""
    name = revision.name
    return int(name[1:] if name.startswith("c") else name.split(".")[1])


def pair(found: Bisection | Transition) -> tuple[int, int]:
    assert found.before
    assert found.after
    return index_of(found.before), index_of(found.after)


def failure(letter: str, family: str = "crash") -> Failure:
    return Failure(f"class-{letter}", family, f"class-{letter}:same text", "it failed")


def outcome(letter: str) -> Outcome:
    match letter:
        case "P":
            return Passed()
        case "N":
            return NoAnswer(Cause.FLAG, "does not know the name", failure(letter))
        case "U":
            return NoAnswer(Cause.FLAG, "unknown flag")
        case "X":
            return NoAnswer(Cause.TOOLCHAIN, "unknown flag")
    return Failed(failure(letter))


@dataclass
class LetterRegistry:
    """Releases 1.0.0 .. 1.N-1.0, all of them installed unless `installed` has some."""

    count: int
    installed: set[int] | None = None

    def releases(self, family: str) -> tuple[ToolchainRef, ...]:
        return release_refs(self.count)

    def resolve(self, text: str, family: str) -> ToolchainRef:
        for ref in self.releases(family):
            if ref.revision.name == text:
                return ref
        raise EnvironmentFailure(f"no release {text}")

    def revision(self, ref: ToolchainRef) -> Revision:
        return ref.revision

    def is_installed(self, ref: ToolchainRef) -> bool:
        return self.installed is None or index_of(ref.revision) in self.installed

    def installed_releases(self, family: str) -> tuple[ToolchainRef, ...]:
        return tuple(filter(self.is_installed, self.releases(family)))

    def obtain(self, ref: ToolchainRef) -> SimpleNamespace:
        return SimpleNamespace(identity=ref.revision.name)


class HistoryEngine:
    """Stands where an Engine stands, for the letters of one case or of several.

    A failing candidate passes as often as `false_good` says. The first probe of an end
    never does, because it would end the bisect before it begins. `asked` lists (case,
    index, fresh).
    """

    progress = Progress()

    def __init__(
        self,
        histories: str | Mapping[str, str],
        jobs: int = 1,
        false_good: float = 0.0,
        seed: int = 0,
    ) -> None:
        if isinstance(histories, str):
            histories = {"case": histories}
        self.histories, self.jobs, self.false_good = histories, jobs, false_good
        self.registry = LetterRegistry(max(map(len, histories.values())))
        self.asked: list[tuple[str, int, bool]] = []
        self.compiles = 0
        self.known: set[tuple[str, int]] = set()
        self.stop = threading.Event()
        self.inputs = SimpleNamespace(
            input_of=lambda _case, _toolchain: NoAnswer(Cause.INPUT, "")
        )
        self._random = random.Random(seed)

    @property
    def indices(self) -> list[int]:
        """The candidates that were probed, in order."""
        return [index for _, index, _ in self.asked]

    def recall(self, job: ProbeJob) -> bool:
        return (job.case.name, index_of(job.ref.revision)) in self.known

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in jobs:
            index = index_of(job.ref.revision)
            letters = self.histories[job.case.name]
            self.asked.append((job.case.name, index, job.fresh))
            letter = letters[index]
            may_be_wrong = job.fresh or index not in (0, len(letters) - 1)
            if letter == "F" and may_be_wrong:
                letter = "P" if self._random.random() < self.false_good else "F"
            yield Probe(
                job.case,
                job.ref.revision,
                job.ref.revision.name,
                outcome(letter),
                Measured(seconds=1.0),
                cached=False,
            )


@dataclass(kw_only=True)
class LetterLine(Line):
    suspicion: Sequence[float]

    def _suspicions(self, failure: Failure) -> list[Suspicion]:
        return [Suspicion(chance, ()) for chance in self.suspicion[1:]]


def search_along(
    engine: object,
    prices: Sequence[float],
    suspicion: Sequence[float],
    kind: BisectKind = BisectKind.REGRESSION,
    shut: Collection[int] = (),
) -> Search:
    """Search the candidates c0, c1, ... prices: seconds for each. shut: candidates that
    are known to have no compiler.
    """
    request = BisectRequest(engine, case_named("case"), kind=kind)  # type: ignore[arg-type]
    candidates = []
    for index, seconds in enumerate(prices):
        revision = Revision(f"c{index}", f"{index:040x}")
        why = "the artifact has expired" if index in shut else None
        commits = (Commit(f"c{index}", None, "2025-01-01", ""),)
        ref = ToolchainRef("iree", revision)
        candidates.append(Candidate(revision, ref, seconds, why, commits))
    return whole_search(LetterLine(request, candidates, suspicion=suspicion))


def changes_of(letters: str, false_good: float = 0.0, seed: int = 0) -> Bisection:
    """Search all changes along commits with these outcomes."""
    engine = HistoryEngine(letters, 1, false_good, seed)
    alike = [1.0] * len(letters)
    return find_changes(search_along(engine, alike, alike))
