"""`triage reduce` beside C-Vise, Shrink Ray and picire, on large models with one failing part each.

Run: `python -m benchmarks.reduce [--patterns NAME,NAME] [--lines N,N] [--time-limit SECONDS] [--format json]`, from the root
of the project. Everybody asks the same question (`reduce_oracle.py`) about the same files, with two workers; the peers are
ended after the time limit and judged by the smallest candidate that was interesting. Triage runs twice: as it is, and with
the failure's location hidden from it. Its result is put to the peers' oracle as well: `same` is that answer.

`calls` counts compiles, on either toolchain; `asked` how often a peer called its script. Lines are those that are not blank.
`--large` also reduces a model of 20,000 lines whose weights are 100 MB of constants, and prints the memory that took.
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
HIDDEN = f"import triage.reduce.workflow as workflow; workflow._line = lambda failure: None; {MAIN}"
OURS, WITHOUT = "triage", "triage, no location"
_LONG = 3600.0  # seconds for a reduction of ours
_LARGE = 20_000


@dataclass(frozen=True)
class Row:
    """One reduction. same: whether the result fails as the original did, None where there is no result."""

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
    said = json.loads(answer.read_text())
    folder = Path(said["reproducer"])
    [case] = load_cases([folder / "recipe.yaml"])
    check = here / "check"
    check.mkdir()
    asking = [str(script(check, planned(task, case, start))), str(case.input.path)]
    same = subprocess.run(asking).returncode == 0
    return row(task, who, case.input.path, (0, said["oracle_calls"]), run, same)


def of_peer(task: Task, start: Baseline, peer: Peer, limit: float) -> Row:
    here = task.folder / peer.name.replace(" ", "-")
    here.mkdir()
    (here / "model.mlir").write_bytes(task.model.read_bytes())
    run = timed(peer.command(str(script(here, planned(task, task.case, start))), "model.mlir"), here, limit)
    kept = sorted((here / "oracle" / "kept").iterdir())
    said = (here / "oracle" / "calls").read_text().split()
    counts = said.count("call"), said.count("bad") + said.count("good")
    return row(task, peer.name, kept[0] if kept else None, counts, run, True if kept else None)


def row(task: Task, who: str, result: Path | None, counts: tuple[int, int], run: Run, same: bool | None) -> Row:
    lines, operations = sized(task, result) if result else (None, None)
    before = sum(1 for _ in task.model.open())
    spent = round(run.seconds, 1), round(run.cpu_seconds, 1), round(run.own_mb)
    return Row(task.pattern, before, who, lines, operations, *counts, *spent, run.ended, same)


def compared(task: Task, tools: list[Peer], limit: float, modes: str) -> Iterator[Row]:
    """Ours first, then the peers."""
    start = started(task)
    if modes != "hidden":
        yield ours(task, start, OURS)
    if modes != "shown" and (PATTERNS[task.pattern].located or modes == "hidden"):
        yield ours(task, start, WITHOUT)
    for peer in tools:
        yield of_peer(task, start, peer, limit)


@dataclass(frozen=True)
class Ratio:
    """Ours to the best peer, the one with the fewest lines left. at_most: it was stopped with more lines than ours, and would
    have needed more.
    """

    peer: str
    calls: float
    seconds: float
    at_most: bool


def ratio_of(rows: list[Row]) -> Ratio | None:
    """None where there is nothing to compare."""
    mine, others = rows[0], [one for one in rows if not one.who.startswith(OURS) and one.lines and one.calls]
    if not others or mine.lines is None:
        return None
    best = min(others, key=lambda one: (one.lines or 0, -one.calls))
    at_most = not best.ended and (best.lines or 0) > mine.lines
    return Ratio(best.who, round(mine.calls / best.calls, 3), round(mine.seconds / best.seconds, 3), at_most)


def with_constants(text: str) -> str:
    """The model with its blocks' weights as constants of its own, each of other numbers."""
    numbers = np.random.default_rng(0)
    argument = re.compile(r", %(b\d+_w\d): (tensor<(\d+)x(\d+)xf32>)")
    head, _, body = text.partition("{\n  %c0")

    def constant(found: re.Match[str]) -> str:
        values = numbers.standard_normal(int(found[3]) * int(found[4]), dtype=np.float32)
        return f'  %{found[1]} = arith.constant dense<"0x{values.tobytes().hex()}"> : {found[2]}\n'

    made = "".join(map(constant, argument.finditer(head)))
    return f"{argument.sub('', head)}{{\n{made}  %c0{body}"


