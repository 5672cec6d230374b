"""What a command costs when everything is known: a start, a night, a list of nights.

CPU times count all child processes. Peers do what is least needed for the same: import
the libraries of the command line, handle a quarter of the cases, read the same files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from random import Random

from benchmarks.common import TRIAGE, Ratio, cost_of, cpu_of, new_home, show
from benchmarks.overhead import DENSE, write_cases
from tests.nights.documents import case_result, night
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.nightly.store import NightStore
from triage.toolchains.home import Home

SHAPE = "{rows}x{columns}xf32"
ENDS = ("-b", "3.2.0", "-t", "3.3.0")
# reads of every stored night as JSON what a history needs
READ_NIGHTS = """
import json, pathlib, sys, zlib
for path in pathlib.Path(sys.argv[1]).rglob('*.json.z'):
    rest = path.read_bytes()
    for part in range(2):
        reader = zlib.decompressobj()
        [json.loads(line) for line in reader.decompress(rest).splitlines()]
        rest = reader.unused_data
"""
# fills the cache as a night does, whose compilers are replaced: each 23rd program fails
SEED = """
import sys
from pathlib import Path
import numpy
from triage.execution import engine, task
from triage.model.execution import Captured, Ending, Execution

def run(argv, *_, **__):
    words = list(map(str, argv))
    name = next((word for word in words if "/op_" in word), "op_00001")
    number = int(name.partition("op_")[2][:5])
    failed = number % 23 == 0
    for word in words:
        if word.startswith("--output=@"):
            shape = (number % 37 + 4, number // 37 + 1)
            numpy.save(word.partition("@")[2], numpy.zeros(shape, "f4"))
    if "-o" in words and not failed:
        Path(words[words.index("-o") + 1]).write_bytes(b"module")
    error = "model.mlir:1:1: error: failed to legalize operation 'torch.op'" if failed else ""
    return Execution(tuple(words), Ending.EXITED, int(failed), None, 0.2, 0.2, 90.0, Captured(), Captured(error))

engine.run = task.run = run
from triage.cli import main
main()
"""


def write_suite(folder: Path, count: int) -> list[str]:
    """Write a suite as IREE's operator tests are; return the words that name it."""
    for number in range(count):
        test = folder / "suite" / f"op_{number:05}"
        test.mkdir(parents=True)
        shape = SHAPE.format(rows=number % 37 + 4, columns=number // 37 + 1)
        size = 4 * (number % 37 + 4) * (number // 37 + 1)
        kind = f"tensor<{shape}>"
        (test / "model.mlir").write_text(
            f"func.func @f(%a: {kind}) -> {kind} {{\n  return %a : {kind}\n}}\n"
        )
        for name in ("input_0", "output_0"):
            (test / f"{name}.bin").write_bytes(bytes(size))
        (test / "run_module_io_flags.txt").write_text(
            f"--input={shape}=@input_0.bin\n--expected_output={shape}=@output_0.bin\n"
        )
    config = {
        "config_name": "cpu",
        "iree_compile_flags": ["--iree-hal-target-backends=llvm-cpu"],
        "iree_run_module_flags": ["--device=local-sync"],
    }
    (folder / "config.json").write_text(json.dumps(config))
    return [str(folder / "suite"), "--suite-config", str(folder / "config.json")]


def night_ratios(cases: int) -> Iterator[Ratio]:
    """Compare a known night with one of a quarter of its cases, without the start."""
    best = {}
    with new_home() as (place, env):
        for count in (1, cases // 4, cases):
            words = ["nightly", *write_suite(place / str(count), count), *ENDS]
            words += ["--out", str(place / f"out-{count}")]
            seed = [sys.executable, "-c", SEED, "--quiet", *words]
            cost_of(seed, env=env, codes=(0, 1))
            best[count] = cpu_of(*TRIAGE, *words, env=env, codes=(0, 1))
    large, small = (best[count] - best[1] for count in (cases, cases // 4))
    yield Ratio(
        f"known night of {cases} cases beyond one, CPU time",
        large,
        f"{cases // 4} cases",
        small,
        "s",
        limit=5.0,
    )


def simulated_nights(cases: int, nights: int) -> Iterator[Night]:
    """Yield nights from the oldest to the newest. Of 25 cases one fails for a while, and
    each becomes slower once.
    """
    source = Random(1)
    passed, failed = case_result("", "P"), case_result("", "F")
    for index in range(nights):
        day = date(2026, 1, 1) + timedelta(index)
        revision = Revision(f"3.10.0rc{day:%Y%m%d}", f"{index // 2:040x}", str(day))
        results = []
        for number in range(cases):
            begins = 7 * number % nights
            is_failing = number % 25 == 0 and 0 <= index - begins < 40
            name = f"operator_{number:05}"
            result = replace(
                failed if is_failing else passed,
                case=name,
                recipe=name,
                toolchain=revision,
                cpu_seconds=source.gauss(1.3 if index > begins else 1, 0.02),
            )
            results.append(result)
        started = f"{day}T02:00:00+00:00"
        yield night(1, {}, cases=results, toolchain=revision, started=started)


def list_ratios(cases: int, nights: int) -> Iterator[Ratio]:
    """List stored nights, show the last, and write the site, next to reading all of
    them as JSON.
    """
    with new_home() as (place, env):
        store = NightStore(Home(place / "home"))
        for each in simulated_nights(cases, nights):
            store.add(each)
        peer = cpu_of(sys.executable, "-c", READ_NIGHTS, store.path)
        for line, limit in (
            ("nights list", 3.5),
            ("nights show latest", 3.5),
            (f"site --out {place}/public", 20),
        ):
            ours = cpu_of(*TRIAGE, *line.split(), env=env)
            what = f"{line[:11]}, {cases} cases x {nights} nights, CPU time"
            yield Ratio(what, ours, "json.loads of all", peer, "s", limit=limit)


def start_ratios(rounds: int = 5) -> Iterator[Ratio]:
    """Start commands next to an import of the libraries of the command line."""
    peer = cpu_of(sys.executable, "-c", "import typer, rich", rounds=rounds)
    with new_home() as (place, env):
        write_cases(place / "ten", 10)
        log = place / "line.log"
        log.write_bytes(DENSE % (1, 3, 4))
        for what, words, limit in (
            ("ten known results", ("run", place / "ten"), 4.5),
            ("classify one line", ("classify", log), 3.5),
        ):
            # the first one is not yet known
            ours = cpu_of(*TRIAGE, *words, rounds=rounds + 1, env=env, codes=(0, 1))
            what = f"{what}, CPU time"
            yield Ratio(what, ours, "import typer, rich", peer, "s", limit)


def ratios(cases: int = 400, nights: int = 120) -> Iterator[Ratio]:
    """Yield all figures."""
    yield from start_ratios()
    yield from night_ratios(cases)
    yield from list_ratios(400, nights)


if __name__ == "__main__":
    sys.exit(show(ratios()))
