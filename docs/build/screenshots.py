"""Take the pictures of the site in docs/assets/ in Debian's Chromium.

Run: `python docs/build/screenshots.py SITE`, with the folder that `triage site` wrote of
nights of the bundled recipes, of which the last was IREE 3.3.0 against 3.2.0 with
`--investigate`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ASSETS = Path(__file__).parents[1] / "assets"
SITE = Path(sys.argv[1]).absolute()
[failure] = [
    page
    for page in (SITE / "failures").iterdir()
    if "state-open" in page.read_text() and "286720 bytes" in page.read_text()
]

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
    )
    page = browser.new_page(viewport={"width": 1280, "height": 760})
    for path, picture in (
        (SITE / "index.html", "site-overview.png"),
        (failure, "site-failure.png"),
    ):
        page.goto(path.as_uri())
        page.screenshot(path=str(ASSETS / picture))
    browser.close()
