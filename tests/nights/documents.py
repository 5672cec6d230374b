"""Nights written as letters: P passes, F and G fail in two ways, X fails as expected, U is untestable, - has no result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triage.model.outcome import Status
from triage.model.revision import Revision
from triage.report.night_record import CaseRecord, ClusterRecord, NightRecord, ResultRecord, TargetRecord, cluster_id
from triage.report.shapes import FailureShape

STATUSES = {"P": "passed", "F": "failed", "G": "failed", "X": "xfail", "U": "untestable"}
OLD = Revision("3.9.0", "e" * 40, "2025-11-20")


def failure(name: str, headline: str = "failed to legalize operation 'x'") -> FailureShape:
    return FailureShape(name, name, f"{name}:x", headline, "compile", "flow", None, None, {})


FAILURES = {"F": failure("legalize"), "X": failure("legalize"), "G": failure("segfault", "ended by SIGSEGV")}


def night(day: int, letters: Mapping[str, str], **values: Any) -> NightRecord:
    """Return a night of January 2026 with one letter for each case."""
    cases = [case_record(name, letter) for name, letter in letters.items() if letter != "-"]
    new = [case for case in cases if case.change == "regressed"]
    clusters = [
        ClusterRecord(
            signature=signature, id=cluster_id(signature), cases=[case.case for case in new if signature_of(case) == signature]
        )
        for signature in dict.fromkeys(signature_of(case) for case in new)
    ]
    known = {
        "toolchain": Revision(f"nightly:2026-01-{day:02}", f"{day:040x}", f"2026-01-{day:02}"),
        "baseline": OLD,
        "cases": cases,
    }
    return NightRecord(**{"started": f"2026-01-{day:02}T02:00:00+00:00", "clusters": clusters, **known, **values})


def nights(histories: Mapping[str, str]) -> list[NightRecord]:
    """Return a night for each letter of the histories, which are of equal length."""
    count = len(next(iter(histories.values())))
    return [night(at + 1, {name: letters[at] for name, letters in histories.items()}) for at in range(count)]


def case_record(name: str, letter: str, **values: Any) -> CaseRecord:
    status = Status(STATUSES[letter])
    changes = {"P": "passing", "F": "regressed", "G": "regressed", "X": "known", "U": "untestable"}
    of_case = FAILURES.get(letter)
    known: dict[str, Any] = {
        "recipe": name.partition("[")[0],
        "suite": "ops",
        "compiler": "iree",
        "target": TargetRecord("llvm-cpu"),
        "stages": ["compile"],
        "change": changes[letter],
        "status": status,
        "stage": None if letter == "U" else "compile",
        "failure": of_case,
        "reason": "no backend" if letter == "U" else None,
        "baseline_status": Status.PASSED,
        "baseline": ResultRecord(status=Status.PASSED),
        "metrics": {"cpu_seconds": 1.5} if letter == "P" else {},
        "cluster": cluster_id(of_case.signature) if of_case else None,
    }
    return CaseRecord(case=name, **{**known, **values})


def signature_of(case: CaseRecord) -> str:
    assert case.failure
    return case.failure.signature
