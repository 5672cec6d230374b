"""The browser of the tests: Debian's Chromium, and what axe finds in its pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def launched() -> Iterator[Any]:
    """Start Chromium; one at a time, because Playwright allows no second one in a
    thread.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=list(FLAGS)
        )
        yield browser
        browser.close()


def faults(page: Any) -> list[str]:
    """Return what axe finds."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"preload": False}).response["violations"]
    return [f"{fault['id']}: {fault['nodes'][0]['html']}" for fault in found]
