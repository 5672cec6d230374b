"""Write the site of simulated nights, and compare its time and size with limits.

Run: `python -m benchmarks.site [--cases 10000] [--nights 365] [--home DIR] [--browser]`. Exit code 1 means that a limit is
exceeded: 60 s of CPU time, 60 MB, 300 kB for the first page with all that it loads. The time to store the nights is not part of
the limit; `--home` keeps them for another run. `--browser` opens the grid in Chromium, scrolls it, and filters it by each of
several texts; it prints the times between frames while it scrolls, and from a key to the frame that shows its result.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.simulated_nights import simulated_nights
from triage.nights.store import NightStore
from triage.report.site import Site

_SECONDS, _MEGABYTES, _FIRST_PAGE = 60.0, 60.0, 300_000
_LOADED_FIRST = (
    "index.html",
    "assets/site.css",
    "assets/site.js",
    "assets/uPlot.min.css",
    "assets/uPlot.iife.js",
    "data/nights.js",
)
_SCROLL = """async () => {
  const box = document.querySelector("#grid"), times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let step = 0; step < 300; step++) {
    box.scrollTop += step < 150 ? 60 : 600;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times;
}"""
_FILTER = """async texts => {
  const field = document.querySelector("#filters [name=text]"), times = [];
  for (const text of texts) {
    const begin = performance.now();
    field.value = text;
    field.dispatchEvent(new InputEvent("input", {bubbles: true}));
    await new Promise(requestAnimationFrame);
    await new Promise(done => setTimeout(done));
    times.push(performance.now() - begin);
  }
  return times;
}"""
_TEXTS = ("c", "ca", "cas", "case-1", "legal", "x y", "")


def frames(grid: Path) -> None:
    """Print how long the grid takes to appear, and its frames."""
    from tests.browser import launched

    with launched() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        started = time.perf_counter()
        page.goto(grid.as_uri())
        page.locator("#grid li").first.wait_for()
        print(f"the grid appears after {time.perf_counter() - started:.2f} s")
        for what, times in (("scroll", page.evaluate(_SCROLL)), ("filter", page.evaluate(_FILTER, list(_TEXTS)))):
            ordered = sorted(times)
            late = ordered[int(0.95 * len(ordered))]
            print(f"{what}: {median(ordered):.0f} ms median, {late:.0f} ms in 95 %, {ordered[-1]:.0f} ms at most")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--browser", action="store_true")
    words = parser.parse_args()
    with TemporaryDirectory() as scratch:
        store = NightStore(words.home or Path(scratch) / "home")
        if not store.heads():
            started = time.process_time()
            for night in simulated_nights(words.cases, words.nights):
                store.add(night)
            print(f"nights stored: {time.process_time() - started:.0f} s of CPU time, {store.path.stat().st_size / 1e6:.1f} MB")
        out = Path(scratch) / "public"
        started = time.process_time()
        site = Site(store, out).write()
        seconds = time.process_time() - started
        first = sum((out / name).stat().st_size for name in _LOADED_FIRST)
        grid = (out / "data/grid.js").stat().st_size
        if words.browser:
            frames(out / "grid.html")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"site of {site.cases} cases and {site.nights} nights: {seconds:.1f} s of CPU time, {site.bytes / 1e6:.1f} MB in")
    print(f"{site.files} files, first page {first / 1e3:.0f} kB, grid {grid / 1e3:.0f} kB; {peak} MiB, {site.steps} steps")
    return int(seconds > _SECONDS or site.bytes > _MEGABYTES * 1e6 or first > _FIRST_PAGE)


if __name__ == "__main__":
    sys.exit(main())
