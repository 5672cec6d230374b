"""Measure classification on failures from public issue threads, and false alarms on logs without a failure.

The corpus holds facts of the threads (what failed, in which operation) and texts of our own in the format of the
diagnostics. Half of it, chosen by a hash of the thread's address, was held out until the first measurement; further sets were
written afterwards and measured once before any rule was changed for them.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

from triage.classify import Scanner, packaged_rules
from triage.model.outcome import Failure

CORPUS = Path(__file__).parent / "classify_corpus"
FILES = {
    "second_held_out": "second held out",
    "development": "development",
    "third_held_out": "third held out",
    "fourth_held_out": "fourth held out",
}
"""Parts that are a file each."""
PARTS = ("first", "held out", *FILES.values())


@dataclass(frozen=True, slots=True)
class Snippet:
    """One log.

    classes, headlines: the right ones; names: texts that a specific signature contains, alternatives separated by `|`;
    file: the part of the corpus that is a file of its own, if the log is in one.
    """

    thread: str
    classes: tuple[str, ...]
    headlines: tuple[str, ...]
    names: tuple[str, ...]
    log: str
    file: str | None = None

    @property
    def part(self) -> str:
        """The part of the corpus: the half that rules were written with, the held-out half, or a file."""
        address = self.thread.removesuffix("/2")  # both snippets of a thread are on one side
        return self.file or PARTS[hashlib.sha256(address.encode()).digest()[0] % 2]

    def first_failure(self) -> Failure | None:
        """Return the root cause that the classifier finds."""
        scanner = Scanner(packaged_rules())
        scanner.feed(self.log.encode())
        return next(iter(scanner.finish()), None)

    def is_right(self, failure: Failure | None) -> bool:
        """Whether class and headline are the expected ones."""
        if failure is None or failure.failure_class not in self.classes:
            return False
        return any(headline in failure.headline for headline in self.headlines)

    def is_specific(self, failure: Failure | None) -> bool:
        """Whether the signature contains each of the expected names."""
        text = failure.signature if failure else ""
        return all(any(name in text for name in names.split("|")) for names in self.names)


def snippets() -> list[Snippet]:
    """Read the failures of the corpus."""
    found = []
    for path in sorted(CORPUS.glob("*.yaml")):
        if path.stem != "no_failure":
            for entry in yaml.safe_load(path.read_text("utf-8")):
                classes, headlines = _choices(entry["class"]), _choices(entry["headline"])
                part = FILES.get(path.stem)
                found.append(Snippet(entry["thread"], classes, headlines, tuple(entry["names"]), entry["log"], part))
    return found


def _choices(value: str | list[str]) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def logs_without_failure() -> dict[str, str]:
    """Read the logs in which nothing failed."""
    entries = yaml.safe_load((CORPUS / "no_failure.yaml").read_text("utf-8"))
    return {entry.get("thread") or entry["name"]: entry["log"] for entry in entries}


def main() -> None:
    """Print a row for each part; with --wrong, each wrong answer in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wrong", action="store_true", help="Print the wrong answers.")
    parser.add_argument("--held-out", action="store_true", help="Measure the parts that were held out, too.")
    options = parser.parse_args()
    print(f"{'part':<15} {'threads':>8} {'logs':>6} {'class and headline':>20} {'signature specific':>20}")
    for part in PARTS if options.held_out else PARTS[:1]:
        half = [snippet for snippet in snippets() if snippet.part == part]
        named = [snippet for snippet in half if snippet.names]
        answers = {snippet: snippet.first_failure() for snippet in half}
        right = sum(snippet.is_right(answers[snippet]) for snippet in half)
        specific = sum(snippet.is_specific(answers[snippet]) for snippet in named)
        threads = len({snippet.thread.removesuffix("/2") for snippet in half})
        shares = f"{_share(right, len(half)):>20} {_share(specific, len(named)):>20}"
        print(f"{part:<15} {threads:>8} {len(half):>6} {shares}")
        if options.wrong:
            for snippet, failure in answers.items():
                if not (snippet.is_right(failure) and snippet.is_specific(failure)):
                    print(f"  {snippet.thread}: {failure.signature if failure else None} | {failure and failure.headline}")
    alarms = Counter(
        name for name, log in logs_without_failure().items() if Snippet(name, (), (), (), log).first_failure() is not None
    )
    print(f"false alarms: {len(alarms)} of {len(logs_without_failure())} logs without a failure {sorted(alarms) or ''}")


def _share(count: int, total: int) -> str:
    return f"{count} of {total} ({count / total:.1%})"


if __name__ == "__main__":
    main()
