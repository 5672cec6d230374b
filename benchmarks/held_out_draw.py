"""Draw pairs of neighbouring releases at random for `held_out_attribution`, without asking triage or the oracle for an answer.

    python -m benchmarks.held_out_draw --seed 7 --versions 3.0.0 3.1.0 3.2.0

A candidate is a program and a target. Failures: of two random releases one compiles it and the other fails after it has read
it; the pair are the neighbours between these two where that changes. Differences: two random neighbours compile it to other
counts of operations. Each program makes at most one pair. The pairs of each kind go to the sets in turn, and are printed in the
form of held_out_pairs.yaml.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.held_out_oracle import OracleSide, counted
from benchmarks.held_out_programs import PROGRAMS
from benchmarks.held_out_remedies import case_of
from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.runner import ProbeRunner

TARGETS = (
    "llvm-cpu znver4", "llvm-cpu generic", "rocm gfx90a", "rocm gfx942", "rocm gfx1100", "cuda sm_80", "cuda sm_86",
    "vulkan-spirv rdna3", "vulkan-spirv ampere",
)  # fmt: skip
FLAGS = ("--iree-opt-level=O3", "--iree-dispatch-creation-enable-aggressive-fusion=true", "--iree-opt-data-tiling=true")
WITH_FLAG = 0.2
CONVOLUTIONS = ("conv", "nhwc", "nchw", "depthwise", "dilated", "gradient", "groups", "grouped")
MOST_OF_TWO_RELEASES = 8
PROGRAM_NAMES = [name for name in PROGRAMS if not any(word in name for word in CONVOLUTIONS)]
LAST, READ = "executable-targets", "abi"


class Compilers:
    """The releases in order, and whether each compiles a candidate."""

    def __init__(self, runner: ProbeRunner, versions: list[str]) -> None:
        self.runner, self.versions = runner, versions

    def output(self, entry: dict[str, Any], version: str, folder: Path) -> tuple[Path | None, bool]:
        """Return the output of a candidate, None if its compile fails, and whether the release can read the program."""
        toolchain = self.runner.registry.obtain(self.runner.registry.resolve(version, "iree"))
        side = OracleSide(case_of(entry, folder), toolchain, folder)
        output, _ = side.compile(side.source, None, LAST)
        return output, output is not None or side.compile(side.source, None, READ)[0] is not None

    def differing(self, entry: dict[str, Any], drawn: random.Random, folder: Path) -> dict[str, Any] | None:
        """Return a pair whose outputs differ in their counts of operations, for two random neighbours."""
        good, bad = drawn.choice(list(pairwise(self.versions)))
        outputs = [self.output(entry, version, folder)[0] for version in (good, bad)]
        counts = [counted(output.read_text(errors="replace").splitlines()) for output in outputs if output]
        return {**entry, "good": good, "bad": bad} if len(counts) == 2 and counts[0] != counts[1] else None

    def failing(self, entry: dict[str, Any], drawn: random.Random, folder: Path) -> dict[str, Any] | None:
        """Return neighbours between two random releases of which one compiles and one fails; the latter is the bad one."""
        low, high = sorted(drawn.sample(range(len(self.versions)), 2))

        def compiles(index: int) -> bool | None:
            output, readable = self.output(entry, self.versions[index], folder)
            return output is not None if readable else None

        first, last = compiles(low), compiles(high)
        if first is None or last is None or first == last:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if compiles(middle) == first else (low, middle)
        if None in (compiles(low), compiles(high)):
            return None
        good, bad = (low, high) if first else (high, low)
        return {**entry, "good": self.versions[good], "bad": self.versions[bad]}


def candidate(drawn: random.Random) -> dict[str, Any]:
    entry = {"program": drawn.choice(PROGRAM_NAMES), "target": drawn.choice(TARGETS)}
    flag = drawn.choice(FLAGS)
    return {**entry, "flags": [flag]} if drawn.random() < WITH_FLAG else entry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--differing", type=int, default=40, help="how many pairs compile to different code")
    parser.add_argument("--failing", type=int, default=20, help="how many pairs at most are failures")
    parser.add_argument("--candidates", type=int, default=400, help="how many of each kind are tried at most")
    parser.add_argument("--sets", type=int, nargs="+", default=[5, 6])
    parser.add_argument("--versions", nargs="+", required=True, help="releases in order")
    options = parser.parse_args()
    releases, programs = Counter[frozenset[str]](), set[str]()
    with open_runner(AppContext(quiet=True), (), 1) as runner:
        compilers = Compilers(runner, options.versions)
        for find, wanted in ((compilers.failing, options.failing), (compilers.differing, options.differing)):
            drawn, count = random.Random(f"{options.seed} {find.__name__}"), 0
            for number in range(options.candidates):
                if count == wanted:
                    break
                entry = candidate(drawn)
                with TemporaryDirectory() as folder:
                    pair = find(entry, drawn, Path(folder)) if entry["program"] not in programs else None
                print(number, find.__name__, pair or entry["program"], file=sys.stderr, flush=True)
                if pair is None or releases[key := frozenset((pair["good"], pair["bad"]))] >= MOST_OF_TWO_RELEASES:
                    continue
                releases[key] += 1
                programs.add(pair["program"])
                fields = [f"{name}: {pair[name]}" for name in ("program", "good", "bad", "target")]
                fields += [f"flags: [{', '.join(pair['flags'])}]"] if "flags" in pair else []
                print(f"- {{set: {options.sets[count % len(options.sets)]}, {', '.join(fields)}}}", flush=True)
                count += 1


if __name__ == "__main__":
    main()
