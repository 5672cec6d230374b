"""Documents: every block in every renderer, with texts that try to be more than text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest

from triage.model.fields import key
from triage.report.document import (
    Bullets,
    Code,
    Details,
    Document,
    Facts,
    Heading,
    Span,
    Table,
)
from triage.report.formats import rendered, write_report

HOSTILE = '<script>alert(1)</script> @someone fixes #12 [x](http://evil) </pre> "q"'


@dataclass(frozen=True)
class Answer:
    """A result with a key that is a keyword."""

    text: str
    class_: str = field(default="kind", metadata=key("class"))


def answer_document(result: Answer) -> Document:
    """Every kind of block, with the result's text in each place."""
    text = result.text
    rows = [
        [text, "", Span(text, "code")],
        [Span(text, "bad"), "", Span(text, url="javascript:x")],
    ]
    blocks = [
        Heading(text),
        text,
        Bullets([text]),
        Facts([(text, text)]),
        Code(text, "mlir"),
        Table(["a", "empty", "b"], rows),
        Details(text, [Span(text, url="https://example.org/a")]),
    ]
    return Document(text, blocks)


def shown_as(form: str, text: str = HOSTILE) -> str:
    return rendered(form, Answer(text), answer_document)


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
    reader.feed(shown_as("html"))
    assert not reader.tags & {"script", "img", "iframe"}
    assert reader.links == ["https://example.org/a"]
    assert {"h1", "h2", "p", "ul", "table", "pre", "details", "code"} <= reader.tags


def test_an_empty_column_is_left_out_and_the_key_is_the_keyword() -> None:
    for form in ("text", "markdown", "html"):
        assert "empty" not in shown_as(form, "x")
    assert '"class": "kind"' in shown_as("json", "x")


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_a_terminal_of_any_width_shows_whole_words_of_every_cell(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    cells = ["--a-flag-to-copy=false", "a sentence with several words", "3.13.0"]
    table = Table(["change", "cost", "holds on"], [cells, cells])
    blocks = [table, Bullets(["a long text " * 20 + "end"]), Code("x" * 300)]
    shown = rendered("text", None, lambda _: Document("", blocks))
    assert shown.count("--a-flag-to-copy=false") == shown.count("3.13.0") == 2
    assert "end" in shown
    assert "x" * 300 in shown.replace("\n", "")


def test_a_terminal_breaks_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    address = "https://github.com/iree-org/iree/compare/" + "a" * 40
    blocks = [Facts([("commits", address)]), Bullets([f"see {address} there"])]
    lines = rendered("text", None, lambda _: Document("", blocks)).splitlines()
    assert [line.split()[-1] for line in lines] == [address, "see", address, "there"]


def test_a_terminal_names_what_it_folds_and_shows_it_if_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = Document("", [Details("2 more", ["folded"])])
    write_report("text", None, lambda _: document)
    assert capsys.readouterr().out == "+ 2 more (-v)\n"
    write_report("verbose", None, lambda _: document)
    assert "folded" in capsys.readouterr().out
