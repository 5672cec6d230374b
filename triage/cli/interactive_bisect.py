"""`triage bisect --interactive`: show the suspects, propose the next revision to test,
obey, and keep a journal.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Literal, TextIO

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from triage.bisect.belief import Belief
from triage.bisect.changes import answer, passing_search
from triage.bisect.plan import plan
from triage.bisect.request import BisectRequest
from triage.bisect.result import Bisection, BisectKind, Side
from triage.bisect.search import Search
from triage.cli.exit_codes import command_again
from triage.execution.match import verdict_of
from triage.model.errors import BadInput
from triage.model.foreign_file import read_bytes
from triage.model.outcome import NoAnswer, Verdict
from triage.recipes.values import duration_text
from triage.report.elements import plural
from triage.report.terminal import console_for
from triage.toolchains.home import Home, KeptKind, save_file

_SHOWN = 6  # suspects in the table
HELP = """  Enter   compile the case at the proposed revision
  good    it compiles, or runs as it should
  bad     it has the failure that is bisected
  skip    it cannot be judged: another failure, or no compiler
          (good, bad and skip take another revision, too: good 3.1.0)
  why     say why this revision is proposed
  undo    remove the last verdict
  quit    stop; --resume continues"""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One verdict about the failure that is bisected."""

    name: str
    """A sha or a release."""
    verdict: Verdict
    by: Literal["probe", "person"]


_LARGEST_JOURNAL = 16 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Journal:
    """What the file of a journal holds."""

    bisect: str
    """The key of the bisect."""
    entries: list[JournalEntry]


_JOURNAL = TypeAdapter(Journal)


def read_journal(path: Path, bisect: str) -> list[JournalEntry]:
    """Return the verdicts in the journal of a bisect, in order; none from a file that
    is missing, damaged or of another bisect.
    """
    try:
        journal = _JOURNAL.validate_json(read_bytes(path, _LARGEST_JOURNAL))
    except (OSError, ValidationError):
        return []
    return journal.entries if journal.bisect == bisect else []


def prompt(
    request: BisectRequest, before: str | None, after: str | None, *, resume: bool
) -> Bisection:
    """Run a bisect by what a person types until it is resolved or the person quits."""
    search = plan(request, before, after)
    if isinstance(search, Bisection):
        return search
    verified = passing_search(search).verified()
    if isinstance(verified, NoAnswer):
        return answer(search, verified)
    session = Session(verified, request.engine.registry.home, console_for(sys.stderr))
    return session.run(sys.stdin, resume=resume)


