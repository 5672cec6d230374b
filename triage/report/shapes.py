"""The JSON that scripts rely on: plain values, built in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from triage.bisect.ends import unexpected
from triage.bisect.history import History, plain_status
from triage.bisect.history import StatusChange as HistoryChange
from triage.bisect.result import Bisection, CommitNote
from triage.execution.judge import status_of
from triage.model.outcome import Compiled, Failed, Failure, Probe, Untestable
from triage.model.revision import Revision
from triage.nightly.compare import CaseChangeKind, Example, Night, Pair
from triage.reduce.state import NotReproducible

Json = dict[str, Any]

if TYPE_CHECKING:  # brings numerics that no other report needs
    from triage.bisect.ranking import Suspect


def revision_json(revision: Revision | None) -> Json | None:
    """A revision: name, commit, date, subject."""
    if revision is None:
        return None
    return {"name": revision.name, "commit": revision.commit, "date": revision.date, "subject": revision.subject}


def failure_json(failure: Failure | None) -> Json | None:
    """A failure with its class, identity, captures."""
    if failure is None:
        return None
    return {
        "class": failure.failure_class,
        "family": failure.family,
        "signature": failure.signature,
        "headline": failure.headline,
        "phase": failure.phase,
        "pass": failure.failing_pass,
        "location": failure.location,
        "details": dict(failure.details),
    }


def probe_json(probe: Probe) -> Json:
    """One result of `triage run`."""
    outcome = probe.outcome
    failure = None if isinstance(outcome, Compiled) else outcome.failure
    return {
        "recipe": probe.case.recipe,
        "case": probe.case.name,
        "toolchain": revision_json(probe.revision),
        "status": status_of(probe).value,
        "failure": failure_json(failure),
        "reason": outcome.reason if isinstance(outcome, Untestable) else None,
        "seconds": probe.measured.seconds,
        "cpu_seconds": probe.measured.cpu_seconds,
        "peak_rss_mb": probe.measured.peak_rss_mb,
        "metrics": dict(probe.measured.metrics),
        "warnings": [failure_json(one) for one in outcome.warnings] if isinstance(outcome, Compiled) else [],
        "flaky": isinstance(outcome, Failed) and outcome.flaky,
        "cached": probe.cached,
    }


def run_json(probes: Iterable[Probe]) -> Json:
    """All results of `triage run`."""
    return {"results": [probe_json(probe) for probe in probes]}


def classify_json(logs: Mapping[str, Sequence[Failure]]) -> Json:
    """The failures of each log, the root cause first."""
    return {
        "logs": [
            {
                "log": name,
                "failures": [{**(failure_json(one) or {}), "line": one.line, "count": one.count} for one in failures],
            }
            for name, failures in logs.items()
        ]
    }


def history_json(histories: Iterable[History]) -> Json:
    """Each case's statuses and changes. `statuses` and `failures` have the versions that were asked."""
    return {
        "cases": [
            {
                "case": one.case.name,
                "recipe": one.case.recipe,
                "changes": [_change_json(change) for change in one.changes],
                "failure_changes": [_change_json(change) for change in one.failure_changes],
                "statuses": {probe.revision.name: plain_status(probe.outcome) for probe in one.probes},
                "failures": {
                    probe.revision.name: failure_json(probe.outcome.failure)
                    for probe in one.probes
                    if not isinstance(probe.outcome, Compiled)
                },
                "reasons": {
                    probe.revision.name: probe.outcome.reason for probe in one.probes if isinstance(probe.outcome, Untestable)
                },
                "compiles": one.compiles,
            }
            for one in histories
        ]
    }


def _change_json(change: HistoryChange) -> Json:
    return {
        "before": revision_json(change.before.revision),
        "after": revision_json(change.after.revision),
        "from": plain_status(change.before.outcome),
        "to": plain_status(change.after.outcome),
        "from_failure": _failure_of(change.before),
        "to_failure": _failure_of(change.after),
    }


def _failure_of(probe: Probe) -> Json | None:
    return None if isinstance(probe.outcome, Compiled) else failure_json(probe.outcome.failure)


