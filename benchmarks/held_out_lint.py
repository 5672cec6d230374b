"""Measure which planted faults `triage lint` finds, and its false alarms on healthy programs.

    python -m benchmarks.held_out_lint [--each 6] [--seed 1]

A fault is found if its rule reports it. A false alarm is an error or a warning on a healthy program.
"""

from __future__ import annotations

import argparse
import threading
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.held_out_faults import FAULTS, Made, knotty, model_of
from triage.compilers.analysis import LintFinding, Severity
from triage.compilers.iree import Iree
from triage.execution.mlir_tools import Reader
from triage.mlir import parse_module
from triage.toolchains.home import open_home
from triage.toolchains.registry import ToolchainRegistry

VERSIONS = ("3.0.0", "3.3.0", "3.6.0", "3.10.0", "3.13.0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=6, help="programs with each fault, and twice as many healthy ones")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    registry = ToolchainRegistry(open_home(), {"iree": Iree()})
    found: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    healthy = alarms = advised = 0
    for fault, (rule, plant, twin) in FAULTS.items():
        for number in range(options.each):
            seed = f"{options.seed}/{fault}/{number}"
            version = VERSIONS[Random(seed).randrange(len(VERSIONS))]
            rules = {finding.rule for finding in findings(registry, version, plant(model_of(seed)))}
            planted[rule] += 1
            found[rule] += rule in rules
            if rule not in rules:
                print(f"missed: {fault} ({seed}, {version}); reported {', '.join(sorted(rules)) or 'nothing'}")
            for make in (twin, knotty):
                reported = findings(registry, version, make(model_of(seed)))
                loud = {finding.rule for finding in reported if finding.severity is not Severity.ADVICE}
                healthy, alarms, advised = healthy + 1, alarms + bool(loud), advised + bool(reported)
                if loud:
                    print(f"false alarm: {make.__name__} of {seed}, {version}; reported {', '.join(sorted(loud))}")
    for rule, count in planted.items():
        print(f"{rule:20} {found[rule]} of {count}")
    total, right = planted.total(), found.total()
    print(f"found {right} of {total} planted faults ({right / total:.1%}) over {len(planted)} rules")
    print(f"false alarms: {alarms} of {healthy} healthy programs ({alarms / healthy:.1%}); advice on {advised}")


def findings(registry: ToolchainRegistry, version: str, made: Made) -> list[LintFinding]:
    text, options, (backend, chip) = made
    tools = Iree().mlir_tools(registry.obtain(registry.resolve(version, "iree")))
    assert tools
    with TemporaryDirectory() as folder:
        path = Path(folder) / "program.mlir"
        path.write_text(text)
        reader = Reader(tools, threading.Event())
        generic = reader.generic(path, elide=True)
        assert generic, f"{reader.parse_error(path)}\n{text}"
        return list(Iree().linter().check(parse_module(generic), options, backend, chip).findings)


if __name__ == "__main__":
    main()
