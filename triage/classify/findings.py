"""What was found in one output, put together: the same failure counted once, consequences under their cause, order."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from triage.classify.passes import FailingPass
from triage.classify.rule import Rule, detail
from triage.classify.signature import normalised, signature
from triage.classify.stack_dump import Stack, signal_name
from triage.model.outcome import Detail, Failure

LIMIT = 500
"""Different signatures that are kept of one output; a log that holds more is broken as a whole."""


@dataclass(slots=True)
class Finding:
    """One place in the output that a rule matched. `line` counts from 1; `remark` findings never fail a compile."""

    rule: Rule
    headline: str
    line: int
    location: str | None = None
    captures: dict[str, str] = field(default_factory=dict)
    stack: Stack | None = None
    failing_pass: FailingPass | None = None
    remark: bool = False

    @property
    def signature(self) -> str:
        """From the rule's identity; `a|b` in it is the first of them that is known."""
        parts = []
        for alternatives in self.rule.identity:
            names = alternatives.split("|")
            values = (self._identity(name, alone=len(names) == 1) for name in names)
            parts.append(next((value for value in values if value), ""))
        return signature(self.rule.name, parts)

    def _identity(self, name: str, *, alone: bool) -> str:
        if name == "message":
            return normalised(self.captures.get("message") or (self.headline if alone else ""))
        if name == "frames":
            return " < ".join(self.stack.meaningful) if self.stack else ""
        return " ".join(self.captures.get(name, "").split())[:160]

    @property
    def details(self) -> dict[str, Detail]:
        """The captures, integers as integers."""
        found = {name: detail(value) for name, value in self.captures.items() if name != "signal"}
        if (name := signal_name(self.captures.get("signal", ""))) is not None:
            found["signal"] = name
        if self.stack and self.stack.meaningful:
            found["frames"] = " < ".join(self.stack.meaningful)
        return found

    @property
    def place(self) -> tuple[str, int, int]:
        """Orders findings by source location; those without one come last."""
        match = re.fullmatch(r"(.*?):(\d+)(?::(\d+))?", self.location or "")
        return (match[1], int(match[2]), int(match[3] or 0)) if match else ("\U0010ffff", 0, 0)


@dataclass(slots=True)
class _Record:
    finding: Finding
    line: int
    count: int = 1


class Findings:
    """Collects findings and turns them into failures."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._without_pass: list[Finding] = []
        self.first_pass: FailingPass | None = None

    def add(self, finding: Finding) -> str:
        """Count it; of several places with one signature the one first in the source speaks for all.

        Returns a key for `again`.
        """
        if "signal" in finding.captures:
            finding.captures["signal"] = signal_name(finding.captures["signal"]) or finding.captures["signal"]
        key = ("remark " if finding.remark else "") + finding.signature
        record = self._records.get(key)
        if record is None:
            if len(self._records) < LIMIT:
                self._records[key] = _Record(finding, finding.line)
        else:
            record.count += 1
            record.line = min(record.line, finding.line)
            if finding.place < record.finding.place:
                finding.failing_pass = finding.failing_pass or record.finding.failing_pass
                record.finding = finding
        if finding.failing_pass is None and len(self._without_pass) < LIMIT:
            self._without_pass.append(finding)
        return key

    def again(self, key: str) -> None:
        """The very same line once more, further down."""
        if record := self._records.get(key):
            record.count += 1

    def failed(self, found: FailingPass) -> None:
        """A pass was said to have failed: it is the pass of what was reported since the last one."""
        self.first_pass = self.first_pass or found
        for finding in self._without_pass:
            finding.failing_pass = found
        self._without_pass.clear()

    def failures(self) -> tuple[Failure, ...]:
        """Root causes first; consequences only where there is nothing else, and then the nearest one."""
        records = [record for record in self._records.values() if not record.finding.remark]
        roots = [record for record in records if not record.finding.rule.consequence]
        # What names nothing is taken for the named failure of the same class, such as a stack without symbols.
        named = {record.finding.rule.name for record in roots if not _bare(record)}
        roots = [record for record in roots if not (_bare(record) and record.finding.rule.name in named)]
        if roots:
            explained = tuple((prefix, record) for record in roots for prefix in record.finding.rule.explains)
            records = [
                record
                for record in roots
                if not any(by is not record and record.finding.signature.startswith(prefix) for prefix, by in explained)
            ] or roots
        else:
            records = sorted(records, key=lambda record: (_telling(record), _order(record)))[:1]
        return tuple(_failure(record) for record in sorted(records, key=_order))

    def remarks(self) -> tuple[Failure, ...]:
        """What was only remarked."""
        records = [record for record in self._records.values() if record.finding.remark]
        return tuple(_failure(record) for record in sorted(records, key=_order))


def one(finding: Finding) -> Failure:
    """A finding by itself as a failure."""
    return _failure(_Record(finding, finding.line))


def _order(record: _Record) -> tuple[int, tuple[str, int, int], str, int]:
    finding = record.finding
    return finding.rule.rank, finding.place, finding.signature, record.line


def _telling(record: _Record) -> tuple[int, bool]:
    """Consequences of one rank: one that names something before one that does not."""
    return record.finding.rule.rank, _bare(record)


def _bare(record: _Record) -> bool:
    return record.finding.signature == record.finding.rule.name


def _failure(record: _Record) -> Failure:
    finding = record.finding
    ran = finding.failing_pass
    name = ran.name if ran else (finding.stack.failing_pass if finding.stack else None)
    phase = (ran.phase if ran else FailingPass(name).phase if name else None) or finding.rule.phase
    return Failure(
        failure_class=finding.rule.name,
        family=finding.rule.family,
        signature=finding.signature,
        headline=finding.headline,
        phase=phase,
        failing_pass=name,
        location=finding.location,
        details=finding.details,
        line=record.line,
        count=record.count,
    )
