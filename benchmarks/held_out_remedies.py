"""Failures that a flag is known to mend: for what share `triage remedy` finds one, by the candidates of the failure's class and
by the compiler's own options alone.

    python -m benchmarks.held_out_remedies [--budget 100]

The failures stand in held_out_failures.yaml, each with a flag that mends it and was found without triage, by
benchmarks/held_out_search.py. A remedy counts when it is flags alone and silences no check.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.held_out_larger import LARGER
from benchmarks.held_out_programs import PROGRAMS
from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.runner import ProbeRunner
from triage.model.case import Case, Flag, Input, InputKind, Target
from triage.model.execution import Limits
from triage.model.outcome import Failed
from triage.remedy.candidates import first_tier, second_tier
from triage.remedy.change import CaseChange
from triage.remedy.search import Trials, search
from triage.remedy.workflow import RemedyRequest, situation_of

FAILURES = Path(__file__).with_name("held_out_failures.yaml")


@dataclass(frozen=True)
class Answer:
    """What was found for one failure. by_class: with all candidates, those of the class first; by_switches: without these.
    Flags that mend, and how many candidates were tried. other: input changes that mend; tier: whose candidate mends;
    same_types: one of the flags leaves the types alone that are computed in; number: of which set it is.
    """

    name: str
    failure: str
    by_class: tuple[str, ...]
    tried: int
    by_switches: tuple[str, ...]
    tried_switches: int
    other: tuple[str, ...]
    tier: str
    same_types: bool
    number: int


def case_of(entry: dict[str, Any], folder: Path) -> Case:
    path = folder / f"{entry['program']}.mlir"
    path.write_text((PROGRAMS | LARGER)[entry["program"]])
    backend, _, chip = entry["target"].partition(" ")
    name = f"{entry['program']} {entry['target']}"
    flags = tuple(Flag(text) for text in entry.get("flags", []))
    target = Target(backend, chip or None)
    return Case(
        name, name, "", "iree", path, Input(path, InputKind.MLIR), target, flags, "executable-targets", Limits(30.0, 6 << 30)
    )


def ask(bench: ProbeRunner, case: Case, version: str, budget: int, number: int) -> Answer | None:
    place = bench.registry.resolve(version, "iree")
    failing = bench.probe(case, place)
    if not isinstance(failing.outcome, Failed):
        print(f"{case.name} on {version} does not fail: {failing.outcome}")
        return None
    failures = (failing.outcome.failure, *failing.outcome.others)
    situation = situation_of(bench, RemedyRequest(case, place), failures)
    first, second = first_tier(situation), second_tier(situation)
    both, alone = (Trials(bench, case, place, failures[0], budget) for _ in range(2))
    search(both, first, second)
    search(alone, (), second)
    known = {change.text for change in first}
    found, switches = _flags(both), _flags(alone)
    tier = "none" if not found else "class" if any(change.text in known for change in found) else "own options"
    other = tuple(change.text for change, _ in both.working if change.input_change)
    texts = tuple(change.text for change in found)
    return Answer(
        f"{case.name} {version}",
        failures[0].failure_class,
        texts,
        both.tried,
        tuple(change.text for change in switches),
        alone.tried,
        other,
        tier,
        any(not change.recomputes for change in found),
        number,
    )


def _flags(trials: Trials) -> list[CaseChange]:
    return [change for change, _ in trials.working if change.input_change is None and not change.checks_less]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--failures", type=Path, default=FAILURES, help="a file as held_out_search.py prints it")
    options = parser.parse_args()
    answers = []
    with TemporaryDirectory() as folder, open_runner(AppContext(quiet=True), (), options.jobs) as bench:
        for entry in yaml.safe_load(options.failures.read_text()):
            answer = ask(bench, case_of(entry, Path(folder)), str(entry["version"]), options.budget, entry.get("set", 1))
            if answer is None:
                continue
            answers.append(answer)
            print(f"{answer.name}: {answer.failure}; known: {entry['mended_by']}")
            print(f"  {answer.tier}, {answer.tried} tried: {'; '.join(answer.by_class[:3]) or 'nothing'}")
            print(f"  own options alone, {answer.tried_switches} tried: {'; '.join(answer.by_switches[:2]) or 'nothing'}")
            if answer.other:
                print(f"  input changes: {'; '.join(answer.other)}")
    for number in sorted({one.number for one in answers}):
        told(f"set {number}", [one for one in answers if one.number == number])
    told("together", answers)


def told(name: str, answers: list[Answer]) -> None:
    count = len(answers)
    print(f"{name}:")
    for what, right in (
        ("a flag found", sum(bool(one.by_class) for one in answers)),
        ("  by a candidate of the class", sum(one.tier == "class" for one in answers)),
        ("  by the compiler's own options", sum(one.tier == "own options" for one in answers)),
        ("a flag found that leaves types alone", sum(one.same_types for one in answers)),
        ("a flag found by the own options alone", sum(bool(one.by_switches) for one in answers)),
        ("a changed input found", sum(bool(one.other) for one in answers)),
    ):
        print(f"  {what}: {right} of {count} ({right / count:.0%})")


if __name__ == "__main__":
    main()
