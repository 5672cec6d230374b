"""A report format as someone would add it: one class, and one entry of the registry."""

from __future__ import annotations

from triage.report.registry import FormatEntry, Report, ReportFormat


class LinesFormat(ReportFormat[Report]):
    """The name of a report's shape in one line."""

    def render(self, report: Report) -> str:
        return f"{type(report.shape()).__name__}\n"


ENTRY = FormatEntry("lines", Report, "tests.report.lines_format", "LinesFormat")
