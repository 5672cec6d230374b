"""What triage costs beyond the compiler: next to `xargs -P` with the same command
lines, and `grep` on the same logs.

Run: `python -m benchmarks.overhead [--cases N] [--megabytes N] [--nights N]`.
`--nights` also writes the site of 10,000 simulated cases in so many nights. CPU times
count all child processes, so that other work on the machine changes them little.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import LINES, TRIAGE, Ratio, cost_of, new_home

ERROR = b"model.mlir:%d:8: error: function 'd' uses 229376 bytes of shared memory; exceeded the limit of 166912 bytes\n"
NOTE = b"model.mlir:%d:8: note: see current operation: "
SHORT = b"    %12345 = linalg.generic {indexing_maps = [#map, #map1]} ins(%1, %2 : tensor<4096x4096xf32>) outs(%3) {\n"
DENSE = b"model.mlir:%d:8: error: 'linalg.generic' op has %d loops, expected %d\n"
SITE_SECONDS = 60.0


def write_cases(folder: Path, count: int) -> None:
    """Write `count` recipes with small programs that differ in their shapes."""
    folder.mkdir()
    for number in range(count):
        kind = f"tensor<{number + 4}xf32>"
        (folder / f"m{number}.mlir").write_text(
            f"func.func @f(%a: {kind}, %b: {kind}) -> {kind} {{\n  %0 = arith.mulf %a, %b : {kind}\n  return %0 : {kind}\n}}\n"
        )
        recipe = f"name: m{number}\ninput: m{number}.mlir\ntarget: {{backend: llvm-cpu}}\nphase: flow\n"
        (folder / f"m{number}.yaml").write_text(recipe)


def compile_ratios(cases: int, rounds: int = 3) -> Iterator[Ratio]:
    """Compile small programs with triage and with xargs, in turn; the best round of
    each counts.
    """
    jobs = str(os.cpu_count() or 1)
    with TemporaryDirectory() as place:
        env = new_home(Path(place, "home"))
        best: dict[tuple[str, int], tuple[float, float]] = {}
        for count in (1, cases):
            write_cases(Path(place, str(count)), count)
        # the toolchain is asked what it can do, once
        cost_of([*TRIAGE, "run", str(Path(place, "1"))], env=env)
        for _ in range(rounds):
            for count in (1, cases):
                folder = Path(place, str(count))
                ours = cost_of(
                    [*TRIAGE, "run", str(folder), "--fresh", "--jobs", jobs], env=env
                )
                lines = cost_of([*LINES, str(folder), "installed"], env=env).stdout
                script = Path(place, "lines")
                script.write_text(lines.replace(os.devnull, str(Path(place, "out"))))
                words = [
                    "xargs",
                    "-P",
                    jobs,
                    "-d",
                    "\n",
                    "-a",
                    str(script),
                    "-I",
                    "{}",
                    "sh",
                    "-c",
                    "{}",
                ]
                for who, cost in (("triage", ours), ("xargs", cost_of(words))):
                    wall, cpu = best.get((who, count), (cost.wall, cost.cpu))
                    best[who, count] = min(wall, cost.wall), min(cpu, cost.cpu)
        known = min(
            cost_of([*TRIAGE, "run", str(folder)], env=env).cpu for _ in range(rounds)
        )
    each = {
        who: 1000 * (best[who, cases][1] - best[who, 1][1]) / (cases - 1)
        for who in ("triage", "xargs")
    }
    yield Ratio(
        f"{cases} small compiles, wall time",
        best["triage", cases][0],
        "xargs -P",
        best["xargs", cases][0],
        "s",
    )
    yield Ratio(
        "the same, CPU time of each beyond the first",
        each["triage"],
        "xargs -P",
        each["xargs"],
        "ms",
    )
    yield Ratio(
        f"{cases} known results, CPU time",
        known,
        "xargs -P",
        best["xargs", cases][1],
        "s",
    )
    start = min(cost_of([*TRIAGE, "--help"]).cpu for _ in range(rounds))
    python = min(cost_of([sys.executable, "-c", ""]).cpu for _ in range(rounds))
    yield Ratio("--help, CPU time", start, "python -c ''", python, "s")


def write_log(path: Path, size: int, dense: bool) -> None:
    """Write a log with an error in each line, or with four errors, each followed by IR
    on short lines and one long line.
    """
    with path.open("wb") as log:
        if dense:
            log.writelines(
                DENSE % (number, number % 977, number % 31)
                for number in range(size // 72)
            )
            return
        for part in range(4):
            log.write(
                ERROR % part
                + NOTE % part
                + b'dense<"0x'
                + b"0123456789ABCDEF" * (size // 128)
                + b'">\n'
            )
            for _ in range(size // 8 // len(SHORT)):
                log.write(SHORT)


def classify_ratios(megabytes: int) -> Iterator[Ratio]:
    """Classify two logs and let grep count the errors in them."""
    with TemporaryDirectory() as place:
        for dense, size, what in (
            (False, megabytes, "4 errors"),
            (True, megabytes / 10, "an error in each line"),
        ):
            log = Path(place, "huge.log")
            write_log(log, int(size * 1e6), dense)
            ours = cost_of(
                [*TRIAGE, "classify", str(log), "--format", "json"], codes=(0, 1)
            )
            grep = cost_of(["grep", "-c", "-a", "error:", str(log)])
            yield Ratio(
                f"classify {size:g} MB, {what}, CPU time",
                ours.cpu,
                "grep -c error:",
                grep.cpu,
                "s",
            )


def site(cases: int, nights: int) -> bool:
    """Write the site of simulated nights; return whether it took no more time than
    allowed.
    """
    from benchmarks.simulated_nights import simulated_nights
    from triage.nightly.store import NightStore
    from triage.report.site import Site
    from triage.toolchains.home import Home

    with TemporaryDirectory() as scratch:
        store = NightStore(Home(Path(scratch, "home")))
        for night in simulated_nights(cases, nights):
            store.add(night)
        started = time.process_time()
        Site(store, Path(scratch, "public")).write()
        seconds = time.process_time() - started
    print(f"site of {cases} cases and {nights} nights: {seconds:.1f} s of CPU time")
    return seconds <= SITE_SECONDS


def ratios(cases: int = 40, megabytes: int = 100) -> Iterator[Ratio]:
    """Yield all figures that have a peer."""
    yield from compile_ratios(cases)
    yield from classify_ratios(megabytes)


def main() -> int:
    """Print the figures; exit code 1 means that the site exceeded its limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--nights", type=int, default=0)
    options = parser.parse_args()
    for ratio in ratios(options.cases, options.megabytes):
        print(ratio, flush=True)
    return 0 if not options.nights or site(10_000, options.nights) else 1


if __name__ == "__main__":
    sys.exit(main())
