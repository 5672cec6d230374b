"""What triage costs beyond the compiler: next to `xargs -P` with the same command
lines, `grep` on the same logs, and compilers that are not sealed.

CPU times count all child processes, so that other work on the machine changes them
little.
"""

from __future__ import annotations

import os
import resource
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import (
    TOOLCHAINS,
    TRIAGE,
    Cost,
    Ratio,
    command_lines,
    cost_of,
    cpu_of,
    cpu_seconds,
    new_home,
    show,
)
from triage.model.execution import Limits
from triage.processes.process import run
from triage.processes.sealing import Seal, is_sealing

ERROR = b"model.mlir:3:8: error: function 'd' uses 229376 bytes of shared memory; exceeded the limit of 166912 bytes\n"
NOTE = b"model.mlir:3:8: note: see current operation: "
SHORT = b"    %12345 = linalg.generic {indexing_maps = [#map, #map1]} ins(%1, %2 : tensor<4096x4096xf32>) outs(%3) {\n"
WHOS = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
PROGRAM = "iree/compiler/_mlir_libs/iree-compile"
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
    with new_home() as (place, env):
        scripts = {}
        for count in (1, cases):
            folder, script = place / str(count), place / f"{count}.lines"
            write_cases(folder, count)
            lines = command_lines(folder, "installed", place / "out")
            script.write_text(lines)
            scripts[str(folder)] = count, script
        # the toolchain is asked what it can do, once
        cost_of([*TRIAGE, "run", str(place / "1")], env=env)
        for _ in range(rounds):
            for name, (count, script) in scripts.items():
                compile_all = [*TRIAGE, "run", name, "--fresh", "--jobs", jobs]
                costs["triage", count].append(cost_of(compile_all, env=env))
                words = f"xargs -P {jobs} -d \\n -a {script} -I {{}} sh -c {{}}"
                costs["xargs", count].append(cost_of(words.split(" ")))
        known = cpu_of(*TRIAGE, "run", folder, env=env)

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
            ours = cpu_of(*TRIAGE, *words, rounds=1, codes=(0, 1))
            grep = cpu_of("grep", "-c", "-a", "error:", log, rounds=1)
            what = f"classify {size:g} MB, {kind}, CPU time"
            yield Ratio(what, ours, "grep -c error:", grep, "s")


def sealing_ratios(runs: int) -> Iterator[Ratio]:
    """Start a compiler sealed and not sealed, in turn. CPU times count this process,
    too, which takes the limits.
    """
    programs = sorted(TOOLCHAINS.glob(f"iree-base-compiler-*/{PROGRAM}"))
    if not programs or not is_sealing():
        return
    program = programs[-1]
    spent = dict.fromkeys((True, False), 0.0)
    with TemporaryDirectory() as folder:
        for _ in range(runs):
            for sealed in spent:
                seal = Seal((program.parents[3],)) if sealed else None
                before = cpu_seconds(*WHOS)
                argv = [str(program), "--version"]
                done = run(argv, Limits(timeout=60), Path(folder), seal=seal)
                spent[sealed] += cpu_seconds(*WHOS) - before
                assert done.ok, done.stderr.text
    what = f"{runs} sealed starts of a compiler, CPU time"
    yield Ratio(what, spent[True], "not sealed", spent[False], "s", limit=1.03)


def ratios(cases: int = 40, megabytes: int = 100, starts: int = 200) -> Iterator[Ratio]:
    """Yield all figures that have a peer."""
    yield from compile_ratios(cases)
    yield from classify_ratios(megabytes)
    yield from sealing_ratios(starts)


if __name__ == "__main__":
    sys.exit(show(ratios()))
