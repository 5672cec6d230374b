"""The picture of a large program in Chromium: it opens, and the keyboard reaches every part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import faults
from tests.lint.conftest import Read
from tests.lint.programs import hip, sharded
from triage.compilers.iree.lint.drawing import draw
from triage.report.picture import write_graph

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_picture_of_18000_lines(chromium: Any, read: Read, tmp_path: Path) -> None:
    text = sharded(8, "--layers", "210")
    assert text.count("\n") > 18_000
    write_graph(tmp_path / "large.html", draw(read(text, hip(8)), {}), "large")
    context = chromium.new_context()
    page, problems = context.new_page(), []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda sent: None if sent.url.startswith("file:") else problems.append(sent.url))
    page.goto((tmp_path / "large.html").as_uri())
    page.locator("#d1 .node").first.wait_for()
    loaded = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    print(f"loaded after {loaded:.0f} ms")
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.getAttribute('href')") is None:
        page.keyboard.press("Tab")
    assert page.locator("#about").inner_text().startswith("part ")
    page.keyboard.press("Enter")
    page.locator("details[open]#d2 .node").first.wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#d1")
    assert problems == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_picture_has_no_serious_faults(chromium: Any, read: Read, tmp_path: Path, scheme: str) -> None:
    write_graph(tmp_path / "small.html", draw(read(sharded(2, "--layers", "1"), hip(2)), {}), "small")
    context = chromium.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto((tmp_path / "small.html").as_uri())
    assert faults(page) == []
    context.close()
