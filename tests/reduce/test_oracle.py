"""Which candidates count as failing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tests.reduce.test_search import CASE
from triage.execution.match import same_signature
from triage.execution.task import Naming, ProbeJob
from triage.model.outcome import Failed, Failure, Measured, Outcome, Passed, Probe
from triage.model.revision import Revision, Toolchain
from triage.reduce.baseline import Baseline, ReductionRequest
from triage.reduce.frontends.text import TextProgram
from triage.reduce.interestingness import CompileTest
from triage.reduce.program import ReducedCase
from triage.toolchains.registry import ToolchainRef

FAILURES = {
    name: Failure(name, name, f"{name}:detail", "detail")
    for name in ("wanted", "other")
}
WANTED = FAILURES["wanted"]


class FakeProber:
    """The first word of a program is its outcome: `good`, or a name of FAILURES."""

    def probe(self, job: ProbeJob) -> Probe:
        case = job.case
        failure = FAILURES.get(case.input.path.read_text().split()[0])
        outcome: Outcome = Failed(failure) if failure else Passed()
        return Probe(
            case, Revision("1"), "1", outcome, Measured(seconds=1.0), cached=False
        )


def draft(line: str) -> ReducedCase:
    return ReducedCase(TextProgram([line], "other"), CASE)


def test_only_the_same_failure_counts(tmp_path: Path) -> None:
    bad = Toolchain("iree", Revision("1"), "id", tmp_path, tmp_path, None)  # type: ignore[arg-type]
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    start = Baseline(
        ReductionRequest(CASE, ToolchainRef("iree", Revision("1")), None),
        CASE,
        bad,
        WANTED,
        same_signature(WANTED),
        Naming.NEVER,
        seconds=1.0,
        repeats=1,
        probes=(),
    )
    prober: Any = FakeProber()
    asked = CompileTest(prober, start, drafts)
    words = ("wanted", "good", "other 1", "other 2")
    never = threading.Event()
    answers = [asked.is_interesting(draft(word), never) for word in words]
    assert answers == [True, False, False, False]
    assert asked.calls == 4
    assert not list(drafts.iterdir())
