"""What triage costs beyond the compiler: next to `xargs -P` with the same command
lines, and `grep` on the same logs.

CPU times count all child processes, so that other work on the machine changes them
little.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import LINES, TRIAGE, Cost, Ratio, cost_of, new_home, show

ERROR = b"model.mlir:3:8: error: function 'd' uses 229376 bytes of shared memory; exceeded the limit of 166912 bytes\n"
NOTE = b"model.mlir:3:8: note: see current operation: "
SHORT = b"    %12345 = linalg.generic {indexing_maps = [#map, #map1]} ins(%1, %2 : tensor<4096x4096xf32>) outs(%3) {\n"
DENSE = b"model.mlir:%d:8: error: 'linalg.generic' op has %d loops, expected %d\n"


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
    costs = defaultdict[tuple[str, int], list[Cost]](list)
    with TemporaryDirectory() as place:
        env = new_home(Path(place, "home"))
        for count in (1, cases):
            write_cases(Path(place, str(count)), count)
        # the toolchain is asked what it can do, once
        cost_of([*TRIAGE, "run", str(Path(place, "1"))], env=env)
        for _ in range(rounds):
            for count in (1, cases):
                folder = str(Path(place, str(count)))
                run = [*TRIAGE, "run", folder, "--fresh", "--jobs", jobs]
                costs["triage", count].append(cost_of(run, env=env))
                lines = cost_of([*LINES, folder, "installed"], env=env).stdout
                script = Path(place, "lines")
                script.write_text(lines.replace(os.devnull, str(Path(place, "out"))))
                words = f"xargs -P {jobs} -d \\n -a {script} -I {{}} sh -c {{}}"
                costs["xargs", count].append(cost_of(words.split(" ")))
        known = min(cost_of([*TRIAGE, "run", folder], env=env).cpu for _ in range(3))

    def wall(who: str) -> float:
        return min(cost.wall for cost in costs[who, cases])

    def cpu(who: str, count: int = cases) -> float:
        return min(cost.cpu for cost in costs[who, count])

    def each(who: str) -> float:
        return 1000 * (cpu(who) - cpu(who, 1)) / (cases - 1)

    peer, what = "xargs -P", f"{cases} small compiles, wall time"
    yield Ratio(what, wall("triage"), peer, wall("xargs"), "s")
    what = "the same, CPU time of each beyond the first"
    yield Ratio(what, each("triage"), peer, each("xargs"), "ms")
    yield Ratio(f"{cases} known results, CPU time", known, peer, cpu("xargs"), "s")


def write_log(path: Path, size: int, dense: bool) -> None:
    """Write a log with an error in each line, or with four errors, each followed by IR
    on short lines and one long line.
    """
    if dense:
        lines = (
            DENSE % (number, number % 977, number % 31) for number in range(size // 72)
        )
    else:
        long = b'dense<"0x' + b"0123456789ABCDEF" * (size // 128) + b'">\n'
        parts = [ERROR, NOTE + long, *[SHORT] * (size // 8 // len(SHORT))]
        lines = (part for _ in range(4) for part in parts)
    with path.open("wb") as log:
        log.writelines(lines)


def classify_ratios(megabytes: int) -> Iterator[Ratio]:
    """Classify two logs and let grep count the errors in them."""
    with TemporaryDirectory() as place:
        log = Path(place, "huge.log")
        for dense, size, kind in (
            (False, megabytes, "4 errors"),
            (True, megabytes / 10, "an error in each line"),
        ):
            write_log(log, int(size * 1e6), dense)
            words = ["classify", str(log), "--format", "json"]
            ours = cost_of([*TRIAGE, *words], codes=(0, 1)).cpu
            grep = cost_of(["grep", "-c", "-a", "error:", str(log)]).cpu
            what = f"classify {size:g} MB, {kind}, CPU time"
            yield Ratio(what, ours, "grep -c error:", grep, "s")


def ratios(cases: int = 40, megabytes: int = 100) -> Iterator[Ratio]:
    """Yield all figures that have a peer."""
    yield from compile_ratios(cases)
    yield from classify_ratios(megabytes)


if __name__ == "__main__":
    sys.exit(show(ratios()))
