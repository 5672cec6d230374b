"""Reduce large models with one failing part each with `triage reduce`, and with Shrink
Ray and picire.

Run: `python -m benchmarks.reduce [LINES [PATTERN...]]`, with 1,000 lines when left out.
The models are in `tests/reduce/large_models.py`. The peers get a test as a user writes
it: a shell script that compiles with the bad release, looks for the error's text and
compiles with the good release. They are stopped after five minutes and judged by their
smallest interesting candidate. `compiles` counts both releases. Blank lines do not
count. NOT THE SAME FAILURE: the script refuses the result of triage. Shrink Ray needs
Python 3.12 or newer: UV_PYTHON names an interpreter.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import TRIAGE, Ratio, command_lines, cost_of, new_home
from tests.reduce.large_models import PATTERNS, model, recipe

UVX = [sys.executable, "-m", "uv", "tool", "run", "--quiet"]
PEERS = {
    "Shrink Ray": (
        # newer ones build a language model's runtime
        "shrinkray@25.12.26.0",
        "--parallelism=2 --input-type=arg --ui=basic --volume=quiet ./oracle.sh model.mlir",
    ),
    # it imports pkg_resources, which newer setuptools do not have
    "picire": (
        "--with setuptools<81 picire",
        "-i model.mlir --test ./oracle.sh -o out -p -j 2 -q --cache=content",
    ),
}
# Text of the error that a candidate must show. A crash has none: any signal counts.
TEXTS = {
    "shared-memory": "exceeded the limit of",
    "undeclared-device": "a promised device that was not declared",
    "legalization": "failed to legalize operation 'math.erfc'",
    "stack-limit": "exceeded stack allocation limit",
    "distribution": "failed to distribute",
}
SCRIPT = """#!/bin/sh
folder={folder}
candidate=$(realpath "${{1:-model.mlir}}")
output=$(mktemp)
trap 'rm -f "$output"' EXIT
compile() {{ echo compile >> "$folder/calls"; timeout 60 sh -c "$1" compile "$candidate" > "$output" 2>&1; }}
compile {bad}
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ] || exit 1
{check} || exit 1
{good}cp "$candidate" "$folder/draft.$$"
mv "$folder/draft.$$" "$folder/kept/$(printf %012d "$(wc -c < "$candidate")")"
"""


@dataclass(frozen=True)
class Result:
    """One reduction. lines: None when nothing was found."""

    who: str
    lines: int | None
    compiles: int
    seconds: float
    note: str = ""

    def __str__(self) -> str:
        size = f"  {self.who:12} {self.lines or '-':>6} lines"
        return f"{size} {self.compiles:6} compiles {self.seconds:8.1f} s{self.note}"


def lines_of(path: Path) -> int:
    """Count the lines that are not blank."""
    lines = path.read_text("utf-8", "replace").splitlines()
    return sum(bool(line.strip()) for line in lines)


def write_oracle(name: str, folder: Path, source: Path) -> None:
    """Write the interestingness test of a model in `source`, which keeps candidates in
    `kept` and counts in `calls`.
    """
    pattern = PATTERNS[name]
    (folder / "kept").mkdir(parents=True)
    (folder / "calls").touch()

    def words(version: str) -> str:
        line = command_lines(source, version, Path(os.devnull)).strip()
        return shlex.quote(line.replace(str(source.with_name("model.mlir")), '"$1"'))

    check, good = "[ $status -ge 128 ]", ""
    if name in TEXTS:
        check = f'grep -qF {shlex.quote(TEXTS[name])} "$output"'
    if pattern.good:
        good = f"compile {words(pattern.good)} || exit 1\n"
    script = folder / "oracle.sh"
    bad = words(pattern.bad)
    script.write_text(SCRIPT.format(folder=folder, bad=bad, good=good, check=check))
    script.chmod(0o755)


def with_triage(name: str, source: Path, folder: Path, env: dict[str, str]) -> Result:
    """Reduce with triage, and ask the peers' script about the result."""
    pattern = PATTERNS[name]
    words = ["reduce", str(source), "-t", pattern.bad, "--jobs", "2"]
    if pattern.good:
        words += ["--good", pattern.good]
    command = [*TRIAGE, *words, "--format=json", "--out", str(folder / "out")]
    done = cost_of(command, env=env)
    answer = json.loads(done.stdout)
    result = Path(answer["reproducer"], "input.mlir")
    asked = subprocess.run([folder / "oracle.sh", result], check=False)
    note = "  NOT THE SAME FAILURE" if asked.returncode else ""
    calls = answer["oracle_calls"]
    return Result("triage", lines_of(result), calls, done.wall, note)


def with_peer(who: str, folder: Path, limit: float) -> Result:
    """Reduce with a peer for at most `limit` seconds."""
    tool, words = PEERS[who]
    program = [*UVX, *tool.split()]
    subprocess.run([*program, "--help"], capture_output=True, check=False)  # install it
    started = time.perf_counter()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*program, *words.split()],
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    note = "  stopped"
    with suppress(subprocess.TimeoutExpired):
        code = process.wait(limit)
        note = f"  exit code {code}" if code else ""
    seconds = time.perf_counter() - started
    # workers may be in process groups of their own
    subprocess.run(["pkill", "-KILL", "--session", str(process.pid)], check=False)
    kept = sorted((folder / "kept").iterdir())
    lines = lines_of(kept[0]) if kept else None
    compiles = (folder / "calls").read_text().count("compile")
    return Result(who, lines, compiles, seconds, note)


def reduced(name: str, size: int, limit: float) -> Iterator[Result]:
    """Reduce one model with triage, then with each peer."""
    with new_home() as (place, env):
        text, source = model(name, size), place / "recipe.yaml"
        source.with_name("model.mlir").write_text(text)
        source.write_text(recipe(name, "model.mlir"))
        for who in ("triage", *PEERS):
            folder = place / who.replace(" ", "-")
            write_oracle(name, folder, source)
            (folder / "model.mlir").write_text(text)
            if who == "triage":
                yield with_triage(name, source, folder, env)
            else:
                yield with_peer(who, folder, limit)


def ratios(
    name: str = "undeclared-device", size: int = 300, limit: float = 60.0
) -> Iterator[Ratio]:
    """Reduce one small model."""
    ours, *others = reduced(name, size, limit)
    title = f"reduce {size} lines ({name}), "
    for other in filter(lambda other: other.compiles, others):
        peer = other.who + other.note
        lines = other.lines or size
        yield Ratio(title + "lines left", ours.lines or 0, peer, lines, "lines")
        yield Ratio("the same", ours.compiles, peer, other.compiles, "compiles")


def main() -> None:
    """Print the results of each model."""
    lines, *names = sys.argv[1:] or ["1000"]
    for name in names or PATTERNS:
        print(f"{name}, {lines} lines", flush=True)
        for result in reduced(name, int(lines), 300.0):
            print(result, flush=True)


if __name__ == "__main__":
    main()
