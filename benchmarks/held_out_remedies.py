"""Measure for what share of failures `triage remedy` finds a flag, with all candidates and with the compiler's options alone.

    python -m benchmarks.held_out_remedies [--budget 100]

held_out_failures.yaml holds the failures, each with a flag that fixes it. A remedy counts if it consists of flags alone and
disables no check.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

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
class RemedyAnswer:
    """The remedies of one failure.

    Attributes:
        by_class: Flags that fix it, of `tried` candidates.
        by_options: Flags that fix it, of `tried_options` of the compiler's own options.
        other: Input changes that fix it.
        tier: Whose candidate fixes it.
        same_types: Whether a flag keeps the types of computations.
        number: The number of the set.
    """

    name: str
    failure: str
    by_class: tuple[str, ...]
    tried: int
    by_options: tuple[str, ...]
    tried_options: int
    other: tuple[str, ...]
    tier: str
    same_types: bool
    number: int


def case_of(entry: dict[str, Any], folder: Path) -> Case:
    path = folder / f"{entry['program']}.mlir"
    path.write_text(PROGRAMS[entry["program"]])
    backend, _, chip = entry["target"].partition(" ")
    name = f"{entry['program']} {entry['target']}"
    flags = tuple(Flag(text) for text in entry.get("flags", []))
    target = Target(backend, chip or None)
    return Case(
        name, name, "", "iree", path, Input(path, InputKind.MLIR), target, flags, "executable-targets", Limits(30.0, 6 << 30)
    )


def ask(runner: ProbeRunner, case: Case, version: str, budget: int, number: int) -> RemedyAnswer | None:
    ref = runner.registry.resolve(version, "iree")
    failing = runner.probe(case, ref)
    if not isinstance(failing.outcome, Failed):
        print(f"{case.name} on {version} does not fail: {failing.outcome}")
        return None
    failures = (failing.outcome.failure, *failing.outcome.others)
    situation = situation_of(runner, RemedyRequest(case, ref), failures)
    first, second = first_tier(situation), second_tier(situation)
    both, alone = (Trials(runner, case, ref, failures[0], budget) for _ in range(2))
    search(both, first, second)
    search(alone, (), second)
    known = {change.text for change in first}
    found, switches = _flags(both), _flags(alone)
    tier = "none" if not found else "class" if any(change.text in known for change in found) else "own options"
    other = tuple(change.text for change, _ in both.working if change.input_change)
    texts = tuple(change.text for change in found)
    return RemedyAnswer(
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
    parser.add_argument("--failures", type=Path, default=FAILURES, help="file with failures")
    options = parser.parse_args()
    answers = []
    with TemporaryDirectory() as folder, open_runner(AppContext(quiet=True), (), options.jobs) as runner:
        for entry in yaml.safe_load(options.failures.read_text()):
            answer = ask(runner, case_of(entry, Path(folder)), str(entry["version"]), options.budget, entry.get("set", 1))
            if answer is None:
                continue
            answers.append(answer)
            print(f"{answer.name}: {answer.failure}; known: {entry['fixed_by']}")
            print(f"  {answer.tier}, {answer.tried} tried: {'; '.join(answer.by_class[:3]) or 'nothing'}")
            print(f"  own options alone, {answer.tried_options} tried: {'; '.join(answer.by_options[:2]) or 'nothing'}")
            if answer.other:
                print(f"  input changes: {'; '.join(answer.other)}")
    for number in sorted({answer.number for answer in answers}):
        print_summary(f"set {number}", [answer for answer in answers if answer.number == number])
    print_summary("together", answers)


def print_summary(name: str, answers: list[RemedyAnswer]) -> None:
    count = len(answers)
    print(f"{name}:")
    for what, right in (
        ("a flag found", sum(bool(answer.by_class) for answer in answers)),
        ("  by a candidate of the class", sum(answer.tier == "class" for answer in answers)),
        ("  by the compiler's own options", sum(answer.tier == "own options" for answer in answers)),
        ("a flag found that keeps types", sum(answer.same_types for answer in answers)),
        ("a flag found among the own options alone", sum(bool(answer.by_options) for answer in answers)),
        ("a changed input found", sum(bool(answer.other) for answer in answers)),
    ):
        print(f"  {what}: {right} of {count} ({right / count:.0%})")


if __name__ == "__main__":
    main()
