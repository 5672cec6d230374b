"""Compare commit bisects on a clone of iree-org/iree with `git bisect run`: tests, rounds, wall time, right or wrong.

Run: `python benchmarks/commit_bisect.py --repo CLONE [--obtain SECONDS] [--format json]`. A script serves the main-line
commits between the releases 3.3.0 and 3.4.0: the compiler of 3.2.0 before 272a7ffc88 (#20320) and that of 3.3.0 from it on,
with which the LLaMA attention fails to compile. Every third commit has no artifact. Each third is tried, so that the artifact
of the culprit, of its predecessor, or of neither is missing. Each commit's compiler differs in a few bytes, so that no result
is cached for another commit. `--obtain` makes the script wait, as a download does. The input is generated beforehand. The
others are

- `git bisect run` where a missing artifact counts as bad, as in the search script of the IREE project;
- `git bisect run` where it is skipped (exit 125).

An answer is right when it is the culprit alone or, where neighbours are missing, the culprit and the commits that no probe can
separate from it. Only triage verifies both ends and confirms the answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

CULPRIT = "272a7ffc88e1f7d924111d860d27a975cdca0869"
ENDS = ("v3.3.0", "v3.4.0")
RELEASES = ("3.2.0", "3.3.0")
RECIPE = Path(__file__).parent.parent / "recipes" / "llama-attention-aggressive-fusion.yaml"
CASE = "dtype=f16"
TRIAGE = [sys.executable, "-c", "from triage.cli import main; main()", "--quiet"]
INSIDE = "iree/compiler/_mlir_libs"
MISSING = 3

SERVE = f"""#!/bin/sh
# The compiler of a commit: a copy with the sha appended, and links to all other files.
set -e
here="$(dirname "$0")"
root="$(sed -n "s/^$1 //p" "$here/places")"
if [ -z "$root" ]; then echo "$1 missing" >> "$here/asked"; exit {MISSING}; fi
echo "$1 served" >> "$here/asked"
out="$here/made/$1/{INSIDE}"
if [ ! -d "$out" ]; then
  sleep "${{SECONDS_TO_OBTAIN:-0}}"
  mkdir -p "$out"
  for file in "$root/{INSIDE}"/*; do ln -s "$file" "$out/"; done
  rm "$out/iree-compile"
  cp "$root/{INSIDE}/iree-compile" "$out/iree-compile"
  printf %s "$1" >> "$out/iree-compile"
fi
echo "$here/made/$1"
"""


@dataclass(frozen=True)
class Result:
    """One bisect. `asked`: commits whose compiler was asked for; `tests`: those that were compiled with, the two ends and
    the confirmation included where there are any; `left`: suspects in the answer.
    """

    who: str
    missing: str
    asked: int
    tests: int
    rounds: int
    seconds: float
    left: int
    right: bool


@dataclass(frozen=True)
class Setting:
    """A line of commits, oldest first and beginning with the good end, and the folders that are used."""

    line: tuple[str, ...]
    repo: Path
    scratch: Path
    roots: tuple[Path, Path]
    command: str

    def begin(self, missing: int) -> None:
        """Serve all but every third commit, beginning with `missing`."""
        at = self.line.index(CULPRIT)
        places = [
            f"{sha} {self.roots[index >= at]}"
            for index, sha in enumerate(self.line)
            if index in (0, len(self.line) - 1) or index % 3 != missing
        ]
        (self.scratch / "places").write_text("\n".join(places) + "\n")
        (self.scratch / "asked").write_text("")
        shutil.rmtree(self.scratch / "made", ignore_errors=True)

    def suspects(self, missing: int) -> set[str]:
        """The commits that no probe can separate from the culprit, and itself."""
        there = [index in (0, len(self.line) - 1) or index % 3 != missing for index in range(len(self.line))]
        at = self.line.index(CULPRIT)
        low = max(index for index in range(at) if there[index])
        high = min(index for index in range(at, len(self.line)) if there[index])
        return set(self.line[low + 1 : high + 1])

    def asked(self) -> list[str]:
        """Return `served` or `missing` for each request."""
        return [line.split()[1] for line in (self.scratch / "asked").read_text().splitlines()]


def git(repo: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(repo), *words], check=True, capture_output=True, text=True).stdout.strip()


def prepare(repo: Path, scratch: Path) -> Setting:
    """Install the toolchains; write the script and the plain command line."""
    subprocess.run([*TRIAGE, "toolchains", "install", *RELEASES], check=True, stdout=subprocess.DEVNULL)
    infos = [run("toolchains", "info", release, "--format", "json") for release in RELEASES]
    roots = [Path(json.loads(info)["root"]) for info in infos]
    first = git(repo, "merge-base", *ENDS)
    line = (first, *git(repo, "rev-list", "--first-parent", "--reverse", f"{first}..{ENDS[1]}").split())
    for name, text in (
        ("serve", SERVE),
        ("project.yaml", f"name: iree\ncompiler: iree\ncommand:\n  run: {scratch}/serve\n  env: [SECONDS_TO_OBTAIN]\n"),
    ):
        (scratch / name).write_text(text)
    (scratch / "serve").chmod(0o755)
    plain = run("run", str(RECIPE), "--case", CASE, "--toolchain", RELEASES[1], "--dry-run").strip()
    command = plain.replace(str(roots[1]), '"$folder"')
    assert command.count('"$folder"') == 1, plain
    return Setting(line, repo, scratch, (roots[0], roots[1]), command)


def run(*words: str, home: Path | None = None) -> str:
    env = os.environ | ({"TRIAGE_HOME": str(home)} if home else {})
    done = subprocess.run([*TRIAGE, *words], check=False, capture_output=True, text=True, env=env)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


def ours(setting: Setting, missing: int, jobs: int) -> Result:
    setting.begin(missing)
    with TemporaryDirectory(dir=setting.scratch) as place:
        run("run", str(RECIPE), "--case", CASE, "--toolchain", f"path:{setting.roots[0]}", "--dry-run", home=Path(place))
        ends = ("--good", f"commit:{setting.line[0]}", "--bad", f"commit:{setting.line[-1]}", "--jobs", str(jobs))
        where = ("--repo", str(setting.repo), "--project", str(setting.scratch / "project.yaml"))
        begun = time.perf_counter()
        output = run("bisect", str(RECIPE), "--case", CASE, *ends, *where, "--format", "json", home=Path(place))
        seconds = time.perf_counter() - begun
    answer = json.loads(output)
    asked = setting.asked()
    named = {one["commit"] for one in answer["suspects"]}
    is_right = named == setting.suspects(missing) and (answer["status"] == "culprit") == (len(named) == 1)
    tests = answer["probes"] - asked.count("missing")
    return result(setting, f"triage --jobs {jobs}", missing, tests, answer["rounds"], seconds, named, right=is_right)


def gits(setting: Setting, missing: int, status: int, who: str) -> Result:
    setting.begin(missing)
    test = setting.scratch / "test"
    test.write_text(f"""#!/bin/sh
folder="$({setting.scratch}/serve "$(git rev-parse BISECT_HEAD)")" || exit {status}
{setting.command} 2>/dev/null || exit 1
""")
    test.chmod(0o755)
    with TemporaryDirectory(dir=setting.scratch) as place:
        clone = Path(place) / "clone"
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(setting.repo), str(clone)], check=True)
        git(clone, "bisect", "start", "--no-checkout", "--first-parent", setting.line[-1], setting.line[0])
        begun = time.perf_counter()
        done = subprocess.run(["git", "bisect", "run", str(test)], cwd=clone, check=False, capture_output=True, text=True)
        seconds = time.perf_counter() - begun
    culprit = re.search(r"^([0-9a-f]{40}) is the first bad commit", done.stdout, re.MULTILINE)
    several = done.stdout.partition("could be any of:")[2]
    named = {culprit[1]} if culprit else set(re.findall(r"^[0-9a-f]{40}$", several, re.MULTILINE))
    assert named, done.stdout + done.stderr
    tests = setting.asked().count("served")
    rounds = len(setting.asked())
    return result(setting, who, missing, tests, rounds, seconds, named, right=named == setting.suspects(missing))


def result(
    setting: Setting, who: str, missing: int, tests: int, rounds: int, seconds: float, named: set[str], *, right: bool
) -> Result:
    at = setting.line.index(CULPRIT)
    words = {at % 3: "the culprit", (at - 1) % 3: "its predecessor"}
    return Result(who, words.get(missing, "neither"), len(setting.asked()), tests, rounds, round(seconds, 1), len(named), right)


def measure(setting: Setting) -> list[Result]:
    results: list[Result] = []
    at = setting.line.index(CULPRIT)
    for missing in ((at + 1) % 3, at % 3, (at - 1) % 3):
        for bisect in (
            lambda: ours(setting, missing, 1),  # noqa: B023 - called immediately
            lambda: ours(setting, missing, 4),  # noqa: B023
            lambda: gits(setting, missing, 1, "git, missing is bad"),  # noqa: B023
            lambda: gits(setting, missing, 125, "git, missing is skipped"),  # noqa: B023
        ):
            results.append(bisect())
            print(results[-1], file=sys.stderr)
    return results


def show(line: Sequence[str], results: Sequence[Result]) -> None:
    print(f"{len(line) - 1} commits, no artifact of every third")
    print(f"{'':24} {'missing':16} asked tests rounds  seconds  answer")
    for result in results:
        answer = ("right" if result.right else "WRONG") + (f" ({result.left} suspects)" if result.left > 1 else "")
        row = f"{result.who:24} {result.missing:16} {result.asked:5} {result.tests:5} {result.rounds:6}"
        print(f"{row} {result.seconds:8.1f}  {answer}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=Path, required=True, help="a clone of iree-org/iree with its tags")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--obtain", type=float, default=0, help="seconds that the compiler of a commit takes to obtain")
    options = parser.parse_args()
    os.environ["SECONDS_TO_OBTAIN"] = str(options.obtain)
    with TemporaryDirectory() as place:
        setting = prepare(options.repo.absolute(), Path(place))
        results = measure(setting)
    if options.format == "json":
        print(
            json.dumps(
                {
                    "obtain_seconds": options.obtain,
                    "commits": len(setting.line) - 1,
                    "results": [asdict(result) for result in results],
                }
            )
        )
    else:
        show(setting.line, results)


if __name__ == "__main__":
    main()
