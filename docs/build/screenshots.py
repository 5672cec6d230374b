"""Take the pictures of the site in docs/assets/, from simulated nights, in Debian's Chromium."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # tests are not an installed package

from benchmarks.simulated_nights import simulated_nights  # noqa: E402
from triage.nightly.store import NightStore  # noqa: E402
from triage.report.site import Site  # noqa: E402

with TemporaryDirectory() as scratch, sync_playwright() as playwright:
    store, out = NightStore(Path(scratch)), Path(scratch) / "public"
    for night in simulated_nights(300, 60):
        store.add(night)
    Site(store, out).write()
    browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page(viewport={"width": 1000, "height": 660})
    for name, ready in (("index.html", "#rates canvas"), ("grid.html", "#grid li")):
        page.goto((out / name).as_uri())
        page.locator(ready).first.wait_for()
        picture = "site-overview.png" if name == "index.html" else "site-grid.png"
        page.screenshot(path=str(ROOT / "docs" / "assets" / picture))
    browser.close()
