"""Write the site of simulated nights, and compare its time and size with limits.

Run: `python -m benchmarks.site [--cases 10000] [--nights 365] [--home DIR]`. Exit code 1 means that a limit is exceeded: 60 s
of CPU time, 60 MB, 300 kB for the first page with all that it loads. The time to store the nights is not part of the limit;
`--home` keeps them for another run.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
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


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--home", type=Path)
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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"site of {site.cases} cases and {site.nights} nights: {seconds:.1f} s of CPU time, {site.bytes / 1e6:.1f} MB in")
    print(f"{site.files} files, first page {first / 1e3:.0f} kB, grid {grid / 1e3:.0f} kB; {peak} MiB, {site.steps} steps")
    return int(seconds > _SECONDS or site.bytes > _MEGABYTES * 1e6 or first > _FIRST_PAGE)


if __name__ == "__main__":
    sys.exit(main())
