"""A bisect that a person leads, and its journal on disk. Prints and reads nothing itself."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path

from triage.bisect.choose import information
from triage.bisect.result import BisectKind, Side
from triage.bisect.search import BisectSearch
from triage.model.errors import BadInput
from triage.model.outcome import Failed, Failure, Outcome, Untestable, Verdict
from triage.toolchains.home import disk_errors, write_whole

_GIT_LINE = re.compile(r"git bisect ([\w-]+)((?: '?[^\s']+'?)+)\s*$")
_OWN_COMMENT = re.compile(r"# (probe|person): (good|bad|skip): ")
_GIT_TERM = re.compile(r"--term-(old|good|new|bad)'?[ =]'?([\w-]+)")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One verdict about the failure that is bisected.

    name: a sha or a release. by: `probe` for a compile, `person` for what the user typed. why: the failure or the reason.
    """

    name: str
    verdict: Verdict
    by: str
    why: str = ""


class Journal:
    """The verdicts of a bisect as JSON lines, each with a checksum, so that an interruption loses at most the last one."""

    def __init__(self, folder: Path, key: Iterable[str]) -> None:
        """`key` identifies the bisect: its case, ends and kind."""
        name = blake2b("\0".join(key).encode(), digest_size=10).hexdigest()
        self.path = folder / f"{name}.jsonl"

    def read(self) -> tuple[JournalEntry, ...]:
        """Read the verdicts so far, in order. A line that is damaged or was cut short is skipped."""
        try:
            text = self.path.read_text("utf-8", "replace")
        except OSError:
            return ()
        entries = (_entry(line) for line in text.splitlines())
        return tuple(entry for entry in entries if entry is not None)

    def add(self, entry: JournalEntry) -> None:
        """Append one verdict."""
        with disk_errors("write the journal of the bisect"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as sink:
                sink.write(_line(entry))
                sink.flush()
                os.fsync(sink.fileno())

    def put_aside(self) -> None:
        """Start an empty journal; the previous one is kept beside it, once."""
        with disk_errors("put the journal of the bisect aside"):
            if self.path.exists():
                self.path.replace(self.path.with_suffix(".before"))

    def replace(self, entries: Iterable[JournalEntry]) -> None:
        """Rewrite the journal after a verdict was undone."""
        with disk_errors("write the journal of the bisect"):
            write_whole(self.path, "".join(map(_line, entries)))


def _line(entry: JournalEntry) -> str:
    return json.dumps({**asdict(entry), "checksum": _checksum(entry)}) + "\n"


def _entry(line: str) -> JournalEntry | None:
    """Return the entry of a line; None for a damaged one. Lines of earlier versions have no checksum."""
    try:
        fields = json.loads(line)
        checksum = fields.pop("checksum", None)
        entry = JournalEntry(**{**fields, "verdict": Verdict(fields["verdict"])})
        is_intact = all(isinstance(text, str) for text in asdict(entry).values()) and checksum in (None, _checksum(entry))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return entry if is_intact else None


def _checksum(entry: JournalEntry) -> str:
    return f"{zlib.crc32(json.dumps(asdict(entry)).encode()):08x}"


def git_log(entries: Iterable[JournalEntry], kind: BisectKind) -> str:
    """Write verdicts as a log for `git bisect replay`.

    Git's `good` and `bad` mean the old and the new side of the change. A fix uses git's own `old` and `new` instead.
    """
    words = {Side.OLD: "good", Side.NEW: "bad"} if kind is BisectKind.REGRESSION else {Side.OLD: "old", Side.NEW: "new"}
    lines = ["git bisect start"]
    for entry in entries:
        side = kind.side(entry.verdict)
        lines += [
            f"# {entry.by}: {entry.verdict.value}: {' '.join(entry.why.split())}",
            f"git bisect {words[side] if side else 'skip'} {entry.name}",
        ]
    return "\n".join(lines) + "\n"


def from_git_log(text: str, kind: BisectKind, name: str) -> tuple[JournalEntry, ...]:
    """Read the verdicts of a `git bisect log`; terms that its `start` line defines are understood.

    `why` of an entry is the comment before it, such as `git_log` writes.

    Raises:
        BadInput: A line is not of such a log.
    """
    sides: dict[str, Side | None] = {"good": Side.OLD, "old": Side.OLD, "bad": Side.NEW, "new": Side.NEW, "skip": None}
    entries: list[JournalEntry] = []
    comment = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("git bisect start"):
            sides |= {term: Side.OLD if side in {"old", "good"} else Side.NEW for side, term in _GIT_TERM.findall(line)}
        elif line.startswith("#"):
            comment = _OWN_COMMENT.sub("", line)
        elif line.strip() and not line.startswith("status:"):
            match = _GIT_LINE.match(line)
            if match is None or match[1] not in sides:
                raise BadInput(f"{name}:{number}:1: not a line of a git bisect log: {line[:80]!r}")
            verdict = kind.verdict(sides[match[1]])
            entries += [JournalEntry(revision.strip("'"), verdict, "person", comment) for revision in match[2].split()]
            comment = ""
    return tuple(entries)


@dataclass(slots=True)
class Session:
    """A search and its journal.

    wished: the candidate that the person wants to probe next, instead of the proposed one. owned: whether the journal holds
    this session's entries, not those of an earlier one.
    """

    search: BisectSearch
    journal: Journal
    entries: list[JournalEntry] = field(default_factory=list)
    wished: int | None = None
    owned: bool = False

    def resume(self) -> int:
        """Take in the journal's verdicts about this range; return how many there are."""
        self.entries = [entry for entry in self.journal.read() if self._index(entry.name) is not None]
        self.owned = True
        self._rebuild()
        return len(self.entries)

    def take_in(self, entries: Iterable[JournalEntry]) -> None:
        """Take in verdicts from elsewhere, such as a git bisect log.

        An entry is found by its name, or else by the name that its comment begins with: the sha of a release that is not
        installed is unknown here.

        Raises:
            BadInput: An entry is no candidate, or contradicts an end of the range.
        """
        for entry in entries:
            index = self._index(entry.why.partition(":")[0])
            index = self.index_of(entry.name) if index is None else index
            end = {0: Side.OLD, self.search.last: Side.NEW}.get(index)
            side = self.search.kind.side(entry.verdict)
            if end and side and side is not end:
                raise BadInput(
                    f"the log puts {entry.name} on the wrong side: it is the {end.value} end of the range. "
                    "In a log, `good` and `old` mean before the change, `bad` and `new` after it"
                )
            self.record(index, entry.verdict, entry.by, entry.why)

    def next(self) -> int | None:
        """The candidate to probe next; None when the answer is final or no probe can help any more."""
        if self.wished is not None:
            return self.wished
        chosen = self.search.choose()
        return chosen[len(chosen) // 2] if chosen else None

    def probe(self, index: int) -> Outcome:
        """Compile at a candidate and take in the outcome."""
        self.search.ask([index])
        self.search.compare_again()
        outcome = self.search.outcomes[index][-1]
        self._note(JournalEntry(self.search.range.revision(index).name, self.search.verdict(outcome), "probe", _why(outcome)))
        return outcome

    def record(self, index: int, verdict: Verdict, by: str = "person", why: str = "") -> None:
        """Take in a person's verdict about a candidate: bad means that it has the failure."""
        assert self.search.belief is not None
        self.search.belief = self.search.belief.observe(index, self.search.kind.side(verdict))
        self._note(JournalEntry(self.search.range.revision(index).name, verdict, by, why))

    def undo(self) -> JournalEntry | None:
        """Remove the last verdict and return it; None when there is none."""
        if not self.entries:
            return None
        entry = self.entries.pop()
        self.journal.replace(self.entries)
        index = self._index(entry.name)
        if entry.by == "probe" and index in self.search.outcomes:
            outcomes = self.search.outcomes.pop(index)[: -self.search.repeats]
            self.search.outcomes |= {index: outcomes} if outcomes else {}
        self._rebuild()
        return entry

    def jump(self, name: str) -> None:
        """Propose another candidate.

        Raises:
            BadInput: It is no candidate of this range, or has no compiler.
        """
        index = self.index_of(name)
        if (why := self.search.range.closed().get(index)) is not None:
            raise BadInput(f"{name} cannot be probed: {why}")
        self.wished = index

    def switch_failure(self) -> Failure:
        """Bisect the other failure that was found last instead; all outcomes are judged again.

        Raises:
            BadInput: No other failure was found.
        """
        search = self.search
        assert search.failure is not None
        known = search.match(search.failure)
        for outcomes in reversed(search.outcomes.values()):
            outcome = outcomes[-1]
            if isinstance(outcome, Failed) and not known(outcome.failure):
                search.failure = outcome.failure
                self.entries = [entry for entry in self.entries if entry.by == "person"]
                self._rebuild()
                return outcome.failure
        raise BadInput("no other failure was found so far")

    def verdicts(self) -> list[JournalEntry]:
        """Every verdict so far, those of the ends and of the automatic search included, the newest candidate first.

        Git takes the last bad one of a log for the oldest. `why` begins with the name of the candidate.
        """
        verdicts = [(self.index_of(entry.name), entry.verdict, entry.by, entry.why) for entry in self.entries]
        known = {index for index, *_ in verdicts}
        verdicts += [
            (index, self.search.verdict(outcomes[-1]), "probe", _why(outcomes[-1]))
            for index, outcomes in self.search.outcomes.items()
            if index not in known
        ]
        entries = []
        for index, verdict, by, why in sorted(verdicts, key=lambda known: -known[0]):
            revision = self.search.range.revision(index)
            entries.append(JournalEntry(revision.commit or revision.name, verdict, by, f"{revision.name}: {why}"))
        return entries

    def bits(self, index: int) -> float:
        """Expected information of a probe of a candidate, in bits."""
        assert self.search.belief is not None
        return float(information(self.search.belief)[index])

    def index_of(self, name: str) -> int:
        """The index of the candidate with this name, or a sha that begins with it (4 digits or more).

        Raises:
            BadInput: There is none, or more than one.
        """
        index = self._index(name)
        if index is None:
            raise BadInput(f"{name!r} is not one of the {len(self.search.range)} candidates of this bisect")
        return index

    def _index(self, name: str) -> int | None:
        matches = [
            index
            for index in range(len(self.search.range))
            if self.search.range.revision(index).name == name
            or (len(name) >= 4 and any(sha.startswith(name) for sha in self.search.range.shas(index)))
        ]
        return matches[0] if len(matches) == 1 else None

    def _note(self, entry: JournalEntry) -> None:
        self.wished = None
        self.entries.append(entry)
        if not self.owned:  # entries of an earlier session that is not resumed must not mix with these
            self.journal.put_aside()
            self.owned = True
        self.journal.add(entry)

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


def _why(outcome: Outcome) -> str:
    match outcome:
        case Failed(failure=failure):
            return failure.signature
        case Untestable(reason=reason):
            return reason
        case _:
            return "compiled"
