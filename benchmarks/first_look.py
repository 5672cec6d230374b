"""Classify logs that were drawn and labelled before any of them was read by a rule.

Run: `python -m benchmarks.first_look SET [--wrong]`, SET one of open, practice,
third, aside, fresh, sixth, seventh, eighth, ninth, tenth, eleventh, twelfth and
thirteenth.

Threads were drawn by neutral queries (names of projects, versions and months) in the
order in which they came, and retold: the form and the words of tools are theirs, names
and prose are not. Two seeded halves were committed before the first run. `open` may be
looked at while rules are written, like `practice`, which was drawn later; `aside` may
not, so that only its first figures say how unseen logs are read. `third`, `fresh`,
`sixth` and `seventh` are later draws; the last three were looked at once. The threads
of the last two were not taken strictly in order: those whose excerpt ends before its
error are left out.
`eighth` holds texts of issues with their prose: 29 queries of a project's name with
random words, a month, or a sentence that names no failure showed mostly pull requests;
these are the issues whose excerpt ends after its message, or has none.
`ninth` is of public threads found by a project's name with `terminal session` or `log`,
in the order in which they came; left out are those with no log, or cut before its end.
About one log in four was completed from the known form of the tool, because its thread
quotes only a part.
`tenth` is of the threads that 43 queries of a tool's name with `trouble`, `problem` or
`works`, and `output below` or `log`, showed, in their order. Left out are those with
no log, those cut before their message, and those of older sets; four are completed.
`eleventh` is of 58 queries of a tool's name with a version or a year and `stack trace`,
`build output`, `CI log`, `console` or `after upgrading`, in the same way; four are
completed.
`twelfth` is of 83 queries of a tool's name with a random noun and `output` or `log`,
most with lines that the tool prints while it works, in the same way; three are
completed.
`thirteenth` is of 50 queries of a tool's name with a month or a year and `fails to
build`, `nightly`, `CI job`, `upgrade to`, `regression` or `hangs`, in the same way,
and of 7 queries and 4 strings for green logs, which showed 4 of the failing ones; six
are completed.

A log is right if its first failure has one of the expected classes and its headline
holds the expected text; specific if its signature holds the expected names. Silent is a
failing log that is called green.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from dataclasses import dataclass
from io import BytesIO
from math import sqrt
from pathlib import Path
from typing import Any

import yaml

from triage.classify import ClassifiedLog, LogStatus, classify_log, packaged_rules

_SEVERITY = re.compile(r"^(?:\S+: )?error: ")  # is no part of a headline
_ADDED = {"uncaught-exception"}  # classes added since the labels, of what was `unknown`
FOLDER = Path(__file__).with_name("first_look")
SETS = sorted(path.stem[5:] for path in FOLDER.glob("logs_*.yaml"))


@dataclass(frozen=True, slots=True)
class Share:
    """How many of a number, with the 95 % interval of Wilson."""

    count: int
    total: int

    def __str__(self) -> str:
        n, p, z = self.total, self.count / self.total, 1.96
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        interval = f"{100 * (middle - half):.0f}-{100 * (middle + half):.0f} %"
        return f"{self.count:3} of {n} = {100 * p:5.1f} % ({interval})"


def classified(text: str) -> ClassifiedLog:
    """Classify one text as `triage classify` does."""
    return classify_log(BytesIO(text.encode()), packaged_rules())


def listed(value: str | list[str]) -> list[str]:
    """Return one or several texts as a list."""
    return value if isinstance(value, list) else [value]


def is_right(entry: dict[str, Any], found: ClassifiedLog) -> bool:
    """Whether class and headline of the first failure are expected ones."""
    if not found.failures:
        return False
    first = found.failures[0]
    classes = set(listed(entry["class"]))
    if "unknown" in classes:
        classes |= _ADDED
    headline = " ".join(first.headline.split())
    return first.failure_class in classes and any(
        _SEVERITY.sub("", " ".join(text.split())) in headline
        for text in listed(entry["headline"])
    )


def is_specific(entry: dict[str, Any], found: ClassifiedLog) -> bool:
    """Whether the signature of the first failure holds each expected name."""
    text = found.failures[0].signature if found.failures else ""
    return all(
        any(name in text for name in names.split("|")) for names in entry["names"]
    )


def main() -> None:
    """Print the table of one set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--wrong", action="store_true", help="print what is wrong")
    arguments = parser.parse_args()
    logs = yaml.safe_load((FOLDER / f"logs_{arguments.set}.yaml").read_text())
    greens = yaml.safe_load((FOLDER / f"green_{arguments.set}.yaml").read_text())
    results = [(entry, classified(entry["log"])) for entry in logs]
    quiet = [(entry, classified(entry["log"])) for entry in greens]
    statuses = Counter(found.status for _, found in results)
    alarms = [pair for pair in quiet if pair[1].status is not LogStatus.NO_FAILURES]
    rows = {
        "right": sum(is_right(entry, found) for entry, found in results),
        "specific": sum(is_specific(entry, found) for entry, found in results),
        "unrecognised": statuses[LogStatus.UNRECOGNISED],
        "silent": statuses[LogStatus.NO_FAILURES],
    }
    for name, count in rows.items():
        print(f"{name:13} {Share(count, len(logs))}")
    print(f"{'false alarms':13} {Share(len(alarms), len(greens))}")
    if arguments.wrong:
        wrong = [pair for pair in results if not is_right(*pair)]
        for entry, found in [*wrong, *alarms]:
            print(f"\n=== {entry.get('thread') or entry['name']}: {found.status}")
            print("expected", entry.get("class"), entry.get("headline"))
            for failure in found.failures[:2]:
                print(f"found    {failure.signature} | {failure.headline}")
            for line in found.likeliest:
                print(f"likely   {line.line}: {line.text}")


if __name__ == "__main__":
    main()
