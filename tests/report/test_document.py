"""Documents: every block in every renderer, with texts that try to be more than text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from io import StringIO

import pytest

from triage.report.document import Bullets, Code, Details, Document, Facts, Heading, Paragraph, Span, Table
from triage.report.formats import write_blocks
from triage.report.registry import DocumentReport, rendered

HOSTILE = '<script>alert(1)</script> @someone fixes #12 [x](http://evil) `code` | cell \x1b[2J\u202e </pre> "q"'


@dataclass(frozen=True)
class Answer:
    """A result with a key that is a keyword."""

    text: str
    class_: str = "kind"


@dataclass(frozen=True)
class AnswerReport(DocumentReport):
    """Every kind of block, with the result's text in each place."""

    result: Answer

    def document(self) -> Document:
        text = self.result.text
        blocks = [Heading(text), Paragraph(text), Bullets([text]), Facts([(text, text)]), Code(text, "mlir")]
        table = Table(
            ["a", "empty", "b"], [[text, "", Span(text, "code")], [Span(text, "bad"), "", Span(text, url="javascript:x")]]
        )
        return Document(text, [*blocks, table, Details(text, [Paragraph(Span(text, url="https://example.org/a"))])])


class Reader(HTMLParser):
    """Collects the tags and the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]


def test_a_page_shows_text_and_runs_nothing() -> None:
    reader = Reader()
    reader.feed(rendered(AnswerReport(Answer(HOSTILE)), "html"))
    assert not reader.tags & {"script", "img", "iframe"}
    assert reader.links == ["https://example.org/a"]
    assert {"h1", "h2", "p", "ul", "table", "pre", "details", "code"} <= reader.tags


def test_markdown_keeps_text_from_being_more() -> None:
    shown = rendered(AnswerReport(Answer(HOSTILE)), "markdown")
    outside = re.sub(r"(?s)```.*?```|<summary>.*?</summary>", "", shown)
    assert not re.search(r"@(?=\w)|(?<!&)#(?=\d)", re.sub(r"(?s)`.*?`", "", shown[shown.index("<summary>") :]))
    outside = re.sub(r"``.*?``|(?<!\\)`[^`\n]*`", "", outside)
    assert not re.search(r"@(?=\w)|(?<!&)#(?=\d)|(?<!\\)<script|(?<!\\)\]\((?!https://example\.org)", outside)


@pytest.mark.parametrize("form", ["markdown", "html", "text", "json"])
def test_no_form_passes_control_characters_on(form: str) -> None:
    shown = rendered(AnswerReport(Answer(HOSTILE)), form)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", shown)


def test_an_empty_column_is_left_out_and_the_key_is_the_keyword() -> None:
    report = AnswerReport(Answer("x"))
    assert "empty" not in rendered(report, "text") + rendered(report, "markdown") + rendered(report, "html")
    stream = StringIO()
    write_blocks(report.blocks(), stream)
    assert '"class": "kind"' in rendered(report, "json")
