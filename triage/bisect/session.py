"""A bisect that a person leads: what was said, taken back, or asked for next. Draws and reads nothing itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from triage.bisect.belief import Belief
from triage.bisect.choose import information
from triage.bisect.commits import CommitSearch
from triage.bisect.journal import Entry, Journal
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Failure, Outcome, Untestable, Verdict


@dataclass(slots=True)
class Session:
    """A search and its journal. `wished`: the place the person wants next, instead of the one that would tell most.
    `begun`: whether the journal is this bisect's own by now.
    """

    search: CommitSearch
    journal: Journal
    entries: list[Entry] = field(default_factory=list)
    wished: int | None = None
    begun: bool = False

    def resume(self) -> int:
        """Take in what the journal holds of this line; how many verdicts that were."""
        known = [entry for entry in self.journal.read() if self._index(entry.name) is not None]
        self.entries = known
        self.begun = True
        self._rebuild()
        return len(known)

    def take_in(self, entries: Iterable[Entry]) -> None:
        """Verdicts from elsewhere, such as a git bisect log. BadInput when one is no place of this line."""
        for entry in entries:
            self.say(self.index_of(entry.name), entry.verdict, entry.by, entry.why)

    def next(self) -> int | None:
        """The place to probe next; None when the answer stands or nothing more can be learnt."""
        if self.wished is not None:
            return self.wished
        chosen = self.search.choose()
        return chosen[len(chosen) // 2] if chosen else None

    def probe(self, index: int) -> Outcome:
        """Compile at a place and take in what it says."""
        self.search.ask([index])
        outcome = self.search.outcomes[index][-1]
        self._note(Entry(self.search.line.revision(index).name, self.search.verdict(outcome), "probe", _why(outcome)))
        return outcome

    def say(self, index: int, verdict: Verdict, by: str = "person", why: str = "") -> None:
        """Take a person's word for a place."""
        assert self.search.belief is not None
        self.search.belief = self.search.belief.observe(index, verdict)
        self._note(Entry(self.search.line.revision(index).name, verdict, by, why))

    def back(self) -> Entry | None:
        """Take the last verdict back; None when there is none."""
        if not self.entries:
            return None
        gone = self.entries.pop()
        self.journal.replace(self.entries)
        index = self._index(gone.name)
        if gone.by == "probe" and index is not None and self.search.outcomes.get(index):
            self.search.outcomes[index].pop()
        self._rebuild()
        return gone

    def jump(self, name: str) -> int:
        """Ask for a place. BadInput when it is none of this line, or has no compiler."""
        index = self.index_of(name)
        if (why := self.search.line.closed().get(index)) is not None:
            raise BadInput(f"{name} cannot be probed: {why}")
        self.wished = index
        return index

    def chase_other(self) -> Failure:
        """Chase the other failure that was met last instead; everything is judged anew. BadInput when there was none."""
        search = self.search
        assert search.failure is not None
        known = search.match(search.failure)
        for outcomes in reversed(search.outcomes.values()):
            outcome = outcomes[-1]
            if isinstance(outcome, Failed) and not known(outcome.failure):
                search.failure = outcome.failure
                self.entries = [entry for entry in self.entries if entry.by == "person"]
                self._rebuild()
                for index, said in search.outcomes.items():
                    assert search.belief is not None
                    search.belief = search.belief.observe_all((index, search.verdict(one)) for one in said)
                return outcome.failure
        raise BadInput("no other failure was met so far")

    def said(self) -> list[Entry]:
        """Every verdict so far, those of the automatic search included, the newest place first: git takes the last bad
        one it is told for the oldest.
        """
        search = self.search
        names = {entry.name for entry in self.entries}
        probed = [
            Entry(
                search.line.revision(index).commit or search.line.revision(index).name,
                search.verdict(said[-1]),
                "probe",
                _why(said[-1]),
            )
            for index, said in search.outcomes.items()
            if 0 < index < search.last and search.line.revision(index).name not in names
        ]
        return sorted([*self.entries, *probed], key=lambda entry: -self.index_of(entry.name))

    def told_by(self, index: int) -> float:
        """Bits that a probe of a place is expected to tell."""
        assert self.search.belief is not None
        return float(information(self.search.belief)[index])

    def index_of(self, name: str) -> int:
        """The place a sha (from 4 digits on), release or number of the list stands for. BadInput when there is none."""
        index = self._index(name)
        if index is None:
            raise BadInput(f"{name!r} is none of the {len(self.search.line)} places of this bisect")
        return index

    def _index(self, name: str) -> int | None:
        found = [
            index
            for index in range(len(self.search.line))
            if (at := self.search.line.revision(index)).name == name or (len(name) >= 4 and (at.commit or "").startswith(name))
        ]
        return found[0] if len(found) == 1 else None

    def _note(self, entry: Entry) -> None:
        self.wished = None
        self.entries.append(entry)
        if not self.begun:  # what an earlier bisect that is not resumed said is not to come back with this one's
            self.journal.put_aside()
            self.begun = True
        self.journal.add(entry)

    def _rebuild(self) -> None:
        search = self.search
        search.belief = Belief.from_weights(search.line.weights(search.clues))
        said = ((self._index(entry.name), entry.verdict) for entry in self.entries)
        search.belief = search.belief.observe_all((index, verdict) for index, verdict in said if index is not None)


def _why(outcome: Outcome) -> str:
    match outcome:
        case Failed(failure=failure):
            return failure.signature
        case Untestable(reason=reason):
            return reason
        case _:
            return "compiled"
