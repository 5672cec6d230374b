"""A document: the small tree of blocks that every result becomes once, and that each
renderer prints in its own way.

Builders write plain text. The renderers (`terminal`, `markup`) do all
escaping, so that text from a compiler, a file name or a commit means nothing but its
characters. A new format of results is one module and one line in FORMATS.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal, TypeVar

from triage.model.fields import as_json
from triage.model.outcome import ProbeResult, Status
from triage.report.printable import visible

if TYPE_CHECKING:
    from junitparser import TestCase

FORMATS: Mapping[str, str] = {
    "text": "triage.report.terminal:text",
    "json": "triage.report.document:json_text",
    "markdown": "triage.report.markup:markdown_text",
    "html": "triage.report.markup:html_text",
}
"""The function, imported on first use, that returns a result and its document as text.
Some results have JUnit XML besides.
"""
VERBOSE = "verbose"
"""Instead of `text`: shows what the terminal otherwise folds away."""
_LONG = 1 << 18  # characters of JSON

R = TypeVar("R")
Style = Literal["plain", "good", "bad", "warning", "dim", "strong", "code"]


@dataclass(frozen=True)
class Span:
    """A piece of text with a meaning, which each renderer shows in its own colours."""

    text: str
    style: Style = "plain"
    url: str | None = None
    """The address behind the text: a web page, or a file next to the report."""


Phrase = list[str | Span]
"""The pieces of a text."""
Inline = str | Span | Sequence[str | Span]
Fact = tuple[str, Inline | None]
"""A name, and what is known of it."""
TableRows = list[list[Inline]]


@dataclass(frozen=True)
class Heading:
    """A heading of the first, second or third level."""

    text: Inline
    level: int = 2


@dataclass(frozen=True)
class Bullets:
    """A list of short points."""

    items: Sequence[Inline]


@dataclass(frozen=True)
class Facts:
    """Names and what is known of each. An empty name continues the row above it."""

    rows: Sequence[tuple[str, Inline]]


@dataclass(frozen=True)
class Table:
    """A table. Columns in which every cell is empty are not shown."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Inline]]


@dataclass(frozen=True)
class Code:
    """Text that keeps its lines: a program, a command, compiler output."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Details:
    """Blocks that a page folds under a summary. A terminal shows only the summary,
    and the blocks with --verbose.
    """

    summary: str
    blocks: Sequence[Block]


Block = Inline | Heading | Bullets | Facts | Table | Code | Details
"""A part of a document. A text is a paragraph."""


@dataclass(frozen=True)
class Document:
    """A title and blocks. The terminal leaves the title out, because the command that
    was typed says it.
    """

    title: str
    blocks: Sequence[Block]


def spans(text: Inline) -> tuple[Span, ...]:
    """Return an inline text as spans."""
    parts: Sequence[str | Span] = [text] if isinstance(text, str | Span) else text
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def facts(rows: Iterable[Fact]) -> Facts:
    """Return names and what is known of each, without those of which nothing is."""
    return Facts([(name, text) for name, text in rows if text])


def plain_text(text: Inline) -> str:
    """Return the characters of an inline text."""
    return "".join(span.text for span in spans(text))


def shown_columns(table: Table) -> list[int]:
    """Return the positions of the columns that have something to show."""
    return [
        number
        for number in range(len(table.columns))
        if any(plain_text(row[number]).strip() for row in table.rows)
    ]


def json_text(result: object, document: Document) -> str:  # noqa: ARG001 - a format gets both
    """Return a result as JSON, indented unless it is long, with CI workflow commands in
    texts escaped.
    """
    data = as_json(result)
    text = json.dumps(data, allow_nan=False)
    if len(text) < _LONG:  # what is read by people; indenting takes ten times as long
        text = json.dumps(data, indent=2)
    return text.replace("##[", "##\\u005b")


def rendered(
    name: str, result: R, document: Callable[[R], Document], **more: Callable[[R], str]
) -> str:
    """Return a result in the named format, with a line end. more: formats that only
    this result has.
    """
    if name in more:
        text = more[name](result)
    else:
        text = resolve_name(FORMATS[name])(result, document(result))
    return visible(text).rstrip("\n") + "\n"


def write_report(
    name: str, result: R, document: Callable[[R], Document], **more: Callable[[R], str]
) -> None:
    """Write a result to stdout: text in the colours and the width of the terminal,
    others as `rendered` returns them.
    """
    if name in ("text", VERBOSE):
        from triage.report.terminal import write  # slow to import

        write(document(result), sys.stdout, details=name == VERBOSE)
    else:
        sys.stdout.write(rendered(name, result, document, **more))


def junit_result(
    result: ProbeResult, name: str, *, is_failure: bool, strict: bool, text: str = ""
) -> TestCase:
    """Return a result as a case of a JUnit report.

    is_failure: nobody expects the failure; strict: an unexpected pass is a failure;
    text: what is known of the failure.
    """
    failure = result.failure
    failed = None
    skipped = None
    if failure and is_failure:
        signature = f"signature: {failure.signature}\n{text}".rstrip()
        failed = (failure.headline, failure.failure_class, signature)
    elif result.status is Status.XPASS and strict:
        text = "it passes although its recipe expects a failure"
        failed = (text, "unexpected-pass", text)
    elif result.reason is not None:
        skipped = result.reason
    elif failure:
        skipped = f"expected: {failure.headline}"
    return junit_case(name, result.recipe, result.seconds, failed, skipped)


def junit_case(
    name: str,
    group: str,
    seconds: float = 0.0,
    failed: tuple[str, str, str] | None = None,
    skipped: str | None = None,
) -> TestCase:
    """Return a case of a JUnit report. failed: message, class and text of its failure;
    skipped: why it is skipped.
    """
    from junitparser import Failure, Skipped, TestCase  # slow to import

    test = TestCase(visible(name), classname=visible(group), time=seconds)
    if failed:
        message, failure_class, text = map(visible, failed)
        failure = Failure(message, failure_class)
        failure.text = text
        test.result = [failure]
    elif skipped is not None:
        test.result = [Skipped(visible(skipped))]
    return test


def junit_text(title: str, cases: list[TestCase]) -> str:
    """Return one JUnit suite, without the characters that XML cannot hold."""
    from junitparser import JUnitXml, TestSuite  # slow to import

    suite = TestSuite(visible(title))
    suite.add_testcases(cases)  # counts all of them once
    document = JUnitXml("triage")
    document.add_testsuite(suite)
    return bytes(document.tostring()).decode("utf-8")  # type: ignore[no-untyped-call]
