"""Texts of compilers, commits and files cannot command a terminal or a CI system, nor
add anything to Markdown or XML.
"""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from rich.text import Text

from triage.report.document import Span, Table
from triage.report.formats import junit_case, junit_text
from triage.report.markdown import code, document_markdown, escaped, fenced
from triage.report.printable import PrintedStream, printable, visible
from triage.report.terminal import console_for

CONTROLS = "".join(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))
INVISIBLE = "\u202e\u2066\u200b\ud800\ufffe"
NASTY = [
    CONTROLS + INVISIBLE,
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "[red]no[/red] [link=https://evil.example]x[/link]",
    "# heading",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](https://evil.example) ![x](https://evil.example/x.png)",
    "https://evil.example www.evil.example <https://evil.example>",
    "a | b | c",
    "```\n# out of the fence\n````\n<b>x</b>",
    "`` ` ``` `",
    "1. list",
    "===",
    "> quote",
    "&lt;b&gt; &#60;b&#62;",
    "[x]: https://evil.example",
    "*emphasis* __strong__ ~~gone~~",
    "\\<script>\\`",
    "\n::error::pwned\n  ::set-output name=x::y\r::warning::z\n##[error]x",
]
FROM_OUTSIDE = {
    "link_open",
    "image",
    "html_inline",
    "html_block",
    "heading_open",
    "blockquote_open",
    "em_open",
    "strong_open",
}


def kinds(text: str) -> set[str]:
    blocks = MarkdownIt("commonmark").enable("table").parse(text)
    inner = [token for block in blocks for token in block.children or ()]
    return {token.type for token in (*blocks, *inner)}


@pytest.mark.parametrize("text", NASTY)
def test_markdown_of_a_text_is_only_text(text: str) -> None:
    assert not kinds(escaped(text)) & {
        *FROM_OUTSIDE,
        "fence",
        "code_block",
        "ordered_list_open",
        "table_open",
    }
    assert kinds(fenced(text)) == {"fence"}
    assert kinds(code(text)) == kinds("`x`")
    table = document_markdown([Table(("a", "b"), [(text or "-", Span(text, "code"))])])
    assert MarkdownIt("commonmark").enable("table").render(table).count("<td>") == 2


def test_mentions_and_issue_numbers_are_broken_up_outside_code() -> None:
    assert "@user" not in escaped("thanks @user")
    assert "#123" not in escaped("see #123 and GH-12")
    assert "GH-12" not in escaped("see #123 and GH-12")


@pytest.mark.parametrize("text", NASTY)
def test_nothing_printed_commands_a_terminal_or_a_ci_system(text: str) -> None:
    raw = io.StringIO()
    stream = PrintedStream(raw)
    stream.write(text)
    stream.write("\n")
    stream.write(text)
    shown = raw.getvalue()
    assert all(character in "\n\t" or character.isprintable() for character in shown)
    assert not any(
        line.lstrip().startswith("::") or "##[" in line for line in shown.split("\n")
    )


def test_a_line_written_in_pieces_is_no_command() -> None:
    raw = io.StringIO()
    stream = PrintedStream(raw)
    for piece in ("a", "::b\n", "::error::x"):
        stream.write(piece)
    assert raw.getvalue() == "a::b\n\\u003a:error::x"


@pytest.mark.parametrize("text", NASTY)
def test_json_keeps_its_meaning(text: str) -> None:
    shown = printable(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(shown)["text"].encode("utf-8", "surrogatepass") == text.encode(
        "utf-8", "surrogatepass"
    )


def test_a_console_shows_markup_and_codes_as_text() -> None:
    raw = io.StringIO()
    console = console_for(PrintedStream(raw))  # type: ignore[arg-type]
    console.print("[red]x[/red]")
    console.print(Text("\x1b[31m\x9b31m"))
    assert raw.getvalue() == "[red]x[/red]\n\\u001b[31m\\u009b31m\n"


@pytest.mark.parametrize("text", NASTY)
def test_junit_is_well_formed(text: str) -> None:
    cases = [
        junit_case(text, text, 1.0, (text, text, text)),
        junit_case(text, text, 1.0, skipped=text),
    ]
    document = ElementTree.fromstring(junit_text(text, cases).encode())
    assert document.find(".//failure").text == visible(text)  # type: ignore[union-attr]
