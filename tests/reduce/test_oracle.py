"""Which candidates count as failing."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.reduce.test_search import CASE
from triage.execution.match import same_signature
from triage.execution.task import Naming, ProbeJob
from triage.model.case import InputKind
from triage.model.outcome import Failed, Failure, Measured, Outcome, Passed, Probe
from triage.model.revision import Revision, Toolchain
from triage.reduce.baseline import Baseline
from triage.reduce.frontends.text import TextProgram
from triage.reduce.interestingness import CompileTest
from triage.reduce.program import ReducedCase

FAILURES = {
    name: Failure(name, name, f"{name}:detail", "detail")
    for name in ("wanted", "other")
}
WANTED = FAILURES["wanted"]
LIMIT = Failure(
    "stack-limit",
    "stack-limit",
    "stack-limit",
    "exceeded stack allocation limit of 1 bytes. Got 2 bytes",
)
NAMED_LIMIT = replace(
    LIMIT,
    signature="stack-limit:linalg.generic",
    details={"source_op": "linalg.generic"},
)


class FakeProber:
    """The first line of a program is its outcome: `good`, a name of FAILURES, or
    `limit` with the line that fails.
    """

    def __init__(self, limit: Failure) -> None:
        self.limit = limit

    @property
    def registry(self) -> Any:
        return SimpleNamespace(ref_of=lambda _: None)

    def probe(self, job: ProbeJob) -> Probe:
        case = job.case
        word, *where = case.input.path.read_text().splitlines()[0].split()
        limit = replace(self.limit, location=f"input.mlir:{where[0] if where else 1}:1")
        failure = limit if word == "limit" else FAILURES.get(word)
        outcome: Outcome = Failed(failure) if failure else Passed()
        return Probe(
            case, Revision("1"), "1", outcome, Measured(seconds=1.0), cached=False
        )


class LinesProgram(TextProgram):
    def operation_at(self, line: int) -> str | None:
        return self.lines[line - 1]


def draft(lines: list[str]) -> ReducedCase:
    return ReducedCase(LinesProgram(lines, InputKind.OTHER, "other"), CASE)


def oracle(folder: Path, failure: Failure = WANTED) -> CompileTest:
    bad = Toolchain("iree", Revision("1"), "id", folder, folder, None)  # type: ignore[arg-type]
    drafts = folder / "drafts"
    drafts.mkdir(parents=True)
    start = Baseline(
        CASE,
        failure,
        same_signature(failure),
        Naming.NEVER,
        seconds=1.0,
        repeats=1,
        probes=(),
    )
    prober: Any = FakeProber(failure)
    return CompileTest(prober, drafts, bad, None, start)


@pytest.mark.parametrize("failure", [LIMIT, NAMED_LIMIT])
def test_a_failure_without_details_keeps_the_operation_that_fails(
    tmp_path: Path, failure: Failure
) -> None:
    asked, never = oracle(tmp_path, failure=failure), threading.Event()
    before = draft(["limit 2", "linalg.generic gather", "linalg.generic"])
    assert asked.is_interesting(
        draft(["limit 3", "linalg.generic gather", "linalg.generic"]), never
    )
    asked.begin_with(before)
    assert asked.is_interesting(before, never)
    assert asked.is_interesting(
        draft(["limit 3", "linalg.fill", "linalg.generic gather"]), never
    )
    assert not asked.is_interesting(
        draft(["limit 3", "linalg.generic gather", "linalg.generic"]), never
    )
    assert not asked.is_interesting(draft(["limit 2", "linalg.generic"]), never)


def test_only_the_same_failure_counts(tmp_path: Path) -> None:
    asked = oracle(tmp_path)
    never = threading.Event()
    assert asked.is_interesting(draft(["wanted"]), never)
    assert not asked.is_interesting(draft(["good"]), never)
    assert not asked.is_interesting(draft(["other 1"]), never)
    assert not asked.is_interesting(draft(["other 2"]), never)
    assert (asked.calls, asked.seconds) == (4, 4.0)
    assert not list((tmp_path / "drafts").iterdir())
