"""Compare a commit bisect with `git bisect run` on a small compiler that is built: compiles, wall time, right or wrong.

Run: `python -m benchmarks.small_bisect [--jobs N] [--format json]`. A git repository of 240 commits builds a native compiler of
a few files. A fifth of the commits does not build, has another failure or crashes, as in real histories, but none next to the
culprit. In one history (`helpful`) the culprit's subject is suspicious, in the other (`misleading`) another commit's. All use
the same script, which builds a commit with `cc`. The others, each without a cache, are

- `git bisect run` where every failure counts as bad, a missing compiler included;
- `git bisect run` where a missing compiler is skipped (exit 125), and every failure counts as bad.

`built` counts the commits whose compiler was built, `compiles` the compiles with them. Only triage verifies the ends and
confirms the answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bisect.driving import COMMAND, CULPRIT, MIXED, PROJECT, SCRIPT
from tests.bisect.small_compiler import CALLS, PROGRAM, RECIPE, SmallCompiler, begin
from tests.git_history.history import ENV

TRIAGE = [sys.executable, "-c", "from triage.cli import main; main()", "--quiet"]


@dataclass(frozen=True)
class Result:
    """One bisect. `left`: suspects in the answer; right: it is the culprit alone."""

    who: str
    history: str
    built: int
    compiles: int
    seconds: float
    left: int
    right: bool


@dataclass(frozen=True)
class BenchFolder:
    """The folder of one bisect: recipe, project, script, and the file that builds and compilers append to."""

    folder: Path
    small: SmallCompiler

    def begin(self) -> dict[str, str]:
        """Write the files; return the environment to run in."""
        self.folder.mkdir()
        script = self.folder / "toolchain.sh"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        (self.folder / "m.mlir").write_text(PROGRAM)
        (self.folder / "attention.yaml").write_text(RECIPE)
        (self.folder / "triage.yaml").write_text(PROJECT + COMMAND.format(script=script))
        (self.folder / "calls").touch()
        own = {CALLS: str(self.folder / "calls"), "SMALL_REPO": str(self.small.path), "TRIAGE_HOME": str(self.folder / "home")}
        return os.environ | ENV | own

    def result(self, who: str, history: str, seconds: float, named: set[str]) -> Result:
        events = [line.split()[1] for line in (self.folder / "calls").read_text().splitlines()]
        built, compiles = events.count("build"), len(events) - events.count("build")
        return Result(who, history, built, compiles, round(seconds, 1), len(named), named == {self.small.sha})


def ours(folder: BenchFolder, history: str, jobs: int) -> Result:
    env, small, here = folder.begin(), folder.small, folder.folder
    ends = ["--good", f"commit:{small.shas[0]}", "--bad", f"commit:{small.shas[-1]}", "--jobs", str(jobs)]
    where = ["--repo", str(small.path), "--project", str(here / "triage.yaml"), "--format", "json"]
    begun = time.perf_counter()
    done = subprocess.run(
        [*TRIAGE, "bisect", str(here / "attention.yaml"), *ends, *where], env=env, capture_output=True, text=True
    )
    seconds = time.perf_counter() - begun
    assert done.returncode in (0, 3), done.stderr
    return folder.result(
        f"triage --jobs {jobs}", history, seconds, {one["commit"] for one in json.loads(done.stdout)["suspects"]}
    )


def gits(folder: BenchFolder, history: str, status: int, who: str) -> Result:
    env, small, here = folder.begin(), folder.small, folder.folder
    flags = "--iree-hal-target-backends=rocm --iree-hip-target=gfx942 --compile-to=executable-targets"
    test = here / "test"
    test.write_text(f"""#!/bin/sh
tools="$({here}/toolchain.sh "$(git rev-parse BISECT_HEAD)" 2>/dev/null)/tools/iree-compile" || exit {status}
"$tools" {flags} {here}/m.mlir -o /dev/null 2>/dev/null || exit 1
""")
    test.chmod(0o755)
    clone = here / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(small.path), str(clone)], env=env, check=True)
    start = ["git", "bisect", "start", "--no-checkout", "--first-parent", small.shas[-1], small.shas[0]]
    subprocess.run(start, cwd=clone, env=env, check=True, capture_output=True)
    begun = time.perf_counter()
    done = subprocess.run(["git", "bisect", "run", str(test)], cwd=clone, env=env, capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    culprit = re.search(r"^([0-9a-f]{40}) is the first bad commit", done.stdout, re.MULTILINE)
    several = done.stdout.partition("could be any of:")[2]
    named = {culprit[1]} if culprit else set(re.findall(r"^[0-9a-f]{40}$", several, re.MULTILINE))
    assert named, done.stdout + done.stderr
    return folder.result(who, history, seconds, named)


def measure(scratch: Path, jobs: int) -> list[Result]:
    results: list[Result] = []
    for history, suspicious in (("helpful", None), ("misleading", 180)):
        small = begin(scratch / history, MIXED, CULPRIT, suspicious=suspicious)
        folders = [BenchFolder(scratch / f"{history}-{number}", small) for number in range(4)]
        results.append(ours(folders[0], history, 1))
        results.append(ours(folders[1], history, jobs))
        results.append(gits(folders[2], history, 1, "git, missing is bad"))
        results.append(gits(folders[3], history, 125, "git, missing is skipped"))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    with TemporaryDirectory() as scratch:
        results = measure(Path(scratch), options.jobs)
    if options.format == "json":
        print(json.dumps({"commits": len(MIXED) - 1, "results": [asdict(result) for result in results]}))
        return
    print(f"{len(MIXED) - 1} commits\n{'':24} {'subjects':11} built compiles  seconds  answer")
    for result in results:
        answer = ("right" if result.right else "WRONG") + (f" ({result.left} suspects)" if result.left > 1 else "")
        print(f"{result.who:24} {result.history:11} {result.built:5} {result.compiles:8} {result.seconds:8.1f}  {answer}")


if __name__ == "__main__":
    main()
