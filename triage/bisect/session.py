"""An interactive bisect and its journal on disk. Prints and reads nothing itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from triage.bisect.result import Side
from triage.bisect.search import BisectSearch
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Outcome, Untestable, Verdict
from triage.toolchains.home import disk_errors, write_whole


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One verdict about the failure that is bisected."""

    name: str
    """A sha or a release."""
    verdict: Verdict
    by: Literal["probe", "person"]
    """Whether the case was compiled or the user typed it."""
    why: str = ""
    """The failure, or the reason."""


_ENTRIES = TypeAdapter(tuple[JournalEntry, ...])


class Journal:
    """The verdicts of a bisect in a JSON file, which is replaced as a whole, so that an interruption loses at most the last."""

    def __init__(self, folder: Path, key: Iterable[str]) -> None:
        """`key` identifies the bisect: its case, ends and kind."""
        name = blake2b("\0".join(key).encode(), digest_size=10).hexdigest()
        self.path = folder / f"{name}.json"

    def read(self) -> tuple[JournalEntry, ...]:
        """Read the verdicts so far, in order; none from a file that is missing or damaged."""
        try:
            return _ENTRIES.validate_json(self.path.read_bytes())
        except (OSError, ValidationError):
            return ()

    def write(self, entries: Iterable[JournalEntry]) -> None:
        """Replace all verdicts."""
        with disk_errors("write the journal of the bisect"):
            write_whole(self.path, _ENTRIES.dump_json(tuple(entries)))


@dataclass(slots=True)
class Session:
    """A search and its journal."""

    search: BisectSearch
    journal: Journal
    entries: list[JournalEntry] = field(default_factory=list)

    def resume(self) -> int:
        """Take in the journal's verdicts about this range; return how many there are."""
        names = {self.search.range.revision(index).name for index in range(len(self.search.range))}
        self.entries = [entry for entry in self.journal.read() if entry.name in names]
        self._rebuild()
        return len(self.entries)

    def next(self) -> int | None:
        """The candidate to probe next; None when the answer is final or no probe can help any more."""
        chosen = self.search.choose()
        return chosen[len(chosen) // 2] if chosen else None

    def probe(self, index: int) -> Outcome:
        """Compile at a candidate and take in the outcome."""
        self.search.ask([index])
        outcome = self.search.outcomes[index][-1]
        name, verdict = self.search.range.revision(index).name, self.search.verdict(outcome)
        match outcome:
            case Failed(failure=failure):
                why = failure.signature
            case Untestable(reason=reason):
                why = reason
            case _:
                why = "compiled"
        self._note(JournalEntry(name, verdict, "probe", why))
        return outcome

    def record(self, index: int, verdict: Verdict) -> None:
        """Take in a person's verdict about a candidate: bad means that it has the failure.

        Raises:
            BadInput: It contradicts an end of the range or an earlier verdict.
        """
        search = self.search
        assert search.belief is not None
        name, side = search.range.revision(index).name, search.kind.side(verdict)
        known = {0: search.kind.verdict(Side.OLD), search.last: search.kind.verdict(Side.NEW)}
        known |= {self.index_of(entry.name): entry.verdict for entry in self.entries}
        for other, said in sorted(known.items()):
            is_old, is_new = search.kind.side(said) is Side.OLD, search.kind.side(said) is Side.NEW
            if (side is Side.NEW and is_old and index <= other) or (side is Side.OLD and is_new and index >= other):
                earlier = search.range.revision(other).name
                where = "the same revision" if index == other else f"{name} is {'older' if index < other else 'newer'}"
                undo = "" if other in (0, search.last) else "; `undo` removes the last verdict"
                raise BadInput(f"{verdict} {name} contradicts {said} {earlier}: {where}{undo}")
        search.belief = search.belief.observe(index, side)
        self._note(JournalEntry(name, verdict, "person"))

    def undo(self) -> JournalEntry | None:
        """Remove the last verdict and return it; None when there is none."""
        if not self.entries:
            return None
        entry = self.entries.pop()
        self.journal.write(self.entries)
        if entry.by == "probe":
            self.search.outcomes.get(self.index_of(entry.name), []).clear()
            self.search.outcomes = {index: known for index, known in self.search.outcomes.items() if known}
        self._rebuild()
        return entry

    def index_of(self, name: str) -> int:
        """The index of the candidate with this name, or a sha that begins with it (4 digits or more).

        Raises:
            BadInput: There is none, or more than one.
        """
        candidates = self.search.range
        matches = [
            index
            for index in range(len(candidates))
            if candidates.revision(index).name == name
            or (len(name) >= 4 and any(sha.startswith(name) for sha in candidates.shas(index)))
        ]
        if len(matches) != 1:
            raise BadInput(f"{name!r} is not one of the {len(candidates)} candidates of this bisect")
        return matches[0]

    def _note(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        self.journal.write(self.entries)

    def _rebuild(self) -> None:
        """Start the belief anew from all outcomes, and the entries that no outcome of this session stands for."""
        search = self.search
        search.rebuild()
        assert search.belief is not None
        indexed = [(self.index_of(entry.name), entry) for entry in self.entries]
        search.belief = search.belief.observe_all(
            (index, search.kind.side(entry.verdict))
            for index, entry in indexed
            if entry.by == "person" or index not in search.outcomes
        )
