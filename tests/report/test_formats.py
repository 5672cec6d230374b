"""Documents in every format: whole words at any width, and texts of others that command
no terminal and no CI system, and add nothing to Markdown, HTML, JSON and XML.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.text import Text

from tests.report.safe_text import (
    CHECKS,
    MARKDOWN,
    Page,
    assert_is_text,
    tokens_of,
)
from triage.model.fields import key
from triage.report.document import (
    Block,
    Bullets,
    Code,
    Details,
    Document,
    Facts,
    Heading,
    Span,
    Table,
    junit_case,
    junit_text,
    rendered,
    write_report,
)
from triage.report.markup import code, document_markdown, escaped, fenced
from triage.report.printable import PrintedStream, printable, visible
from triage.report.terminal import console_for

CONTROLS = "".join(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))
NASTY = [
    f"{CONTROLS}\u202e\u2066\u200b\ud800\ufffe",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "[red]no[/red] [link=https://evil.example]x[/link]",
    "# EVIL",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</pre></details>",
    "[x](https://evil.example) ![x](https://evil.example/x.png)",
    "https://evil.example www.evil.example <https://evil.example>",
    "@someone fixes #12, GH-12",
    "a | b | c",
    "```\n# out of the fence\n````\n<b>x</b>",
    "`` ` ``` `",
    "1. list",
    "===",
    "> quote",
    "&lt;b&gt; &#60;b&#62;",
    "[x]: https://evil.example",
    "*EVIL* __EVIL__ ~~gone~~",
    "\\<script>\\`",
    "\n::error::pwned\n  ::set-output name=x::y\r::warning::z\n##[error]x",
]
characters = st.characters(categories=["L", "N", "P", "S", "Cc", "Cs", "Zl", "Zp"])
pieces = st.lists(st.sampled_from(NASTY) | characters, min_size=1)
texts = pieces.map("".join).filter(str.strip)


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


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
@settings(max_examples=25)
@given(text=texts)
def test_a_text_of_others_is_only_text(form: str, text: str) -> None:
    CHECKS[form](rendered(form, Answer(text), answer_document))


def test_every_block_is_shown_but_an_empty_column() -> None:
    page = Page()
    page.feed(rendered("html", Answer("x"), answer_document))
    assert page.tags >= {"h1", "h2", "p", "ul", "table", "pre", "details", "code", "a"}
    for form in ("text", "markdown", "html"):
        assert "empty" not in rendered(form, Answer("x"), answer_document)
    assert '"class": "kind"' in rendered("json", Answer("x"), answer_document)


@given(text=texts)
def test_markdown_of_a_text_is_only_text(text: str) -> None:
    plain = {"paragraph_open", "inline", "paragraph_close", "text"}
    assert {token.type for token in tokens_of(escaped(text))} <= plain
    assert [token.type for token in tokens_of(fenced(text))] == ["fence"]
    assert {token.type for token in tokens_of(code(text))} == {
        *plain - {"text"},
        "code_inline",
    }
    table = document_markdown([Table(("a", "b"), [(text, Span(text, "code"))])])
    assert MARKDOWN.render(table).count("<td>") == 2
    for reference in ("@someone", "#12", "GH-12"):
        assert reference not in escaped(text)


@given(texts=pieces)
@example([" ", "::error::x"])
@example([":", ":error::x"])
def test_nothing_printed_commands_a_terminal_or_a_ci_system(texts: list[str]) -> None:
    """Also in a line that is written in pieces."""
    raw = io.StringIO()
    stream = PrintedStream(raw)
    for text in texts:
        stream.write(text)
    assert_is_text(raw.getvalue())


@given(text=texts)
def test_json_keeps_its_meaning_and_junit_its_text(text: str) -> None:
    shown = printable(json.dumps(text, ensure_ascii=False))
    assert json.dumps(json.loads(shown)) == json.dumps(text)
    cases = [
        junit_case(text, text, 1.0, (text, text, text)),
        junit_case(text, text, skipped=text),
    ]
    document = ElementTree.fromstring(junit_text(text, cases).encode())
    assert document.findtext(".//failure") == visible(text)


def test_a_console_shows_markup_and_codes_as_text() -> None:
    raw = io.StringIO()
    console = console_for(PrintedStream(raw))  # type: ignore[arg-type]
    console.print("[red]x[/red]")
    console.print(Text("\x1b[31m\x9b31m"))
    assert raw.getvalue() == "[red]x[/red]\n\\u001b[31m\\u009b31m\n"


def screen(*blocks: Block) -> str:
    return rendered("text", None, lambda _: Document("", blocks))


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_a_terminal_of_any_width_shows_whole_words_of_every_cell(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    cells = ["--a-flag-to-copy=false", "a sentence with several words", "3.13.0"]
    table = Table(["change", "cost", "holds on"], [cells, cells])
    shown = screen(table, Bullets(["a long text " * 20 + "end"]), Code("x" * 300))
    assert shown.count("--a-flag-to-copy=false") == shown.count("3.13.0") == 2
    assert "end" in shown
    assert "x" * 300 in shown.replace("\n", "")


def test_a_terminal_breaks_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    address = "https://github.com/iree-org/iree/compare/" + "a" * 40
    shown = screen(Facts([("commits", address)]), Bullets([f"see {address} there"]))
    lines = [line.split()[-1] for line in shown.splitlines()]
    assert lines == [address, "see", address, "there"]


def test_a_terminal_names_what_it_folds_and_shows_it_if_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = Document("", [Details("2 more", ["folded"])])
    write_report("text", None, lambda _: document)
    assert capsys.readouterr().out == "+ 2 more (-v)\n"
    write_report("verbose", None, lambda _: document)
    assert "folded" in capsys.readouterr().out
