"""Compares `triage reduce` with C-Vise, Shrink Ray and picire on large models with one failing part each.

Run `python -m benchmarks.reduce [--patterns NAME,NAME] [--lines N,N] [--time-limit SECONDS] [--format json]` in the project's
root. All reducers use the same interestingness test (`reduce_oracle.py`), the same files and two workers. Peers are stopped
after the time limit and judged by their smallest interesting candidate. Triage runs twice: as it is, and without the
failure's location. `same` is the answer of the peers' test about a reducer's result.

`calls` counts compiles on both toolchains, `asked` how often a peer ran its script. Blank lines do not count.
`--large` also reduces a model of 20,000 lines with 100 MB of constants and prints the memory used.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import numpy as np

from benchmarks.reduce_inputs import model
from benchmarks.reduce_patterns import PATTERNS
from benchmarks.reduce_peers import WORKERS, Peer, Run, peers, timed
from benchmarks.reduce_task import Task, fresh_home, planned, script, sized, started, task_of
from triage.cli.context import load_cases
from triage.compilers.interpreters import interpreter
from triage.reduce.baseline import Baseline

MAIN = "from triage.cli import main; main()"
HIDDEN = f"import triage.reduce.workflow as workflow; workflow.line_of = lambda failure: None; {MAIN}"
OURS, WITHOUT = "triage", "triage, no location"
_LONG = 3600.0  # seconds for a reduction by triage
_LARGE = 20_000


@dataclass(frozen=True)
class Row:
    """One reduction. same: whether the result fails as the original did, None when there is no result."""

    pattern: str
    lines_before: int
    who: str
    lines: int | None
    operations: int | None
    asked: int
    calls: int
    seconds: float
    cpu_seconds: float
    own_mb: float
    ended: bool
    same: bool | None


def ours(task: Task, start: Baseline, who: str) -> Row:
    here = task.folder / who.replace(", ", "-").replace(" ", "-")
    here.mkdir()
    fresh = replace(task, folder=here)
    fresh_home(fresh)
    answer = here / "answer.json"
    good = ["--good", task.good.revision.name] if task.good else []
    words = [str(task.case.source), "--toolchain", task.bad.revision.name, *good, f"--jobs={WORKERS}", "--format=json"]
    command = [sys.executable, "-c", MAIN if who == OURS else HIDDEN, "--quiet", "reduce", *words, "--out", str(here / "out")]
    run = timed(command, here, _LONG, fresh.env, answer)
    if run.status != 0:
        print(f"{task.pattern}: exit {run.status}\n{answer.read_text()}{(here / 'stderr').read_text()}", file=sys.stderr)
        return row(task, who, None, (0, 0), run, None)
    reduction = json.loads(answer.read_text())
    folder = Path(reduction["reproducer"])
    [case] = load_cases([folder / "recipe.yaml"])
    check = here / "check"
    check.mkdir()
    asking = [str(script(check, planned(task, case, start))), str(case.input.path)]
    same = subprocess.run(asking).returncode == 0
    return row(task, who, case.input.path, (0, reduction["oracle_calls"]), run, same)


def of_peer(task: Task, start: Baseline, peer: Peer, limit: float) -> Row:
    here = task.folder / peer.name.replace(" ", "-")
    here.mkdir()
    (here / "model.mlir").write_bytes(task.model.read_bytes())
    run = timed(peer.command(str(script(here, planned(task, task.case, start))), "model.mlir"), here, limit)
    kept = sorted((here / "oracle" / "kept").iterdir())
    log = (here / "oracle" / "calls").read_text().split()
    counts = log.count("call"), log.count("bad") + log.count("good")
    return row(task, peer.name, kept[0] if kept else None, counts, run, True if kept else None)


def row(task: Task, who: str, result: Path | None, counts: tuple[int, int], run: Run, same: bool | None) -> Row:
    lines, operations = sized(task, result) if result else (None, None)
    before = sum(1 for _ in task.model.open())
    spent = round(run.seconds, 1), round(run.cpu_seconds, 1), round(run.own_mb)
    return Row(task.pattern, before, who, lines, operations, *counts, *spent, run.ended, same)


def compared(task: Task, tools: list[Peer], limit: float, modes: str) -> Iterator[Row]:
    """Run triage first, then the peers."""
    start = started(task)
    if modes != "hidden":
        yield ours(task, start, OURS)
    if modes != "shown" and (PATTERNS[task.pattern].located or modes == "hidden"):
        yield ours(task, start, WITHOUT)
    for peer in tools:
        yield of_peer(task, start, peer, limit)


@dataclass(frozen=True)
class Ratio:
    """Triage relative to the best peer, the one with the fewest lines left. at_most: the peer was stopped with more lines,
    so that it would have needed more.
    """

    peer: str
    calls: float
    seconds: float
    at_most: bool


def ratio_of(rows: list[Row]) -> Ratio | None:
    """Return the ratio; None when there is nothing to compare."""
    mine, others = rows[0], [row for row in rows if not row.who.startswith(OURS) and row.lines and row.calls]
    if not others or mine.lines is None:
        return None
    best = min(others, key=lambda row: (row.lines or 0, -row.calls))
    at_most = not best.ended and (best.lines or 0) > mine.lines
    return Ratio(best.who, round(mine.calls / best.calls, 3), round(mine.seconds / best.seconds, 3), at_most)


def with_constants(text: str) -> str:
    """Turn the weights of the model's blocks into constants with different numbers."""
    numbers = np.random.default_rng(0)
    argument = re.compile(r", %(b\d+_w\d): (tensor<(\d+)x(\d+)xf32>)")
    head, _, body = text.partition("{\n  %c0")

    def constant(match: re.Match[str]) -> str:
        values = numbers.standard_normal(int(match[3]) * int(match[4]), dtype=np.float32)
        return f'  %{match[1]} = arith.constant dense<"0x{values.tobytes().hex()}"> : {match[2]}\n'

    made = "".join(map(constant, argument.finditer(head)))
    return f"{argument.sub('', head)}{{\n{made}  %c0{body}"


