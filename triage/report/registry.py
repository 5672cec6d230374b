"""The report formats and what each needs from a command's answer. A new format is one module and one line in FORMATS."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from triage.model.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from triage.report.document import Document
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


class DocumentReport(MarkdownReport, HtmlReport):
    """A result with its document: text, JSON, Markdown and HTML come from these two alone.

    A command's report is a subclass that says how a result becomes a document.
    """

    result: Any
    """The frozen dataclass that a search returned; its fields are the JSON keys, see `model.json_form`."""

    @abstractmethod
    def document(self) -> Document:
        """Return what is shown of the result."""

    def shape(self) -> Any:
        return self.result

    def blocks(self) -> Iterable[RenderableType]:
        """Return the document for a terminal."""
        from triage.report.terminal import terminal

        return terminal(self.document())

    def markdown(self) -> Markdown:
        """Return the document as Markdown."""
        from triage.report.document import Heading
        from triage.report.markdown import document_markdown

        document = self.document()
        return document_markdown([Heading(document.title, 1), *document.blocks])

    def html(self) -> str:
        """Return the document as a page."""
        from triage.report.html import page

        return page(self.document())


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


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """A registered format: the kind of report it renders, and the function (`module:name`, imported on first use) that returns
    a report as text with a newline at its end.
    """

    name: str
    renders: type[Any]
    function: str


FORMATS: tuple[ReportFormat, ...] = (
    ReportFormat("text", Report, "triage.report.formats:text"),
    ReportFormat("json", Report, "triage.report.formats:json_text"),
    ReportFormat("markdown", MarkdownReport, "triage.report.formats:markdown"),
    ReportFormat("github", IssueReport, "triage.report.formats:github"),
    ReportFormat("html", HtmlReport, "triage.report.formats:html"),
    ReportFormat("junit", SuiteReport, "triage.report.junit:junit"),
    ReportFormat("sarif", SarifReport, "triage.report.formats:sarif"),
)


def format_names(kind: type[Report]) -> tuple[str, ...]:
    """Return the names of the formats that can render this kind of report."""
    return tuple(entry.name for entry in FORMATS if issubclass(kind, entry.renders))


def rendered(report: Report, name: str) -> str:
    """Return a report in the named format. Raises BadInput when the format cannot render this kind of report."""
    entry = next((entry for entry in FORMATS if entry.name == name and isinstance(report, entry.renders)), None)
    if entry is None:
        choices = ", ".join(format_names(type(report)))
        raise BadInput(f"--format {name} is not available for this command; choose from {choices}")
    return str(resolve_name(entry.function)(report))


def write_report(report: Report, name: str) -> None:
    """Write a report to stdout: text in the colours and the width of the terminal, others as `rendered` returns them."""
    if name == "text":
        from triage.report.formats import write_blocks  # slow to import

        write_blocks(report.blocks(), sys.stdout)
    else:
        sys.stdout.write(rendered(report, name))
