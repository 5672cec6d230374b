"""A report format as someone would add it: one function, and one entry of the registry."""

from __future__ import annotations

from triage.report.registry import Report, ReportFormat


def lines(report: Report) -> str:
    """The name of a report's shape in one line."""
    return f"{type(report.shape()).__name__}\n"


ENTRY = ReportFormat("lines", Report, "tests.report.lines_format:lines")
