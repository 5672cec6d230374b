"""Reduces a hundred of the programs of a test suite that fail to compile, and prints a table.

Run `python -m benchmarks.reduce_suite SUITE [--suite-config FILE] [--toolchain REV]` in the project's root, where SUITE is a
folder such as `onnx_ops` of a clone of iree-org/iree-test-suites and FILE one of IREE's config files for it (default: the one
in the suite's own folder `configs`).

The programs are chosen by a rule: those that fail, sorted by name, every k-th. Where the config lists failures, only these are
compiled. Results are not probed on other releases. Exits with 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from triage.cli.context import load_cases, open_runner
from triage.cli.screen import AppContext
from triage.execution.judge import same_signature
from triage.execution.runner import ProbeJob, ProbeRunner
from triage.model.case import Case
from triage.model.execution import Stage
from triage.model.outcome import Failed, Failure
from triage.reduce.state import NotReproducible, Reduced
from triage.reduce.workflow import ReductionRequest, reduce_case
from triage.toolchains.home import home_path
from triage.toolchains.registry import ToolchainRef

OPERATIONS, COMPILES = 5, 30  # goals for the medians
_LIMITED = frozenset(("timeout", "out-of-memory"))  # need not be reduced


@dataclass(frozen=True)
class Row:
    """One program with its failure, and what became of it."""

    case: Case
    failure: Failure
    result: Reduced | NotReproducible

    @property
    def refused(self) -> bool:
        return isinstance(self.result, NotReproducible) and self.failure.failure_class not in _LIMITED

    def __str__(self) -> str:
        name = self.case.name.rpartition("/")[2]
        if isinstance(self.result, NotReproducible):
            return f"{name:60} {'':>11} {'':>4} {'':>6}  {self.failure.signature[:60]}: {self.result.reason}"
        before, after, effort = self.result.before, self.result.after, self.result.effort
        sizes = f"{before.operations:>4} -> {after.operations:>3}"
        return f"{name:60} {sizes:>11} {effort.calls:>4} {effort.seconds:6.1f}  {self.failure.signature[:60]}"


@contextmanager
def home_with(rev: str, case: Case) -> Iterator[None]:
    """Set TRIAGE_HOME to a new folder with one toolchain of the user's own, installed there where it is missing."""
    with open_runner(AppContext(quiet=True), [case]) as runner:
        root = runner.registry.obtain(runner.registry.resolve(rev, case.compiler)).root
    before = home_path()
    with TemporaryDirectory(prefix="bench-reduce-suite-") as folder:
        home = Path(folder)
        (home / "toolchains").mkdir()
        (home / "toolchains" / root.name).symlink_to(root)
        (home / "state.db").symlink_to(before / "state.db")
        os.environ["TRIAGE_HOME"] = folder
        try:
            yield
        finally:
            os.environ["TRIAGE_HOME"] = str(before)


def failing(runner: ProbeRunner, ref: ToolchainRef, cases: Sequence[Case]) -> list[tuple[Case, Failure]]:
    """Compile the cases that are expected to fail, or all where nothing is known, and return those that fail."""
    known = [case for case in cases if any(entry.stage is Stage.COMPILE for entry in case.expect)]
    jobs = [ProbeJob(replace(case, run=None), ref) for case in known or cases]
    probes = [(probe.case, probe.outcome) for probe in runner.probe_all(jobs, "compile")]
    return sorted(
        ((case, outcome.failure) for case, outcome in probes if isinstance(outcome, Failed)), key=lambda entry: entry[0].name
    )


def every(items: Sequence[tuple[Case, Failure]], count: int) -> list[tuple[Case, Failure]]:
    """Return `count` items at equal distances, or all when there are fewer."""
    return [items[index * len(items) // count] for index in range(min(count, len(items)))] if len(items) > count else [*items]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--suite-config", type=Path)
    parser.add_argument("--toolchain", default="3.13.0")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    config = arguments.suite_config or next(iter(sorted((arguments.suite / "configs").glob("*.json"))), None)
    if config is None:
        parser.error(f"{arguments.suite / 'configs'} holds no config; pass one with --suite-config")
    cases = load_cases([arguments.suite], [config])
    rows: list[Row] = []
    with home_with(arguments.toolchain, cases[0]), open_runner(AppContext(quiet=True), cases[:1], 1) as runner:
        ref = runner.registry.resolve(arguments.toolchain, cases[0].compiler)
        able = failing(runner, ref, cases)
        chosen = every(able, arguments.count)
        print(f"{len(able)} programs fail to compile on {ref.revision.name}; {len(chosen)} are reduced", flush=True)
        print(f"{'program':60} {'operations':>11} {'runs':>4} {'wall s':>6}  failure", flush=True)

        def reduced(entry: tuple[Case, Failure]) -> Row:
            return Row(*entry, reduce_case(runner, ReductionRequest(entry[0], ref, None, same_signature)))

        with ThreadPoolExecutor(arguments.jobs) as pool:
            for row in pool.map(reduced, chosen):
                rows.append(row)
                print(row, flush=True)
    results = [row.result for row in rows if isinstance(row.result, Reduced)]
    refused = sum(row.refused for row in rows)
    operations = statistics.median([result.after.operations for result in results] or [0])
    compiles = statistics.median([result.effort.calls for result in results] or [0])
    seconds = statistics.median([result.effort.seconds for result in results] or [0.0])
    limited = len(rows) - len(results) - refused
    print(f"\nreduced {len(results)} of {len(rows)}, refused {refused}, stopped at their limits {limited}")
    print(f"median: {operations:g} operations, {compiles:g} compiles, {seconds:.1f} s")
    return 0 if results and not refused and operations <= OPERATIONS and compiles <= COMPILES else 1


if __name__ == "__main__":
    sys.exit(main())
