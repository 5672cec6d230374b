"""Pairs of releases that part over a held-out program, drawn by chance: no trace is looked at, and nothing is left out by hand.

    python -m benchmarks.held_out_pairs [--seed 1]
    python -m benchmarks.held_out_pairs --seed 2 --first 3 --anew

Failing pairs: the programs and targets of held_out_failures.yaml in random order, or any; of the neighbouring releases between
which the program begins or ceases to fail, one pair by chance. Different pairs: a program, a target and two neighbours by
chance; both compile, or one fails. Each draw goes to one of two sets in turn: the second is for after something has been
mended. Prints the lines of held_out_pairs.yaml.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.held_out_larger import LARGER
from benchmarks.held_out_programs import PROGRAMS
from benchmarks.held_out_remedies import FAILURES, case_of
from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.outcome import Compiled, Failed, Outcome
from triage.toolchains.registry import ToolchainRef

TARGETS = ["cuda sm_80", "rocm gfx942", "rocm gfx1100", "rocm gfx90a", "llvm-cpu znver4", "vulkan-spirv rdna3"]

Entry = dict[str, Any]
Pair = tuple[str, str]
"""The good release and the bad one, which may be the older."""


def pair_of(one: ToolchainRef, other: ToolchainRef, outcomes: tuple[Outcome, Outcome]) -> Pair | None:
    """None where both fail, or one cannot be tested."""
    names = (one.revision.name, other.revision.name)
    match outcomes:
        case (Compiled(), Compiled() | Failed()):
            return names
        case (Failed(), Compiled()):
            return names[1], names[0]
    return None


def listed(random: Random) -> Iterator[Entry]:
    """The programs and targets of held_out_failures.yaml, each once."""
    known = {(one["program"], one["target"], *one.get("flags", [])): one for one in yaml.safe_load(FAILURES.read_text())}
    yield from random.sample(list(known.values()), len(known))


def anything(random: Random) -> Iterator[Entry]:
    """Any program for any target."""
    programs = sorted(PROGRAMS | LARGER)
    while True:
        yield {"program": random.choice(programs), "target": random.choice(TARGETS)}


def failing(bench: ProbeRunner, entries: Iterator[Entry], random: Random, folder: Path) -> Iterator[tuple[Entry, Pair]]:
    releases = list(bench.registry.releases("iree"))
    for entry in entries:
        case = case_of(entry, folder)
        by_name = {one.revision.name: one.outcome for one in bench.probe_all([ProbeJob(case, place) for place in releases])}
        neighbours = pairwise(releases)
        outcomes = [(a, b, (by_name[a.revision.name], by_name[b.revision.name])) for a, b in neighbours]
        parted = [one for one in outcomes if any(isinstance(outcome, Failed) for outcome in one[2])]
        pairs = [pair for one in parted if (pair := pair_of(*one))]
        if pairs:
            yield entry, random.choice(pairs)


def different(bench: ProbeRunner, entries: Iterator[Entry], random: Random, folder: Path) -> Iterator[tuple[Entry, Pair]]:
    releases = list(bench.registry.releases("iree"))
    for entry in entries:
        at = random.randrange(len(releases) - 1)
        case = case_of(entry, folder)
        one, other = releases[at : at + 2]
        by_name = {
            probe.revision.name: probe.outcome for probe in bench.probe_all([ProbeJob(case, one), ProbeJob(case, other)])
        }
        if pair := pair_of(one, other, (by_name[one.revision.name], by_name[other.revision.name])):
            yield entry, pair


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=1, help="the number of the first of the two sets")
    parser.add_argument("--anew", action="store_true", help="look for failing pairs among all programs and targets")
    parser.add_argument("--failing", type=int, default=24, help="pairs, both sets together")
    parser.add_argument("--different", type=int, default=16, help="pairs, both sets together")
    parser.add_argument("--jobs", type=int, default=None)
    options = parser.parse_args()
    with TemporaryDirectory() as folder, open_runner(AppContext(quiet=True), (), options.jobs) as bench:
        for draw, count in ((failing, options.failing), (different, options.different)):
            random = Random(f"{options.seed}/{draw.__name__}")
            entries = anything(random) if draw is different or options.anew else listed(random)
            for number, (entry, pair) in zip(range(count), draw(bench, entries, random, Path(folder)), strict=False):
                told = {"set": options.first + number % 2, "program": entry["program"], "good": pair[0], "bad": pair[1]}
                told |= {key: entry[key] for key in ("target", "flags") if key in entry}
                print("- {" + ", ".join(f"{key}: {_plain(value)}" for key, value in told.items()) + "}", flush=True)


def _plain(value: object) -> str:
    return f"[{', '.join(value)}]" if isinstance(value, list) else str(value)


if __name__ == "__main__":
    main()
