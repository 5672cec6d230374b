"""How long the pages of a site take to open in Chromium, from file://.

Run: `make test-browser` once, then `python -m benchmarks.site_pages SITE [--rounds N]`.
A page is open when its main content is there; each time it is opened by a new profile.
The CPU time is that of the page's main thread, which other work on the machine changes
little. The first row is a page without anything: what Chromium takes by itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from tests.browser import launched

PAGES = {
    "index.html": "#open tr, #new tr",
    "grid.html": "#grid li",
    "trends.html": "#trend canvas, .good",
    "nights.html": "tbody tr",
    "search.html?text=conv": "section[data-kind] li",
    "failures/*.html": ".strip li",
    "case.html#NAME": "#strip li",
}


def main() -> None:
    """Print the median time of each page, and the size of the site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    files = [path for path in options.site.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e6:.1f} MB")
    with launched() as browser, TemporaryDirectory() as folder:
        empty = Path(folder, "empty.html")
        empty.write_text("<!doctype html><title>empty</title><p>")
        addresses = {"an empty page": empty.as_uri()}
        addresses |= _addresses(browser, options.site)
        for name, address in addresses.items():
            rounds = range(options.rounds)
            content = PAGES.get(name, "p")
            taken = [_open(browser, address, content) for _ in rounds]
            wall, cpu = (median(times) for times in zip(*taken, strict=True))
            print(f"{name:24} {wall:5.0f} ms, {cpu:5.0f} ms of CPU time", flush=True)


def _addresses(browser: Any, site: Path) -> dict[str, str]:
    """Return an address for each kind of page."""
    root = site.resolve().as_uri()
    page = browser.new_page()
    page.goto(f"{root}/grid.html")
    case = page.locator("#grid li a").first.get_attribute("href")
    page.close()
    failure = max((site / "failures").iterdir(), key=lambda path: path.stat().st_size)
    own = {"failures/*.html": f"failures/{failure.name}", "case.html#NAME": case}
    return {name: f"{root}/{own.get(name, name)}" for name in PAGES}


def _open(browser: Any, address: str, content: str) -> tuple[float, float]:
    """Return the milliseconds from the start of the navigation to the content, and the
    CPU time of the main thread in them.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address, wait_until="commit")
    page.locator(content).first.wait_for(state="attached")
    wall: float = page.evaluate("performance.now()")
    found = session.send("Performance.getMetrics")["metrics"]
    seconds = {metric["name"]: metric["value"] for metric in found}["TaskDuration"]
    context.close()
    return wall, 1000 * seconds


if __name__ == "__main__":
    main()