def row_text(row: Row) -> str:
    state = {True: "yes", False: "NO", None: "-"}[row.same]
    left = [("-" if value is None else f"{value}") for value in (row.lines, row.operations)]
    numbers = f"{left[0]:>6} {left[1]:>6} {row.asked or '':>6} {row.calls:>6} {row.seconds:8.1f} {row.cpu_seconds:8.1f}"
    return f"  {row.who:20} {numbers} {row.own_mb:7.0f}  {state:4} {'' if row.ended else 'stopped'}"


def measured(name: str, size: int, large: bool, arguments: argparse.Namespace, tools: list[Peer], stream: TextIO) -> list[Row]:
    """Return the rows of one model, and print each as soon as it is known."""
    with TemporaryDirectory(prefix="bench-reduce-") as place:
        text = with_constants(model(name, size)) if large else model(name, size)
        task = task_of(name, text, Path(place, "task"))
        note = f", {len(text) >> 21} MB of constants" if large else ""
        print(f"{name}, {text.count(chr(10))} lines, {sized(task, task.model)[1]} operations{note}", file=stream, flush=True)
        rows: list[Row] = []
        for row in compared(task, [] if large else tools, arguments.time_limit, arguments.location):
            print(row_text(row), file=stream, flush=True)
            rows.append(row)
    if ratio := ratio_of(rows):
        bound = "at most " if ratio.at_most else ""
        print(f"  triage : {ratio.peer}  calls {bound}{ratio.calls}, wall {bound}{ratio.seconds}", file=stream, flush=True)
    return rows


def _wanted() -> str:
    """The interpreter for the newest Shrink Ray, else this program's own."""
    found = (interpreter(version) for version in ((3, 12), (3, 13), (3, 14)))
    return str(next((path for path in found if path), sys.executable))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", default=",".join(PATTERNS), help="Comma-separated names (default: all).")
    parser.add_argument("--lines", default="1000,5000,20000", help="Comma-separated sizes of the models.")
    parser.add_argument("--time-limit", type=float, default=300.0, help="Seconds for each peer; 0 runs no peers.")
    parser.add_argument("--location", choices=("shown", "hidden", "both"), default="both", help="The failure's location.")
    parser.add_argument("--large", action="store_true", help="Also reduce a model with 100 MB of constants.")
    parser.add_argument("--python", default=_wanted(), help="Interpreter for the peers; Shrink Ray needs 3.12 or newer.")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    arguments = parser.parse_args()
    names = [name for name in arguments.patterns.split(",") if name]
    if unknown := set(names) - set(PATTERNS):
        parser.error(f"unknown pattern {', '.join(unknown)}; choose from {', '.join(PATTERNS)}")
    tools, missing = peers(arguments.python) if arguments.time_limit else ([], [])
    for line in missing:
        print(line, file=sys.stderr)
    stream = sys.stdout if arguments.format == "text" else sys.stderr
    print(", ".join(f"{peer.name} {peer.version}" for peer in tools) or "no peers", file=stream)
    found: list[dict[str, object]] = []
    jobs = [(name, int(size), False) for size in arguments.lines.split(",") if size for name in names]
    jobs += [("shared-memory", _LARGE, True)] if arguments.large else []
    print(f"  {'':20}  lines    ops  asked  calls     wall      cpu  own MB  same", file=stream)
    for name, size, large in jobs:
        rows = measured(name, size, large, arguments, tools, stream)
        ratio = ratio_of(rows)
        found.append({"rows": [asdict(row) for row in rows], "ratio": asdict(ratio) if ratio else None})
    if arguments.format == "json":
        print(json.dumps({"peers": {peer.name: peer.version for peer in tools}, "missing": missing, "inputs": found}))


if __name__ == "__main__":
    main()
