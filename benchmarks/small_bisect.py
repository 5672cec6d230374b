"""A commit bisect beside `git bisect run` on a small compiler that is really built: compiles, wall time, right or wrong.

Run: `python -m benchmarks.small_bisect [--jobs N] [--format json]`. A git repository of 240 commits builds a native compiler of
a few files. A fifth of the commits does not build, fails otherwise or crashes, as in real histories; around the culprit all is
well. Its subject looks like the culprit's in one history (`helpful`), and another's does in the other (`misleading`). All use
the same script, which builds a commit with `cc`. Beside triage run, each from nothing:

- `git bisect run` where whatever fails counts as bad, a missing compiler included;
- `git bisect run` where a missing compiler is skipped (exit 125), and whatever fails counts as bad.

`built` counts commits whose compiler was asked for, `compiles` what was compiled with them, the ends and the confirmation
included: git takes the ends on trust and confirms nothing.
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

from tests.timeline.history import ENV

from tests.bisect.driving import CULPRIT, MIXED, PROJECT, SCRIPT
from tests.bisect.small_compiler import CALLS, PROGRAM, RECIPE, SmallCompiler, begin

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
class Place:
    """A folder of one bisect's own: recipe, project, script, and the file that builds and compilers append to."""

    folder: Path
    small: SmallCompiler

    def begin(self) -> dict[str, str]:
        """Write everything; the environment to run in."""
        self.folder.mkdir()
        script = self.folder / "toolchain.sh"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        (self.folder / "m.mlir").write_text(PROGRAM)
        (self.folder / "attention.yaml").write_text(RECIPE)
        (self.folder / "triage.yaml").write_text(f"{PROJECT}command:\n  run: {script}\n")
        (self.folder / "calls").touch()
        own = {CALLS: str(self.folder / "calls"), "SMALL_REPO": str(self.small.path), "TRIAGE_HOME": str(self.folder / "home")}
        return os.environ | ENV | own

    def result(self, who: str, history: str, seconds: float, named: set[str]) -> Result:
        said = [line.split()[1] for line in (self.folder / "calls").read_text().splitlines()]
        built, compiles = said.count("build"), len(said) - said.count("build")
        return Result(who, history, built, compiles, round(seconds, 1), len(named), named == {self.small.sha})


def ours(place: Place, history: str, jobs: int) -> Result:
    env, small, here = place.begin(), place.small, place.folder
    ends = ["--good", f"commit:{small.shas[0]}", "--bad", f"commit:{small.shas[-1]}", "--jobs", str(jobs)]
    where = ["--repo", str(small.path), "--project", str(here / "triage.yaml"), "--format", "json"]
    begun = time.perf_counter()
    done = subprocess.run(
        [*TRIAGE, "bisect", str(here / "attention.yaml"), *ends, *where], env=env, capture_output=True, text=True
    )
    seconds = time.perf_counter() - begun
    assert done.returncode in (0, 3), done.stderr
    return place.result(
        f"triage --jobs {jobs}", history, seconds, {one["commit"] for one in json.loads(done.stdout)["suspects"]}
    )


def gits(place: Place, history: str, status: int, who: str) -> Result:
    env, small, here = place.begin(), place.small, place.folder
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
    one = re.search(r"^([0-9a-f]{40}) is the first bad commit", done.stdout, re.MULTILINE)
    several = done.stdout.partition("could be any of:")[2]
    named = {one[1]} if one else set(re.findall(r"^[0-9a-f]{40}$", several, re.MULTILINE))
    assert named, done.stdout + done.stderr
    return place.result(who, history, seconds, named)


def measure(scratch: Path, jobs: int) -> list[Result]:
    found: list[Result] = []
    for history, suspicious in (("helpful", None), ("misleading", 180)):
        small = begin(scratch / history, MIXED, CULPRIT, suspicious=suspicious)
        places = [Place(scratch / f"{history}-{number}", small) for number in range(4)]
        found.append(ours(places[0], history, 1))
        found.append(ours(places[1], history, jobs))
        found.append(gits(places[2], history, 1, "git, missing is bad"))
        found.append(gits(places[3], history, 125, "git, missing is skipped"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    with TemporaryDirectory() as place:
        results = measure(Path(place), options.jobs)
    if options.format == "json":
        print(json.dumps({"commits": len(MIXED) - 1, "results": [asdict(one) for one in results]}))
        return
    print(f"{len(MIXED) - 1} commits\n{'':24} {'subjects':11} built compiles  seconds  answer")
    for one in results:
        answer = ("right" if one.right else "WRONG") + (f" ({one.left} suspects)" if one.left > 1 else "")
        print(f"{one.who:24} {one.history:11} {one.built:5} {one.compiles:8} {one.seconds:8.1f}  {answer}")


if __name__ == "__main__":
    main()
