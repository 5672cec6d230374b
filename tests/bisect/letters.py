"""Engines whose compilers are a string of letters: P passes, F and G fail in two ways,
U is untestable, X cannot be obtained, N lacks a name.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.fake_engine import FakeEngine
from triage.bisect.line import BisectRequest, Candidate, Line
from triage.bisect.result import BisectKind, Suspect
from triage.bisect.search import Search, whole_search
from triage.execution.task import ProbeJob
from triage.model.case import Case, Expectation, Input, InputKind, Target
from triage.model.outcome import Cause, Failed, Failure, NoAnswer, Outcome, Passed
from triage.model.revision import Commit, Revision
from triage.toolchains.registry import ToolchainRef

HEADLINE = "it failed"


def case_named(name: str, *expect: Expectation) -> Case:
    program = Input(Path(f"{name}.mlir"), InputKind.MLIR)
    source, target = Path(f"{name}.yaml"), Target("llvm-cpu")
    return Case(name, name, "", "iree", source, program, target, expect=expect)


def index_of(revision: Revision) -> int:
    """Return the index of a candidate: commits are named c7, releases 1.7.0."""
    name = revision.name
    return int(name[1:] if name.startswith("c") else name.split(".")[1])


def pair(change: Any) -> tuple[int, int]:
    """Return the candidates around a change or the culprit."""
    return index_of(change.before), index_of(change.after)


def failure(letter: str, family: str = "crash") -> Failure:
    return Failure(f"class-{letter}", family, f"class-{letter}:same text", HEADLINE)


def outcome(letter: str) -> Outcome:
    others = {
        "P": Passed(),
        "N": NoAnswer(Cause.FLAG, "does not know the name", failure(letter)),
        "U": NoAnswer(Cause.FLAG, "unknown flag"),
        "X": NoAnswer(Cause.TOOLCHAIN, "unknown flag"),
    }
    return others.get(letter, Failed(failure(letter)))


class HistoryEngine(FakeEngine):
    """Compilers with letters for one case or for several.

    A failing candidate passes as often as `false_good` says. The first probe of an end
    never does, because it would end the bisect before it begins.
    """

    def __init__(
        self,
        histories: str | Mapping[str, str],
        jobs: int = 1,
        false_good: float = 0.0,
        seed: int = 0,
    ) -> None:
        rows = {"case": histories} if isinstance(histories, str) else histories
        randomly = random.Random(seed)
        count = max(map(len, rows.values()))

        def answer(job: ProbeJob) -> Outcome:
            letters, index = rows[job.case.name], index_of(job.ref.revision)
            may_be_wrong = job.fresh or index not in (0, len(letters) - 1)
            if letters[index] == "F" and may_be_wrong:
                return outcome("FP"[randomly.random() < false_good])
            return outcome(letters[index])

        super().__init__(answer, [f"1.{n}.0" for n in range(count)], jobs)

    @property
    def indices(self) -> list[int]:
        """The candidates that were probed, in order."""
        return [index_of(job.ref.revision) for job in self.asked]


@dataclass(kw_only=True)
class LetterLine(Line):
    suspicion: Sequence[float]

    def changes(self, failure: Failure) -> list[Suspect]:
        return [
            Suspect(**asdict(self.suspect_at(index)), probability=self.suspicion[index])
            for index in range(1, len(self))
        ]


def search_along(
    engine: object,
    prices: Sequence[float],
    suspicion: Sequence[float],
    kind: BisectKind = BisectKind.REGRESSION,
    shut: Collection[int] = (),
    script: Path | None = None,
) -> Search:
    """Search the candidates c0, c1, ... prices: seconds for each. shut: candidates that
    are known to have no compiler. script: tests in place of a compiler.
    """
    case = replace(case_named("case"), script=script)
    request = BisectRequest(engine, case, kind=kind)  # type: ignore[arg-type]
    candidates = []
    for index, seconds in enumerate(prices):
        revision = Revision(f"c{index}", f"{index:040x}")
        why = "the artifact has expired" if index in shut else None
        commits = (Commit(f"c{index}", None, "2025-01-01", ""),)
        ref = ToolchainRef("iree", revision)
        candidates.append(Candidate(revision, ref, seconds, why, commits))
    return whole_search(LetterLine(request, candidates, suspicion=suspicion))
