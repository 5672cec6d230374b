"""What a command costs when everything is known: a start, a night, a list of nights.

CPU times count all child processes. Peers do what is least needed for the same: import
the libraries of the command line, handle a quarter of the cases, read the same files.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import TRIAGE, Ratio, cost_of, new_home, show
from benchmarks.overhead import DENSE, write_cases
from benchmarks.simulated_nights import simulated_nights

SHAPE = "{rows}x{columns}xf32"
VERSIONS = ("3.2.0", "3.3.0")
# reads every stored night as JSON, the least that a reader of whole nights does
READ_NIGHTS = "import json, pathlib, sys, zlib\nfor path in pathlib.Path(sys.argv[1]).rglob('*.json.z'): [json.loads(line) for line in zlib.decompress(path.read_bytes()).splitlines()]"
# fills the cache as a night does, whose compilers are replaced: each 23rd program fails
SEED = """
import sys
from pathlib import Path
import numpy
from triage.execution import engine, run_task
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

engine.run = run_task.run = run
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


def night_ratios(cases: int, rounds: int = 3) -> Iterator[Ratio]:
    """Compare a known night with one of a quarter of its cases, without the start."""
    with TemporaryDirectory() as place:
        env = new_home(Path(place, "home"))
        best = {}
        for count in (1, cases // 4, cases):
            words = write_suite(Path(place, str(count)), count)
            words = ["nightly", *words, "-b", VERSIONS[0], "-t", VERSIONS[1]]
            words += ["--out", str(Path(place, f"out-{count}"))]
            seed = [sys.executable, "-c", SEED, "--quiet", *words]
            cost_of(seed, env=env, codes=(0, 1))
            best[count] = min(
                cost_of([*TRIAGE, *words], env=env, codes=(0, 1)).cpu
                for _ in range(rounds)
            )
    large, small = (best[count] - best[1] for count in (cases, cases // 4))
    yield Ratio(
        f"known night of {cases} cases beyond one, CPU time",
        large,
        f"{cases // 4} cases",
        small,
        "s",
        limit=5.0,
    )


def list_ratios(cases: int, nights: int, rounds: int = 3) -> Iterator[Ratio]:
    """List stored nights, show the last, and write the site, next to reading all of
    them as JSON.
    """
    from triage.nightly.store import NightStore
    from triage.toolchains.home import Home

    with TemporaryDirectory() as place:
        env = new_home(Path(place, "home"))
        store = NightStore(Home(Path(place, "home")))
        for night in simulated_nights(cases, nights):
            store.add(night)
        reading = [sys.executable, "-c", READ_NIGHTS, str(store.path)]
        peer = min(cost_of(reading).cpu for _ in range(rounds))
        for line, limit in (
            ("nights list", 3.5),
            ("nights show latest", 3.5),
            (f"site --out {place}/public", 20),
        ):
            command = [*TRIAGE, *line.split()]
            costs = [cost_of(command, env=env) for _ in range(rounds)]
            what = f"{line[:11]}, {cases} cases x {nights} nights, CPU time"
            ours = min(cost.cpu for cost in costs)
            yield Ratio(what, ours, "json.loads of all", peer, "s", limit=limit)


def junit_ratio() -> Ratio:
    """Compare the JUnit of many cases with that of a quarter of them."""
    from triage.report.formats import junit_case, junit_text

    seconds = {}
    for count in (1000, 4000):
        cases = [junit_case(f"case-{number}", "suite", 0.1) for number in range(count)]
        started = time.process_time()
        junit_text("night", cases)
        seconds[count] = 1000 * (time.process_time() - started)
    return Ratio(
        "JUnit of 4,000 cases", seconds[4000], "1,000 cases", seconds[1000], "ms", 6.0
    )


def start_ratios(rounds: int = 5) -> Iterator[Ratio]:
    """Start commands next to an import of the libraries of the command line."""
    with TemporaryDirectory() as place:
        env = new_home(Path(place, "home"))
        write_cases(Path(place, "ten"), 10)
        log = Path(place, "line.log")
        log.write_bytes(DENSE % (1, 3, 4))
        commands: Sequence[tuple[str, list[str], float]] = (
            ("ten known results", ["run", str(Path(place, "ten"))], 6.0),
            ("classify one line", ["classify", str(log)], 3.5),
        )
        importing = [sys.executable, "-c", "import typer, rich"]
        peer = min(cost_of(importing).cpu for _ in range(rounds))
        for what, words, limit in commands:
            command = [*TRIAGE, *words]
            cost_of(command, env=env, codes=(0, 1))
            ours = min(
                cost_of(command, env=env, codes=(0, 1)).cpu for _ in range(rounds)
            )
            yield Ratio(
                f"{what}, CPU time", ours, "import typer, rich", peer, "s", limit
            )


def ratios(cases: int = 400, nights: int = 120) -> Iterator[Ratio]:
    """Yield all figures."""
    yield from start_ratios()
    yield junit_ratio()
    yield from night_ratios(cases)
    yield from list_ratios(400, nights)


if __name__ == "__main__":
    sys.exit(show(ratios()))
