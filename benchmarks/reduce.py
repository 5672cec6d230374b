"""Reduce large models with one failing part each with `triage reduce`, and with C-Vise,
Shrink Ray and picire.

Run: `python -m benchmarks.reduce [--patterns NAME,NAME] [--lines N,N] [--time-limit
SECONDS]`. The models are in `tests/reduce/large_models.py`. The peers get an
interestingness test as a user writes it: a shell script that compiles with the bad
release, looks for the error's text and compiles with the good release. They are stopped
after the time limit (0: no peers) and judged by their smallest interesting candidate.
Shrink Ray needs Python 3.12 or newer: PEER_PYTHON names an interpreter.
`compiles` counts both releases. Blank lines do not count. NOT THE SAME FAILURE: the
script refuses the result of triage.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import LINES, TRIAGE, Ratio, cost_of, new_home
from tests.reduce.large_models import PATTERNS, model, recipe

WORKERS = 2
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
compile() {{ echo compile >> "$folder/calls"; timeout {timeout} sh -c "$1" compile "$candidate" > "$output" 2>&1; }}
compile {bad}
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ] || exit 1
{check} || exit 1
{good}cp "$candidate" "$folder/draft.$$"
mv "$folder/draft.$$" "$folder/kept/$(printf %012d "$(wc -c < "$candidate")")"
"""


@dataclass(frozen=True)
class Peer:
    """A reducer that calls a script with a candidate. command: script and file -> what
    to run in the file's folder.
    """

    name: str
    command: Callable[[str, str], list[str]]


@dataclass(frozen=True)
class Result:
    """One reduction. lines: None when nothing was found. ended: by itself, within the
    time limit.
    """

    who: str
    lines: int | None
    compiles: int
    seconds: float
    ended: bool = True
    same: bool = True

    def __str__(self) -> str:
        note = ("" if self.ended else "  stopped") + (
            "" if self.same else "  NOT THE SAME FAILURE"
        )
        lines = "-" if self.lines is None else self.lines
        return f"  {self.who:12} {lines:>6} lines {self.compiles:6} compiles {self.seconds:8.1f} s{note}"


def peers() -> list[Peer]:
    """Return the available peers; install Shrink Ray and picire from PyPI into the
    user's cache.
    """
    found = []
    if cvise := shutil.which("cvise"):
        found.append(
            Peer(
                "C-Vise",
                lambda script, file: [cvise, "--not-c", f"--n={WORKERS}", script, file],
            )
        )
    else:
        print("C-Vise is not installed: apt-get install cvise", file=sys.stderr)
    words = [
        f"--parallelism={WORKERS}",
        "--input-type=arg",
        "--ui=basic",
        "--volume=quiet",
    ]
    more = ["-o", "out", "-p", "-j", str(WORKERS), "-q", "--cache=content"]
    if ray := _installed(
        "shrinkray", os.environ.get("PEER_PYTHON", "python3.12"), "shrinkray"
    ):
        found.append(
            Peer("Shrink Ray", lambda script, file: [ray, *words, script, file])
        )
    # picire imports pkg_resources, which newer setuptools do not have.
    if picire := _installed("picire", sys.executable, "picire", "setuptools<81"):
        found.append(
            Peer(
                "picire",
                lambda script, file: [picire, "-i", file, "--test", script, *more],
            )
        )
    return found


