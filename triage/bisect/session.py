"""An interactive bisect and its journal on disk. Prints and reads nothing itself."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from triage.bisect.result import Side
from triage.bisect.search import BisectSearch
from triage.model.errors import BadInput
from triage.model.outcome import Outcome, Verdict
from triage.toolchains.home import disk_errors, write_whole


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One verdict about the failure that is bisected."""

    name: str
    """A sha or a release."""
    verdict: Verdict
    by: Literal["probe", "person"]
    why: str = ""


_ENTRIES = TypeAdapter(tuple[JournalEntry, ...])
_FORMAT = "2"  # changes when the meaning of the entries does


def read_journal(path: Path) -> tuple[JournalEntry, ...]:
    """Return the verdicts in a journal, in order; none from a file that is missing or damaged."""
    try:
        return _ENTRIES.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return ()


class Session:
    """A search that has begun, and its verdicts so far.

    The journal is replaced as a whole after each verdict, so that an interruption loses at most the last.
    """

    def __init__(self, search: BisectSearch, home: Path) -> None:
        first, last = search.revision(0).name, search.revision(search.last).name
        key = "\0".join((_FORMAT, search.case.name, first, last, search.kind))
        self.search, self.entries = search, list[JournalEntry]()
        self.journal = home / "bisects" / f"{blake2b(key.encode(), digest_size=10).hexdigest()}.json"

    def resume(self) -> int:
        """Take in the journal's verdicts about this range; return how many there are."""
        names = {candidate.revision.name for candidate in self.search.range.candidates}
        self.entries = [entry for entry in read_journal(self.journal) if entry.name in names]
        self._rebuild()
        return len(self.entries)

    def next(self) -> int | None:
        """Return the candidate to probe next; None if the answer is final or no probe can help any more."""
        chosen = self.search.choose()
        return chosen[len(chosen) // 2] if chosen else None

    def probe(self, index: int) -> Outcome:
        """Compile at a candidate and take in the outcome."""
        self.search.ask([index])
        outcome = self.search.outcomes[index][-1]
        why = outcome.reason or (outcome.failure.signature if outcome.failure else "compiled")
        self._note(JournalEntry(self.search.revision(index).name, self.search.verdict(outcome), "probe", why))
        return outcome

    def record(self, index: int, verdict: Verdict) -> None:
        """Take in a person's verdict about a candidate: bad means that it has the failure.

        Raises:
            BadInput: It contradicts an end of the range or an earlier verdict.
        """
        search, side_of = self.search, self.search.kind.side
        name, side = search.revision(index).name, side_of(verdict)
        known = {0: search.kind.verdict(Side.OLD), search.last: search.kind.verdict(Side.NEW)}
        known |= {self.index_of(entry.name): entry.verdict for entry in self.entries}
        for other, said in sorted(known.items()):
            is_before_old = side is Side.NEW and side_of(said) is Side.OLD and index <= other
            if is_before_old or (side is Side.OLD and side_of(said) is Side.NEW and index >= other):
                where = "the same revision" if index == other else f"{name} is {'older' if index < other else 'newer'}"
                undo = "" if other in (0, search.last) else "; `undo` removes the last verdict"
                raise BadInput(f"{verdict} {name} contradicts {said} {search.revision(other).name}: {where}{undo}")
        self._note(JournalEntry(name, verdict, "person"))
        self._rebuild()

    def undo(self) -> JournalEntry | None:
        """Remove the last verdict and return it; None if there is none."""
        if not self.entries:
            return None
        entry = self.entries.pop()
        self._save()
        if entry.by == "probe":
            self.search.outcomes.pop(self.index_of(entry.name), None)
        self._rebuild()
        return entry

    def index_of(self, name: str) -> int:
        """Return the candidate with this name, or a sha that begins with it (4 digits or more). BadInput: not exactly one."""
        matches = []
        for index, one in enumerate(self.search.range.candidates):
            if one.revision.name == name or (len(name) >= 4 and any(sha.startswith(name) for sha in one.shas)):
                matches.append(index)
        if len(matches) != 1:
            raise BadInput(f"{name!r} is not one of the {self.search.last + 1} candidates of this bisect")
        return matches[0]

    def _note(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        self._save()

    def _save(self) -> None:
        with disk_errors("write the journal of the bisect"):
            write_whole(self.journal, _ENTRIES.dump_json(tuple(self.entries)))

    def _rebuild(self) -> None:
        """Start the belief anew from all outcomes, and the entries that no outcome of this session stands for."""
        search = self.search
        search.rebuild()
        assert search.belief is not None
        known = [(self.index_of(entry.name), entry) for entry in self.entries]
        search.belief = search.belief.observe(
            *(
                (index, search.kind.side(entry.verdict))
                for index, entry in known
                if entry.by == "person" or index not in search.outcomes
            )
        )
