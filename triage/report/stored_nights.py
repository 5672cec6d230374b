"""Convert the record of a night into what is stored of it, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from triage.model.outcome import Status
from triage.nightly.compare import CaseChangeKind
from triage.nights.record import StoredCase, StoredNight
from triage.report.night_record import CaseRecord, NightRecord, ResultRecord, TargetRecord, night_of
from triage.report.shapes import as_json

_LARGEST_FILE = 256 << 10  # bytes of a file that is stored with a night
_LOG_PART = 32 << 10  # bytes at the beginning and at the end of a log that are stored
_FACTS = ("recipe", "suite", "compiler", "summary", "stages")


def stored_night(
    night: NightRecord, folder: Path | None, at: str, inputs: Mapping[str, Path] = MappingProxyType({})
) -> StoredNight:
    """Return what is stored of a night. folder: of its reports, for the files that they name; at: when it began, where the
    night does not say it; inputs: the programs of its cases.
    """
    suites = sorted({case.suite for case in night.cases})
    rest = as_json(replace(night, cases=[case for case in night.cases if not _only_passed(case)], reports={}))
    return StoredNight(
        at=night.started or at,
        suite=", ".join(filter(None, suites)) or night.compiler or "",
        toolchain=night.toolchain,
        baseline=night.baseline,
        partial=night.stopped is not None,
        report=rest,
        results=tuple({case.case: _stored_case(case) for case in night.cases}.values()),
        files=dict(_files(night, folder, inputs)),
    )


def record_in(stored: StoredNight) -> NightRecord:
    """Return the record of a stored night. Cases that only passed are without what the baseline measured."""
    night = night_of(stored.report, f"night {stored.number}")
    listed = {case.case for case in night.cases}
    passed = [_passed_case(result) for result in stored.results if result.case not in listed]
    return replace(night, cases=[*night.cases, *passed])


def _only_passed(case: CaseRecord) -> bool:
    return case.change == CaseChangeKind.PASSING and not (case.warnings or case.bisections or case.pace)


def _stored_case(case: CaseRecord) -> StoredCase:
    facts = {name: value for name in _FACTS if (value := getattr(case, name))}
    if case.target:
        facts["backend"] = case.target.backend
        facts["chip"] = case.target.chip
    failure = case.failure
    return StoredCase(
        case=case.case,
        status=Status(case.status),
        flaky=case.flaky or case.change == CaseChangeKind.FLAKY,
        failure=as_json(failure) if failure else None,
        reason=case.reason,
        facts=facts,
        metrics=case.metrics,
    )


def _passed_case(stored: StoredCase) -> CaseRecord:
    facts = stored.facts
    backend = facts.get("backend")
    return CaseRecord(
        case=stored.case,
        recipe=facts.get("recipe", ""),
        suite=facts.get("suite", ""),
        compiler=facts.get("compiler", ""),
        summary=facts.get("summary", ""),
        stages=list(facts.get("stages", ())),
        target=TargetRecord(backend, facts.get("chip")) if backend else None,
        change=CaseChangeKind.PASSING,
        status=stored.status,
        stage=next(reversed(facts.get("stages", ())), None),
        metrics=dict(stored.metrics),
        baseline_status=Status.PASSED,
        baseline=ResultRecord(status=Status.PASSED),
    )


def _files(night: NightRecord, folder: Path | None, inputs: Mapping[str, Path]) -> Iterator[tuple[str, bytes]]:
    """Yield the texts that a night names: reproducers and their inputs, drafts of issues, pages about the IR, and the output of
    new failures.
    """
    if folder is None:
        return
    for case in dict.fromkeys(cluster.representative for cluster in night.clusters if cluster.reproducer):
        path = inputs.get(case or "")
        if path and path.suffix in (".mlir", ".py") and path.is_file():
            yield input_name(str(case)), _begin_of(path)
    for record in night.cases:
        log = (folder / record.log).resolve() if record.log and record.counts else None
        if log and log.is_relative_to(folder.resolve()) and log.is_file():  # not any file that an imported report names
            yield log_name(record.case), _shortened(log.read_bytes())
    names = [cluster.issue for cluster in night.clusters]
    names += [cluster.attribution.page for cluster in night.clusters if cluster.attribution]
    names += [str(file) for cluster in night.clusters for file in _in_reproducer(cluster.reproducer, folder)]
    for name in dict.fromkeys(filter(None, names)):
        path = _existing(name, folder)
        if path and path.is_file():
            yield name, _begin_of(path)


def input_name(case: str) -> str:
    """Return the name under which the program of a case is stored with a night."""
    return f"input of {case}"


def log_name(case: str) -> str:
    """Return the name under which the output of a case is stored with a night."""
    return f"log of {case}"


def _shortened(content: bytes) -> bytes:
    """Return a log without its middle where it is long."""
    if len(content) <= 2 * _LOG_PART:
        return content
    return content[:_LOG_PART] + b"\n...\n" + content[-_LOG_PART:]


def _begin_of(path: Path) -> bytes:
    """Return a text; of a long one the first lines and a note that says so."""
    size = path.stat().st_size
    with path.open("rb") as file:
        content = file.read(_LARGEST_FILE)
    if size <= _LARGEST_FILE:
        return content
    begin = content[: content.rfind(b"\n") + 1] or content
    note = f"... {len(begin) >> 10} of {size >> 10} KiB; the whole text is in {path.name} of the night's reports"
    return begin + (f"</pre><p>{note}</p>" if path.suffix == ".html" else note).encode() + b"\n"


def _in_reproducer(reproducer: str | None, folder: Path) -> list[Path]:
    root = _existing(reproducer, folder) if reproducer else None
    return [Path(reproducer or "", file.name) for file in sorted(root.iterdir())] if root and root.is_dir() else []


def _existing(name: str, folder: Path) -> Path | None:
    """Return the file of a path in a report: relative to the report, or to the folder in which triage was started."""
    return next((path for path in (folder / name, Path(name)) if path.exists()), None)