def bisection_json(found: Bisection) -> Json:
    """The answer of `triage bisect`."""
    return {
        "case": found.case.name,
        "kind": found.kind.value,
        "status": found.answer.value,
        "before": revision_json(found.before),
        "after": revision_json(found.after),
        "suspects": [
            {**(revision_json(one) or {}), "probability": chance, **_note_json(found.notes.get(one.commit or ""))}
            for one, chance in found.suspects
        ],
        "confirmed": found.confirmed,
        "failure": failure_json(found.failure),
        "probes": found.probes,
        "rounds": found.rounds,
        "cached": found.cached,
        "other_failures": [
            {"revision": revision_json(one), "failure": failure_json(failure)} for one, failure in found.other_failures
        ],
        "untestable": [{"revision": revision_json(one), "reason": reason} for one, reason in found.untestable],
        "reason": found.reason,
        "evidence": found.evidence,
        "hint": unexpected(found.case, found.failure) if found.failure else None,
    }


def _note_json(note: CommitNote | None) -> Json:
    if note is None:
        return {}
    pinned = dict(zip(("path", "before", "after"), note.pinned, strict=True)) if note.pinned else None
    return {
        "pull_request": note.pull_request,
        "url": note.url,
        "files": list(note.files),
        "pin_moved": pinned,
        "reasons": list(note.reasons),
    }


def suspects_json(suspects: Iterable[Suspect], failure: Failure | None, evidence: str | None = None) -> Json:
    """The answer of `triage suspects`."""
    return {
        "failure": failure_json(failure),
        "evidence": evidence,
        "suspects": [
            {
                "name": one.commit.sha[:10],
                "commit": one.commit.sha,
                "date": one.commit.date[:10],
                "subject": one.commit.subject,
                "probability": round(one.probability, 5),
                "pull_request": one.pull_request,
                "url": one.url,
                "reasons": [reason.text for reason in one.reasons],
            }
            for one in suspects
        ],
    }


def night_json(night: Night, reports: Mapping[str, str]) -> Json:
    """The answer of `triage nightly`; `reports` maps a format to the file that was written."""
    return {
        "toolchain": revision_json(night.toolchain),
        "baseline": revision_json(night.baseline),
        "regressed": [
            {**_pair_json(pair), "example": _example_json(night.example_of(pair))}
            for pair in night.of(CaseChangeKind.REGRESSED)
        ],
        "fixed": [_pair_json(pair) for pair in night.of(CaseChangeKind.FIXED)],
        "changed": [_pair_json(pair) for pair in night.of(CaseChangeKind.CHANGED)],
        "known": [_pair_json(pair) for pair in night.of(CaseChangeKind.KNOWN)],
        "slower": [{"case": pair.name, "times": round(pair.slower or 0, 2)} for pair in night.slower],
        "unchanged": len(night.of(CaseChangeKind.UNCHANGED)),
        "untestable": len(night.of(CaseChangeKind.UNTESTABLE)),
        "not_tested": [
            {"case": pair.name, "reason": next((o.reason for o in _outcomes(pair) if isinstance(o, Untestable)), None)}
            for pair in night.of(CaseChangeKind.UNTESTABLE)
        ],
        "clusters": [{"signature": signature, "cases": list(cases)} for signature, cases in night.clusters],
        "compiles": night.compiles,
        "cached": night.cached,
        "seconds": round(night.seconds, 2),
        "reports": dict(reports),
    }


def _example_json(one: Example | None) -> Json | None:
    if one is None:
        return None
    if isinstance(one.found, NotReproducible):
        return {"case": one.found.case.name, "reproducer": None, "operations": None, "reason": one.found.reason}
    return {
        "case": one.found.case.name,
        "reproducer": str(one.folder),
        "operations": one.found.after.operations,
        "reason": None,
    }


def _outcomes(pair: Pair) -> tuple[object, object]:
    return pair.probe.outcome, pair.baseline.outcome


def _pair_json(pair: Pair) -> Json:
    return {
        **probe_json(pair.probe),
        "failure": failure_json(pair.failure),
        "baseline": probe_json(pair.baseline),
        "bisections": [bisection_json(one) for one in pair.bisections],
    }
