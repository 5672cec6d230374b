"""Nights written as letters: P passes, F and G fail in two ways, X fails as expected, Y
passes although a failure is expected, U is untestable, - has no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from triage.investigate.result import CaseResult
from triage.model.case import Target
from triage.model.execution import Stage
from triage.model.outcome import Cause, Failure, ProbeResult, Status
from triage.model.revision import Revision, ToolchainKind
from triage.nightly.compare import change_between, clusters_of
from triage.nightly.result import SCHEMA, Night

STATUSES = {
    "P": "passed",
    "F": "failed",
    "G": "failed",
    "X": "xfail",
    "Y": "xpass",
    "U": "untestable",
}
OLD = Revision("3.9.0", "e" * 40, "2025-11-20")


def nightly_name(day: int) -> str:
    """Return the name of the nightly of a day of January 2026, as `resolve` makes
    it.
    """
    return f"3.10.0rc202601{day:02}"


def failure(name: str, headline: str = "failed to legalize operation 'x'") -> Failure:
    return Failure(name, name, f"{name}:x", headline, phase="flow")


FAILURES = {
    "F": failure("legalize"),
    "X": failure("legalize"),
    "G": failure("segfault", "ended by SIGSEGV"),
    "U": failure("unknown-flag", "unknown command line argument"),
}


def night(day: int, letters: Mapping[str, str], **values: Any) -> Night:
    """Return a night of January 2026 with one letter for each case."""
    tested = {name: letter for name, letter in letters.items() if letter != "-"}
    cases = values.get("cases") or [case_result(*case) for case in tested.items()]
    made = Night(
        schema=SCHEMA,
        toolchain=Revision(nightly_name(day), f"{day:040x}", f"2026-01-{day:02}"),
        baseline=OLD,
        kind=ToolchainKind.NIGHTLY,
        compiler="iree",
        title="IREE",
        started=f"2026-01-{day:02}T02:00:00+00:00",
        cases=cases,
        clusters=clusters_of(cases),
    )
    return replace(made, **values)


def nights(histories: Mapping[str, str]) -> list[Night]:
    """Return a night for each letter of the histories, which are of equal length."""
    rows = zip(*histories.values(), strict=True)
    return [
        night(day, dict(zip(histories, letters, strict=True)))
        for day, letters in enumerate(rows, 1)
    ]


def case_result(
    name: str, letter: str, old: str = "P", *, flaky: bool = False, **values: Any
) -> CaseResult:
    """Return a case with one letter, and another one on the baseline."""
    baseline, result = _result(name, old), _result(name, letter)
    made = CaseResult(
        **vars(replace(result, flaky=flaky)),
        suite="ops",
        compiler="iree",
        target=Target("llvm-cpu"),
        stages=[Stage.COMPILE],
        change=change_between(baseline, result),
        baseline=baseline,
    )
    return replace(made, **values)


def _result(name: str, letter: str) -> ProbeResult:
    return ProbeResult(
        case=name,
        recipe=name.partition("[")[0],
        toolchain=OLD,
        status=Status(STATUSES[letter]),
        stage=None if letter == "U" else Stage.COMPILE,
        failure=FAILURES.get(letter),
        reason="no backend" if letter == "U" else None,
        cause=Cause.FLAG if letter == "U" else None,
        cpu_seconds=1.5 if letter == "P" else 0.0,
    )
