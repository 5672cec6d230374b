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
import os
import random
import re
import shlex
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.reduce_inputs import PATTERNS, model, recipe
from benchmarks.reduce_oracle import Plan
from benchmarks.reduce_peers import WORKERS, Peer, Run, peers, timed
from triage.cli.bench import COMPILERS, load_cases, open_bench
from triage.compilers.port import Invocation
from triage.model.case import Case
from triage.model.revision import Toolchain
from triage.probe.judge import same_signature
from triage.probe.prober import Naming
from triage.probe.reading import Reader
from triage.reduce.ends import Baseline, baseline
from triage.reduce.mlir.format import MlirFormat
from triage.toolchains.home import home_path

MAIN = "from triage.cli import main; main()"
HIDDEN = f"import triage.reduce.workflow as workflow; workflow._line = lambda failure: None; {MAIN}"
OURS, WITHOUT = "triage", "triage, no location"
ROOT = Path(__file__).parent.parent
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


@dataclass(frozen=True)
class Task:
    """A model in a folder of its own, the case of its recipe, and the toolchains."""

    pattern: str
    folder: Path
    case: Case
    bad: Toolchain
    good: Toolchain | None

    @property
    def model(self) -> Path:
        return self.case.input.path

    @property
    def env(self) -> dict[str, str]:
        """A home with these toolchains alone: without evidence, and what is left is not probed on any other release."""
        return {**os.environ, "TRIAGE_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT)}


def task_of(pattern: str, text: str, folder: Path) -> Task:
    """The toolchains are installed in the user's own home, where they are not there yet."""
    folder.mkdir()
    (folder / "model.mlir").write_text(text)
    (folder / f"{pattern}.yaml").write_text(recipe(pattern, "model.mlir"))
    [case] = load_cases([folder / f"{pattern}.yaml"])
    with open_bench() as bench:
        names = [PATTERNS[pattern].bad, PATTERNS[pattern].good]
        bad, *others = [bench.shed.obtain(bench.shed.place(name, case.compiler)) for name in names if name]
    task = Task(pattern, folder, case, bad, others[0] if others else None)
    fresh_home(task)
    return task


def fresh_home(task: Task) -> None:
    """Nothing in it but the task's toolchains and what is known of them."""
    home = task.folder / "home"
    (home / "toolchains").mkdir(parents=True)
    for name in ("described", "index"):
        (home / name).symlink_to(home_path() / name)
    for toolchain in (task.bad, task.good):
        if toolchain:
            (home / "toolchains" / toolchain.root.name).symlink_to(toolchain.root)


@contextmanager
def living_in(task: Task) -> Iterator[None]:
    """TRIAGE_HOME is the task's."""
    before = os.environ.get("TRIAGE_HOME")
    os.environ["TRIAGE_HOME"] = task.env["TRIAGE_HOME"]
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRIAGE_HOME"]
        else:
            os.environ["TRIAGE_HOME"] = before


def started(task: Task) -> Baseline:
    """What a reduction of triage starts from, which the peers' oracle is made of."""
    with living_in(task), open_bench(WORKERS) as bench:
        found = baseline(bench, task.case, task.bad, task.good, same_signature, None)
    assert isinstance(found, Baseline), found.reason
    assert found.repeats == 1, found.notes
    return found


def planned(task: Task, case: Case, start: Baseline) -> Plan:
    """The oracle of a case: the task's own, or what a reduction has made of it."""
    compiler = COMPILERS[case.compiler]

    def words(toolchain: Toolchain, naming: bool) -> tuple[list[str], Invocation]:
        invocation = compiler.invocation(case, toolchain)
        assert isinstance(invocation, Invocation)
        chosen = compiler.naming_the_pass(invocation, crashed=False) if naming else invocation
        return chosen.argv(toolchain.program, Path("INPUT"), Path("OUTPUT")), invocation

    naming = start.naming is Naming.AT_ONCE
    bad, invocation = words(task.bad, naming)
    good = words(task.good, naming=False)[0] if task.good else None
    timeout = max(10.0, 4 * start.seconds)
    return Plan(bad, good, dict(invocation.env), start.failure.signature, naming, timeout, case.limits.memory)


def script(folder: Path, plan: Plan) -> Path:
    """The oracle as peers call it: with a path, or with the model beside them."""
    path = folder / "oracle.sh"
    words = [sys.executable, "-m", "benchmarks.reduce_oracle", str(plan.write(folder / "oracle"))]
    line = f'PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.join(words)} "$(realpath "${{1:-model.mlir}}")"'
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def sized(task: Task, path: Path) -> tuple[int, int | None]:
    """Lines that are not blank, and operations where the bad toolchain reads it."""
    lines = sum(bool(line.strip()) for line in path.read_text("utf-8", "replace").splitlines())
    tools = COMPILERS[task.case.compiler].mlir_tools(task.bad)
    assert tools
    form = MlirFormat(Reader(tools, threading.Event()))
    documents = form.open(path)
    form.close()
    return lines, documents[-1].size if documents else None


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


def compared(task: Task, tools: list[Peer], limit: float) -> Iterator[Row]:
    """Ours first, then the peers."""
    start = started(task)
    yield ours(task, start, OURS)
    if PATTERNS[task.pattern].located:
        yield ours(task, start, WITHOUT)
    for peer in tools:
        yield of_peer(task, start, peer, limit)


def ratios(rows: list[Row]) -> dict[str, float] | None:
    """Ours to the best peer, which is the one with the fewest lines left; of compiles, wall time and lines."""
    mine, others = rows[0], [one for one in rows if not one.who.startswith(OURS) and one.lines and one.calls]
    if not others or mine.lines is None:
        return None
    best = min(others, key=lambda one: (one.lines or 0, one.calls))
    return {
        "calls": round(mine.calls / best.calls, 3),
        "seconds": round(mine.seconds / best.seconds, 3),
        "lines": round(mine.lines / (best.lines or 1), 3),
    }


def with_constants(text: str) -> str:
    """The model with its blocks' weights as constants of its own, each of other numbers."""
    numbers = random.Random(0)
    argument = re.compile(r", %(b\d+_w\d): (tensor<(\d+)x(\d+)xf32>)")
    head, _, body = text.partition("{\n  %c0")

    def constant(found: re.Match[str]) -> str:
        count = int(found[3]) * int(found[4])
        values = array("I", (0x3C000000 | numbers.getrandbits(23) for _ in range(count)))  # floats from 2^-7 to 2^-6
        return f'  %{found[1]} = arith.constant dense<"0x{values.tobytes().hex()}"> : {found[2]}\n'

    made = "".join(map(constant, argument.finditer(head)))
    return f"{argument.sub('', head)}{{\n{made}  %c0{body}"


def shown(one: Row) -> str:
    state = {True: "yes", False: "NO", None: "-"}[one.same]
    left = [("-" if value is None else f"{value}") for value in (one.lines, one.operations)]
    numbers = f"{left[0]:>6} {left[1]:>6} {one.asked or '':>6} {one.calls:>6} {one.seconds:8.1f} {one.cpu_seconds:8.1f}"
    return f"  {one.who:20} {numbers} {one.own_mb:7.0f}  {state:4} {'' if one.ended else 'stopped'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", default=",".join(PATTERNS), help="names, with commas between them")
    parser.add_argument("--lines", default="1000,5000,20000", help="sizes, with commas between them")
    parser.add_argument("--time-limit", type=float, default=600.0, help="seconds for each peer; 0 leaves them out")
    parser.add_argument("--large", action="store_true", help="one model with 100 MB of constants as well")
    parser.add_argument("--python", default=sys.executable, help="for the peers' environment; Shrink Ray wants 3.12")
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
        with TemporaryDirectory(prefix="bench-reduce-") as place:
            text = with_constants(model(name, size)) if large else model(name, size)
            task = task_of(name, text, Path(place, "task"))
            note = f", {len(text) >> 21} MB of constants" if large else ""
            print(f"{name}, {text.count(chr(10))} lines, {sized(task, task.model)[1]} operations{note}", file=said, flush=True)
            rows: list[Row] = []
            for one in compared(task, [] if large else tools, given.time_limit):
                print(shown(one), file=said, flush=True)
                rows.append(one)
        ratio = ratios(rows)
        if ratio:
            print(
                "  ours : best peer     " + ", ".join(f"{key} {value}" for key, value in ratio.items()), file=said, flush=True
            )
        found.append({"rows": [asdict(one) for one in rows], "ratio": ratio})
    if given.format == "json":
        print(json.dumps({"peers": {peer.name: peer.version for peer in tools}, "missing": missing, "inputs": found}))


if __name__ == "__main__":
    main()
