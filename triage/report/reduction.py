"""Report of `triage reduce`: text and JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from triage.model.revision import Revision
from triage.reduce.reproducer import Reproducer, span_around
from triage.reduce.result import NotReproducible, ProgramSize, SettingChange
from triage.report.elements import facts_table, failure_text, numbers_text, outcome_text, revision_text
from triage.report.registry import IssueReport
from triage.report.reproducer import (
    ISSUE,
    EvidenceShape,
    SizeChangeShape,
    evidence_shape,
    reproducer_files,
    size_change,
    span_text,
)
from triage.report.shapes import FailureShape, ProbeShape, Shape, failure_shape, probe_shape

_SHOWN = 40  # lines of the program; the folder has all of them
_NO_SIZE = SizeChangeShape()
_MOST_TRIED = 12  # probes that are shown when nothing was reduced


@dataclass(frozen=True)
class ReductionShape(Shape):
    """JSON of `triage reduce`. Sizes and the program are null, and `reason` says why, when nothing was reduced."""

    status: str
    case: str
    reason: str | None = None
    signature: str | None = None
    failure: FailureShape | None = None
    operations: SizeChangeShape = _NO_SIZE
    lines: SizeChangeShape = _NO_SIZE
    bytes: SizeChangeShape = _NO_SIZE
    oracle_calls: int = 0
    seconds: float = 0.0
    reproducer: str | None = None
    bad: Revision | None = None
    good: Revision | None = None
    cached: int = 0
    invalid: int = 0
    compile_seconds: float = 0.0
    program: str | None = None
    evidence: tuple[EvidenceShape, ...] = ()
    others: tuple[FailureShape, ...] = ()
    notes: tuple[str, ...] = ()
    changes: tuple[SettingChange, ...] = ()
    tried: tuple[ProbeShape, ...] = ()


@dataclass(frozen=True)
class ReductionReport(IssueReport):
    """A reduction with its folder."""

    result: Reproducer | NotReproducible
    folder: Path | None = None

    def shape(self) -> ReductionShape:
        result = self.result
        if isinstance(result, NotReproducible):
            return ReductionShape(
                status="not-reproducible",
                case=result.case.name,
                reason=result.reason,
                tried=tuple(probe_shape(probe) for probe in result.tried),
            )
        reduced = result.reduced
        return ReductionShape(
            status="reduced",
            case=reduced.case.name,
            signature=result.failure.signature,
            failure=failure_shape(result.failure),
            operations=size_change(reduced, "operations"),
            lines=size_change(reduced, "lines"),
            bytes=size_change(reduced, "bytes"),
            oracle_calls=reduced.calls,
            seconds=round(reduced.seconds, 2),
            reproducer=str(self.folder) if self.folder else None,
            bad=result.bad.revision,
            good=result.good,
            cached=reduced.cached,
            invalid=reduced.invalid,
            compile_seconds=round(reduced.compile_seconds, 2),
            program=result.text,
            evidence=tuple(evidence_shape(probe) for probe in result.probes),
            others=tuple(failure_shape(other) for other in reduced.others),
            notes=reduced.notes,
            changes=reduced.changes,
        )

    def issue(self) -> str:
        if isinstance(self.result, NotReproducible):
            return f"{self.result.case.name} was not reduced: {self.result.reason}"
        return str(reproducer_files(self.result)[ISSUE])

    def blocks(self) -> Iterable[RenderableType]:
        if isinstance(self.result, NotReproducible):
            yield Text.assemble((self.result.case.name, "bold"), ": ", ("not reduced", "yellow"))
            tried = [
                ("tried", Text.assemble(f"{probe.revision.name}: ", outcome_text(probe.outcome)))
                for probe in self.result.tried[:_MOST_TRIED]
            ]
            yield facts_table([("reason", self.result.reason), *tried])
            return
        reduced = self.result.reduced
        lines = self.result.text.rstrip().splitlines()
        more = [f"... {len(lines) - _SHOWN} more lines"] if len(lines) > _SHOWN else []
        yield Text.assemble((reduced.case.name, "bold"), " is now ", (str(reduced.after), "bold"), "\n")
        # Not in a padding, which would cut lines that are longer than the width of a pipe.
        yield Text("\n".join(f"  {line}" for line in [*lines[:_SHOWN], *more]) + "\n")
        yield facts_table(self._facts(self.result))

    def _facts(self, result: Reproducer) -> Iterable[tuple[str, str]]:
        reduced, failure = result.reduced, result.failure
        yield "failure", failure_text(failure, 400)
        if failure.details:
            yield "details", numbers_text(failure)
        yield "signature", failure.signature
        yield "bad", revision_text(result.bad.revision)
        yield "versions", span_text(span_around(result.probes, result.bad, failure.signature))
        yield "size", f"{_size(reduced.before)} -> {_size(reduced.after)}"
        yield from (("changed", str(change)) for change in reduced.changes)
        yield from (("note", note) for note in reduced.notes)
        yield from (("other failure", failure_text(other)) for other in reduced.others[:3])
        cached = f", {reduced.cached} cache hits" if reduced.cached else ""
        yield "cost", f"{reduced.calls} compiles in {reduced.compile_seconds:.1f} s{cached}; {reduced.seconds:.1f} s in total"
        if self.folder:
            yield "written", str(self.folder)


def _size(size: ProgramSize) -> str:
    lines = [] if size.unit == "line" else [f"{size.lines} lines"]
    return ", ".join([str(size), *lines, f"{size.bytes} bytes"])