def shown(one: Row) -> str:
    state = {True: "yes", False: "NO", None: "-"}[one.same]
    left = [("-" if value is None else f"{value}") for value in (one.lines, one.operations)]
    numbers = f"{left[0]:>6} {left[1]:>6} {one.asked or '':>6} {one.calls:>6} {one.seconds:8.1f} {one.cpu_seconds:8.1f}"
    return f"  {one.who:20} {numbers} {one.own_mb:7.0f}  {state:4} {'' if one.ended else 'stopped'}"


def measured(name: str, size: int, large: bool, given: argparse.Namespace, tools: list[Peer], said: TextIO) -> list[Row]:
    """The rows of one model, each told as soon as it is there."""
    with TemporaryDirectory(prefix="bench-reduce-") as place:
        text = with_constants(model(name, size)) if large else model(name, size)
        task = task_of(name, text, Path(place, "task"))
        note = f", {len(text) >> 21} MB of constants" if large else ""
        print(f"{name}, {text.count(chr(10))} lines, {sized(task, task.model)[1]} operations{note}", file=said, flush=True)
        rows: list[Row] = []
        for one in compared(task, [] if large else tools, given.time_limit, given.location):
            print(shown(one), file=said, flush=True)
            rows.append(one)
    if ratio := ratio_of(rows):
        bound = "at most " if ratio.at_most else ""
        print(f"  triage : {ratio.peer}  calls {bound}{ratio.calls}, wall {bound}{ratio.seconds}", file=said, flush=True)
    return rows


def _wanted() -> str:
    """An interpreter that the newest Shrink Ray runs on, else this program's own, which may get no Shrink Ray."""
    found = (interpreter(version) for version in ((3, 12), (3, 13), (3, 14)))
    return str(next((path for path in found if path), sys.executable))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", default=",".join(PATTERNS), help="names, with commas between them")
    parser.add_argument("--lines", default="1000,5000,20000", help="sizes, with commas between them")
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds for each peer; 0 leaves them out")
    parser.add_argument("--location", choices=("shown", "hidden", "both"), default="both", help="for triage")
    parser.add_argument("--large", action="store_true", help="one model with 100 MB of constants as well")
    parser.add_argument("--python", default=_wanted(), help="for the peers' environment; Shrink Ray wants 3.12 or newer")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    given = parser.parse_args()
    names = [name for name in given.patterns.split(",") if name]
    if unknown := set(names) - set(PATTERNS):
        parser.error(f"there is no pattern {', '.join(unknown)}; there is {', '.join(PATTERNS)}")
    tools, missing = peers(given.python) if given.time_limit else ([], [])
    for line in missing:
        print(line, file=sys.stderr)
    said = sys.stdout if given.format == "text" else sys.stderr
    print(", ".join(f"{peer.name} {peer.version}" for peer in tools) or "no peers", file=said)
    found: list[dict[str, object]] = []
    jobs = [(name, int(size), False) for size in given.lines.split(",") if size for name in names]
    jobs += [("shared-memory", _LARGE, True)] if given.large else []
    print(f"  {'':20}  lines    ops  asked  calls     wall      cpu  own MB  same", file=said)
    for name, size, large in jobs:
        rows = measured(name, size, large, given, tools, said)
        ratio = ratio_of(rows)
        found.append({"rows": [asdict(one) for one in rows], "ratio": asdict(ratio) if ratio else None})
    if given.format == "json":
        print(json.dumps({"peers": {peer.name: peer.version for peer in tools}, "missing": missing, "inputs": found}))


if __name__ == "__main__":
    main()
