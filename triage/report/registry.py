"""The report formats and what each needs from a command's answer. A new format is one module and one line in FORMATS."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

from triage.model.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from triage.report.markdown import Markdown
    from triage.report.shapes import Shape


class Report(ABC):
    """A command's answer, independent of the format it is written in. Every report has JSON and text."""

    @abstractmethod
    def shape(self) -> Shape:
        """Return the JSON value as a typed dataclass."""

    @abstractmethod
    def blocks(self) -> Iterable[RenderableType]:
        """Return what a terminal shows, as rich renderables."""


class MarkdownReport(Report):
    """A report that can be pasted into an issue or a job summary."""

    @abstractmethod
    def markdown(self) -> Markdown:
        """Return GitHub-flavoured Markdown with compiler output escaped."""


class IssueReport(Report):
    """A report that can be filed as an issue."""

    @abstractmethod
    def issue(self) -> str:
        """Return the text for the form of the compiler's project, with compiler output escaped."""


class HtmlReport(Report):
    """A report that has a page of its own."""

    @abstractmethod
    def html(self) -> str:
        """Return a complete HTML document."""


class SarifReport(Report):
    """A report that consists of findings at source locations."""

    @abstractmethod
    def sarif(self) -> Mapping[str, Any]:
        """Return a SARIF 2.1.0 log."""


@dataclass(frozen=True, slots=True)
class SuiteCase:
    """One case of a test report. `failed` holds message, class and text of a failure, `skipped` a reason, `output` text of a
    case that did not fail.
    """

    name: str
    group: str
    seconds: float
    failed: tuple[str, str, str] | None = None
    skipped: str | None = None
    output: str | None = None


class SuiteReport(Report):
    """A report that reads as a test suite: each case passed, failed or was skipped."""

    @abstractmethod
    def suite(self) -> tuple[str, Iterable[SuiteCase]]:
        """Return the suite's title and its cases."""

    def properties(self) -> Mapping[str, str]:
        """Return the suite's properties by name."""
        return {}


R = TypeVar("R", bound=Report)


class ReportFormat(ABC, Generic[R]):
    """Writes every report of one kind in one format."""

    @abstractmethod
    def render(self, report: R) -> str:
        """Return the whole report as text that ends with a newline."""

    def write(self, report: R, stream: IO[str]) -> None:
        """Write the report to a stream."""
        stream.write(self.render(report))


@dataclass(frozen=True, slots=True)
class FormatEntry:
    """A registered format: the kind of report it renders, and where its class is. The module is imported on first use."""

    name: str
    renders: type[Any]
    module: str
    class_name: str

    def load(self) -> ReportFormat[Any]:
        """Import the format's module and create the format."""
        created: ReportFormat[Any] = getattr(import_module(self.module), self.class_name)()
        return created


FORMATS: tuple[FormatEntry, ...] = (
    FormatEntry("text", Report, "triage.report.formats", "TextFormat"),
    FormatEntry("json", Report, "triage.report.formats", "JsonFormat"),
    FormatEntry("markdown", MarkdownReport, "triage.report.formats", "MarkdownFormat"),
    FormatEntry("github", IssueReport, "triage.report.formats", "GitHubFormat"),
    FormatEntry("html", HtmlReport, "triage.report.formats", "HtmlFormat"),
    FormatEntry("junit", SuiteReport, "triage.report.junit", "JUnitFormat"),
    FormatEntry("sarif", SarifReport, "triage.report.formats", "SarifFormat"),
)


def format_names(kind: type[Report]) -> tuple[str, ...]:
    """Return the names of the formats that can render this kind of report."""
    return tuple(entry.name for entry in FORMATS if issubclass(kind, entry.renders))


def format_for(kind: type[Report], name: str) -> ReportFormat[Any]:
    """Return the named format. Raises BadInput when it cannot render this kind of report."""
    entry = next((entry for entry in FORMATS if entry.name == name and issubclass(kind, entry.renders)), None)
    if entry is None:
        raise BadInput(f"--format {name} is not available for this command; choose from {', '.join(format_names(kind))}")
    return entry.load()


def write_report(report: Report, name: str) -> None:
    """Write a report to stdout in the named format. Raises BadInput when the format cannot render it."""
    format_for(type(report), name).write(report, sys.stdout)
