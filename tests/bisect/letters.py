"""Ranges and engines whose compilers are a string of letters: P passes, F and G
fail in two ways, U is untestable.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

from triage.bisect.candidates import BisectRange, Candidate
from triage.bisect.changes import answer, passing_search
from triage.bisect.plan import whole_search
from triage.bisect.prior import Clues
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import Search
from triage.execution.match import verdict_of
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
from triage.model.progress import Progress
from triage.model.revision import Commit, Revision
from triage.toolchains.home import Home
from triage.toolchains.index import Release
from triage.toolchains.registry import ToolchainRef


def case_named(name: str, *expect: Expectation) -> Case:
    source = Path(f"{name}.mlir")
    return Case(
        name,
        name,
        "",
        "iree",
        Path(f"{name}.yaml"),
        Input(source, InputKind.MLIR),
        Target("llvm-cpu"),
        expect=expect,
    )


def release_refs(count: int) -> tuple[ToolchainRef, ...]:
    releases = [
        Release("iree-base-compiler", f"1.{number}.0", "", "3.11", None, None)
        for number in range(count)
    ]
    return tuple(ToolchainRef("iree", Revision(one.version), one) for one in releases)


def failure(letter: str, family: str = "crash") -> Failure:
    return Failure(f"class-{letter}", family, f"class-{letter}:same text", "it failed")


def outcome(letter: str) -> Outcome:
    """X: the toolchain cannot be obtained. N: the compiler lacks a name."""
    if letter == "P":
        return Passed()
    if letter == "N":
        return NoAnswer(Cause.FLAG, "does not know the name", failure(letter))
    if letter in "UX":
        return NoAnswer(
            Cause.FLAG if letter == "U" else Cause.TOOLCHAIN, "unknown flag"
        )
    return Failed(failure(letter))


@dataclass
class LetterRegistry:
    """Releases 1.0.0 .. 1.N-1.0, all of them installed unless `installed` has some."""

    count: int
    installed: set[int] | None = None
    home: Home = field(default_factory=lambda: Home(Path(tempfile.mkdtemp())))

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.home.path)

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
        return (
            self.installed is None
            or int(ref.revision.name.split(".")[1]) in self.installed
        )

    def installed_releases(self, family: str) -> tuple[ToolchainRef, ...]:
        return tuple(filter(self.is_installed, self.releases(family)))

    def obtain(self, ref: ToolchainRef) -> SimpleNamespace:
        return SimpleNamespace(identity=ref.revision.name)


class HistoryEngine:
    """Stands where an Engine stands. `asked` lists (case, index, fresh)."""

    progress = Progress()

    def __init__(self, histories: dict[str, str], jobs: int = 1) -> None:
        self.histories, self.jobs = histories, jobs
        self.registry = LetterRegistry(max(map(len, histories.values())))
        self.asked: list[tuple[str, int, bool]] = []
        self.compiles = 0
        self.known: set[tuple[str, int]] = set()
        self.stop = threading.Event()
        self.planner = SimpleNamespace(
            input_of=lambda _case, _toolchain: None,
            plan=lambda _case, _toolchain: SimpleNamespace(revision=Revision("")),
            input_hash=lambda _case, _toolchain: "",
        )

    def recall(self, job: ProbeJob) -> bool:
        return (job.case.name, int(job.ref.revision.name.split(".")[1])) in self.known

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in jobs:
            index = int(job.ref.revision.name.split(".")[1])
            name = job.case.name
            self.asked.append((name, index, job.fresh))
            letter = self.histories[name][index]
            yield Probe(
                job.case,
                job.ref.revision,
                job.ref.revision.name,
                outcome(letter),
                Measured(seconds=1.0),
                cached=False,
            )


@dataclass(frozen=True, kw_only=True)
class LetterRange(BisectRange):
    """`suspicion`: how suspicious each candidate is."""

    suspicion: Sequence[float]

    def weights(self, clues: Clues) -> list[float]:
        return list(self.suspicion)


def letter_range(
    price: Sequence[float], suspicion: Sequence[float], shut: Collection[int] = ()
) -> LetterRange:
    """Candidates c0, c1, ... price: seconds for each. shut: candidates that are known
    to have no compiler.
    """
    candidates = []
    for index, seconds in enumerate(price):
        revision = Revision(f"c{index}", f"{index:040x}")
        why = "the artifact has expired" if index in shut else None
        candidates.append(
            Candidate(
                revision,
                ToolchainRef("iree", revision),
                seconds,
                why,
                commits=(Commit(f"c{index}", None, "2025-01-01", ""),),
            )
        )
    return LetterRange(tuple(candidates), suspicion=suspicion)


def search_along(
    engine: object, line: BisectRange, kind: BisectKind = BisectKind.REGRESSION
) -> Search:
    request = BisectRequest(engine, case_named("case"), kind=kind)  # type: ignore[arg-type]
    return whole_search(request, line)


def run_alone(search: Search) -> Bisection:
    """Search the change from passing to failing only."""
    passing = passing_search(search).verified()
    if isinstance(passing, NoAnswer):
        return answer(search, passing)
    match = search.line.request.match(passing.failure)
    passing = replace(passing, match=match, judge=verdict_of)
    return answer(passing, passing.run())


def plain_range(size: int) -> LetterRange:
    return letter_range([1.0] * size, [1.0] * size)


@dataclass
class LetterEngine:
    """A failing candidate passes as often as `false_good` says.

    The first probe of an end never is, because it would end the bisect before it
    begins.
    """

    letters: str
    jobs: int = 1
    false_good: float = 0.0
    seed: int = 0
    asked: list[int] = field(default_factory=list)
    progress = Progress()

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def probe_all(self, jobs: Sequence[ProbeJob], what: str = "") -> Iterator[Probe]:
        for job in jobs:
            index = int(job.ref.revision.name[1:])
            letter = self.letters[index]
            if index not in (0, len(self.letters) - 1) or job.fresh:
                letter = (
                    "P"
                    if letter == "F" and self._random.random() < self.false_good
                    else letter
                )
            self.asked.append(index)
            yield Probe(
                job.case,
                job.ref.revision,
                None,
                outcome(letter),
                Measured(seconds=0.1),
                cached=False,
            )