def _installed(program: str, python: str, *packages: str) -> str | None:
    """Return the path of a program from PyPI, in a virtual environment of its own; None
    if it cannot be installed.
    """
    folder = Path.home() / ".cache" / "triage-benchmarks" / program
    path = folder / "bin" / program
    if not path.is_file():
        uv = [sys.executable, "-m", "uv", "--quiet", "--no-python-downloads"]
        install = [
            *uv,
            "pip",
            "install",
            "--python",
            str(folder / "bin" / "python"),
            "--no-build",
            *packages,
        ]
        for command in (
            [*uv, "venv", "--clear", "--python", python, str(folder)],
            install,
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(
                    f"{program} could not be installed: {done.stderr.strip()[-200:]}",
                    file=sys.stderr,
                )
                return None
    return str(path)


def lines_of(path: Path) -> int:
    """Count the lines that are not blank."""
    return sum(
        bool(line.strip()) for line in path.read_text("utf-8", "replace").splitlines()
    )


def oracle(name: str, folder: Path, source: Path, env: dict[str, str]) -> Path:
    """Write the interestingness test of a model in `source`, which keeps candidates in
    `kept` and counts in `calls`.
    """
    pattern = PATTERNS[name]
    (folder / "kept").mkdir(parents=True)
    (folder / "calls").touch()

    def words(version: str) -> str:
        line = cost_of([*LINES, str(source), version], env=env).stdout.strip()
        return shlex.quote(line.replace(str(source.with_name("model.mlir")), '"$1"'))

    text = TEXTS.get(name)
    check = f'grep -qF {shlex.quote(text)} "$output"' if text else "[ $status -ge 128 ]"
    good = f"compile {words(pattern.good)} || exit 1\n" if pattern.good else ""
    script = folder / "oracle.sh"
    script.write_text(
        SCRIPT.format(
            folder=folder, timeout=60, bad=words(pattern.bad), good=good, check=check
        )
    )
    script.chmod(0o755)
    return script


def with_triage(
    name: str, source: Path, folder: Path, env: dict[str, str], script: Path
) -> Result:
    """Reduce with triage, and ask the peers' script about the result."""
    pattern = PATTERNS[name]
    good = ["--good", pattern.good] if pattern.good else []
    words = [
        "--toolchain",
        pattern.bad,
        *good,
        f"--jobs={WORKERS}",
        "--format=json",
        "--out",
        str(folder / "out"),
    ]
    done = cost_of([*TRIAGE, "reduce", str(source), *words], env=env)
    answer = json.loads(done.stdout)
    result = Path(answer["reproducer"], "input.mlir")
    same = subprocess.run([str(script), str(result)], check=False).returncode == 0
    return Result(
        "triage", lines_of(result), answer["oracle_calls"], done.wall, same=same
    )


def with_peer(
    peer: Peer, name: str, source: Path, folder: Path, env: dict[str, str], limit: float
) -> Result:
    """Reduce with a peer for at most `limit` seconds."""
    script = oracle(name, folder, source, env)
    shutil.copy(source.with_name("model.mlir"), folder / "model.mlir")
    started = time.perf_counter()
    command = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "--",
        *peer.command(str(script), "model.mlir"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(limit)
        seconds, ended = time.perf_counter() - started, process.returncode is not None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    kept = sorted((folder / "kept").iterdir())
    compiles = (folder / "calls").read_text().count("compile")
    return Result(
        peer.name, lines_of(kept[0]) if kept else None, compiles, seconds, ended
    )


def reduced(name: str, size: int, limit: float) -> Iterator[Result]:
    """Reduce one model with triage, then with each peer."""
    with TemporaryDirectory(prefix="bench-reduce-") as place:
        folder = Path(place)
        (folder / "model.mlir").write_text(model(name, size))
        source = folder / "recipe.yaml"
        source.write_text(recipe(name, "model.mlir"))
        env = new_home(folder / "home")
        yield with_triage(
            name,
            source,
            folder / "triage",
            env,
            oracle(name, folder / "triage", source, env),
        )
        for peer in peers() if limit else []:
            yield with_peer(
                peer, name, source, folder / peer.name.replace(" ", "-"), env, limit
            )


def ratios(
    name: str = "undeclared-device", size: int = 300, limit: float = 60.0
) -> Iterator[Ratio]:
    """Reduce one small model."""
    mine, *others = reduced(name, size, limit)
    for other in others:
        state = "" if other.ended else f", stopped after {limit:.0f} s"
        yield Ratio(
            f"reduce {size} lines ({name}), lines left",
            mine.lines or 0,
            other.who + state,
            other.lines or size,
            "lines",
        )
        yield Ratio(
            "the same, compiles",
            mine.compiles,
            other.who + state,
            other.compiles,
            "compiles",
        )


def main() -> None:
    """Print the results of each model and size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--patterns",
        default=",".join(PATTERNS),
        help="Comma-separated names (default: all).",
    )
    parser.add_argument(
        "--lines", default="1000", help="Comma-separated sizes of the models."
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=300.0,
        help="Seconds for each peer; 0 runs no peers.",
    )
    options = parser.parse_args()
    for size in map(int, options.lines.split(",")):
        for name in options.patterns.split(","):
            print(f"{name}, {size} lines", flush=True)
            for result in reduced(name, size, options.time_limit):
                print(result, flush=True)


if __name__ == "__main__":
    main()
