"""What holds for texts of others in each format: they are shown, and are nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from xml.etree import ElementTree

from markdown_it import MarkdownIt
from markdown_it.token import Token

MARKDOWN = MarkdownIt("commonmark").enable("table")
_OWN_HTML = re.compile(r"(<details>\n?<summary>[^<>]+</summary>|</details>)\n")
_OWN_LINKS = re.compile(r"reproducers/|issues/|https://(github\.com|example\.org)/")


def assert_is_text(shown: str) -> None:
    """Check that nothing commands a terminal or a CI system."""
    assert all(character in "\n\t" or character.isprintable() for character in shown)
    assert not re.search(r"(?m)^\s*::|##\[", shown)


def tokens_of(text: str) -> Iterator[Token]:
    for block in MARKDOWN.parse(text):
        yield block
        yield from block.children or ()


def assert_is_safe_markdown(shown: str) -> None:
    """Check that texts with EVIL in them are only text."""
    before = ""
    for token in tokens_of(shown):
        assert token.type not in ("image", "html_inline", "blockquote_open"), token
        assert token.type != "html_block" or _OWN_HTML.fullmatch(token.content), token
        if token.type == "link_open":
            assert _OWN_LINKS.match(str(token.attrs["href"])), token
        if before in ("heading_open", "strong_open", "em_open"):
            assert not token.content.startswith("EVIL"), token
        if token.type == "text":
            assert not re.search(r"(?<!\w)[@#](?=\w)", token.content), token
        before = token.type


class Page(HTMLParser):
    """A page, which runs and loads nothing of others."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert tag not in ("script", "img", "iframe")
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("href", "src") or _OWN_LINKS.match(value or "")


CHECKS: dict[str, Callable[[str], object]] = {
    "text": assert_is_text,
    "json": json.loads,
    "junit": lambda shown: ElementTree.fromstring(shown.encode()),
    "markdown": assert_is_safe_markdown,
    "html": lambda shown: Page().feed(shown),
}