class Session:
    """A search that has begun, and its verdicts so far.

    The journal is replaced as a whole after each verdict, so that an interruption loses
    at most the last.
    """

    def __init__(self, search: Search, home: Home, out: Console) -> None:
        assert search.failure is not None
        match = search.line.request.match(search.failure)
        self.search = replace(search, match=match, judge=verdict_of)
        self.out, self.entries = out, list[JournalEntry]()
        self.line = search.line
        key = (
            self.line.request.case.name,
            self.line.name(search.first),
            self.line.name(search.last),
            search.kind,
        )
        self.key = json.dumps(key)
        digest = blake2b(self.key.encode(), digest_size=10).hexdigest()
        self.journal = home.kept(KeptKind.JOURNALS) / f"{digest}.json"

    def run(self, typed: TextIO, *, resume: bool = False) -> Bisection:
        """Read and obey commands until the search is resolved, `quit`, or the end of
        the input.
        """
        out = self.out
        self._begin(resume=resume)
        while not self.line.stopped:
            belief = self.search.belief()
            chosen = list(belief.dividing(1, self.search.seconds()))
            if belief.is_resolved or not chosen:
                break
            proposed = self.search.first + chosen[0]
            self._show_suspects(belief, proposed)
            out.print("> ", end="")
            # `input` would drop a Ctrl-C that arrives while it flushes the output
            line = typed.readline()
            if line.strip() == "quit" or not line:
                stopped = answer(self.search, self.search.found(belief))
                return replace(stopped, command=command_again("--resume"))
            try:
                self._obey(proposed, line.split())
            except BadInput as error:
                out.print(f"  {error}", style="yellow")
        found = self.search.found(self.search.belief())
        # their verdict is not confirmed
        if self.search.stated.keys() & {found.before, found.after}:
            return answer(self.search, found)
        out.print("probing the pair again", style="dim")
        return answer(self.search, self.search.run())

    def _begin(self, *, resume: bool) -> None:
        search, out = self.search, self.out
        known = read_journal(self.journal, self.key)
        if resume:
            names = {self.line.name(index) for index in range(len(self.line))}
            self._change([entry for entry in known if entry.name in names], save=False)
            out.print(f"resumed: {plural(len(self.entries), 'verdict')} of the journal")
        elif known:
            out.print(
                "an earlier bisect of this range left "
                f"{plural(len(known), 'verdict')}; --resume continues it"
            )
        is_regression = search.kind is BisectKind.REGRESSION
        change = "good to bad" if is_regression else "bad to good"
        out.print(f"Find the first revision after the change from {change}.")
        out.print(HELP, style="dim")

    def _show_suspects(self, belief: Belief, proposed: int) -> None:
        """Show the likeliest suspects and the revision to test next."""
        first, chances = self.search.first, belief.chances
        suspects = [index for index, chance in enumerate(chances) if chance]
        suspects.sort(key=lambda index: -chances[index])
        seconds = duration_text(self.search.seconds()[proposed - first])
        count, steps = plural(len(suspects), "suspect"), len(suspects) - 1
        steps_text = plural(steps.bit_length(), "step")
        title = f"\n{count}, about {steps_text}, {seconds} each"
        self.out.print(Text(title, style="bold"))
        table = Table.grid(padding=(0, 1))
        for index in suspects[:_SHOWN]:
            change = self.line.change(first + index)
            name = Text(change.name, style="bold")
            date, subject = change.date or "", change.subject or ""
            table.add_row(f"{chances[index]:.1%}", name, date, subject)
        self.out.print(table)
        revision = self.line.revision(proposed)
        line = Text.assemble("next: ", (revision.name, "bold"))
        self.out.print(line.append(f" {revision.subject or ''}"))

    def _obey(self, proposed: int, words: list[str]) -> None:
        match words:
            case []:
                self._probe(proposed)
            case ["good" | "bad" | "skip" as word, *names] if len(names) < 2:
                self.record(
                    self._index_of(names[0]) if names else proposed, Verdict(word)
                )
            case ["undo"] if self.entries:
                *others, entry = self.entries
                if entry.by == "probe":
                    self.line.forget(self._index_of(entry.name))
                self._change(others)
                self.out.print(f"  removed: {entry.name} {entry.verdict.value}")
            case ["undo"]:
                self.out.print("  there is no verdict to remove")
            case ["why"]:
                self._explain(proposed)
            case _:
                if words != ["help"]:
                    self.out.print(f"  unknown: {' '.join(words)}", style="yellow")
                self.out.print(HELP, style="dim")

    def _explain(self, proposed: int) -> None:
        """Say why a revision is the next to test, and what makes it suspicious."""
        belief, place = self.search.belief(), proposed - self.search.first
        before = sum(belief.chances[: place + 1])
        self.out.print(
            f"  the culprit is this one or older with {before:.0%}, newer with "
            f"{1 - before:.0%}"
        )
        suspects = self.line.suspects({proposed: 1.0}, self.search.clues)
        for reason in suspects[0].reasons:
            self.out.print(f"  it {reason}")

    def _probe(self, index: int) -> None:
        self.line.probe({index: 1})
        outcome = self.line.outcome(index)
        if outcome.reason:
            said, style = f"untestable: {outcome.reason}", "yellow"
        elif outcome.failure:
            said = f"fails: {outcome.failure.failure_class}: "
            said, style = said + outcome.failure.headline, "red"
        else:
            said, style = "good: it compiles", "green"
        self.out.print(Text(f"  {said}", style=style))
        name, verdict = self.line.name(index), self.search.verdict(outcome)
        self._change([*self.entries, JournalEntry(name, verdict, "probe")])

    def record(self, index: int, verdict: Verdict) -> None:
        """Take in a person's verdict about a candidate: bad means that it has the
        failure.

        Raises:
            BadInput: It contradicts an end of the range or an earlier verdict.
        """
        search, kind = self.search, self.search.kind
        name, side = self.line.name(index), kind.side(verdict)
        known = {
            search.first: kind.verdict(Side.OLD),
            search.last: kind.verdict(Side.NEW),
        }
        known |= {self._index_of(entry.name): entry.verdict for entry in self.entries}
        for other, said in sorted(known.items()):
            order = (side, kind.side(said))
            is_too_old = order == (Side.NEW, Side.OLD) and index <= other
            is_too_new = order == (Side.OLD, Side.NEW) and index >= other
            if is_too_old or is_too_new:
                raise BadInput(
                    f"{verdict} {name} contradicts {said} {self.line.name(other)}; "
                    "`undo` removes the last verdict"
                )
        others = [
            entry
            for entry in self.entries
            if (entry.name, entry.by) != (name, "person")
        ]
        self._change([*others, JournalEntry(name, verdict, "person")])

    def _change(self, entries: list[JournalEntry], *, save: bool = True) -> None:
        """Replace the verdicts."""
        self.entries = entries
        if save:
            save_file(
                self.journal,
                _JOURNAL.dump_json(Journal(self.key, list(entries))),
                "write the journal of the bisect",
            )
        stated = {}
        for entry in entries:
            index = self._index_of(entry.name)
            side = self.search.kind.side(entry.verdict)
            if entry.by == "person" or not self.line.probes[index]:
                stated[index] = side
        self.search = replace(self.search, stated=stated)

    def _index_of(self, name: str) -> int:
        """Return the candidate with this name, or a sha that begins with it (4 digits
        or more). BadInput: not exactly one.
        """
        matches = []
        for index, candidate in enumerate(self.line.range.candidates):
            is_sha = len(name) >= 4 and any(
                commit.sha.startswith(name) for commit in candidate.commits
            )
            if is_sha or candidate.revision.name == name:
                matches.append(index)
        if len(matches) != 1:
            raise BadInput(
                f"{name!r} is not one of the {len(self.line)} candidates of this bisect"
            )
        return matches[0]
