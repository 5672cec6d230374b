"""The corpus of failures from public threads, and logs without a failure.

The corpus holds facts of the threads (what failed, in which operation) and texts of our
own in the format of the diagnostics.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from triage.classify import packaged_rules
from triage.classify.reader import read_log
from triage.classify.rules import read_yaml
from triage.model.outcome import Failure

CORPUS = Path(__file__).parents[1] / "data" / "classify_corpus"


@dataclass(frozen=True, slots=True)
class Snippet:
    """One log with the right classes and headlines. names: texts of a specific
    signature, alternatives separated by `|`.
    """

    thread: str
    classes: tuple[str, ...]
    headlines: tuple[str, ...]
    names: tuple[str, ...]
    log: str

    def first_failure(self) -> Failure | None:
        """Return the root cause that the classifier finds."""
        causes = read_log([self.log.encode()], packaged_rules()).findings.causes()
        return causes[0].failure() if causes else None

    def is_right(self, failure: Failure | None) -> bool:
        """Whether class and headline are the expected ones."""
        if failure is None or failure.failure_class not in self.classes:
            return False
        return any(headline in failure.headline for headline in self.headlines)

    def is_specific(self, failure: Failure | None) -> bool:
        """Whether the signature contains each of the expected names."""
        text = failure.signature if failure else ""
        return all(
            any(name in text for name in names.split("|")) for names in self.names
        )


@cache
def snippets() -> tuple[Snippet, ...]:
    """Read the failures of the corpus."""
    return tuple(
        Snippet(
            entry["thread"],
            _listed(entry["class"]),
            _listed(entry["headline"]),
            tuple(entry["names"]),
            entry["log"],
        )
        for path in sorted(CORPUS.glob("*.yaml"))
        if path.stem != "no_failure"
        for entry in read_yaml(path)
    )


def _listed(value: str | list[str]) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def logs_without_failure() -> dict[str, str]:
    """Read the logs in which nothing failed."""
    entries = read_yaml(CORPUS / "no_failure.yaml")
    return {entry.get("thread") or entry["name"]: entry["log"] for entry in entries}
