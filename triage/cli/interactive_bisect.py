"""`triage bisect --interactive`: show the suspects, propose the next revision to test,
obey, and keep a journal.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Literal, TextIO

from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from triage.bisect.belief import Belief
from triage.bisect.line import BisectRequest
from triage.bisect.releases import plan_search
from triage.bisect.result import Bisection
from triage.bisect.search import Search, conclude
from triage.cli.command import continuing_command
from triage.model.content import read_bytes
from triage.model.outcome import NoAnswer, Verdict
from triage.report.elements import plural
from triage.report.terminal import console_for
from triage.toolchains.home import Home, KeptKind, save_file

_SHOWN = 6  # suspects
_LARGEST_JOURNAL = 16 << 20  # bytes
HELP = """  Enter   compile the case at the proposed revision
  good    it compiles, or runs as it should
  bad     it has the failure that is bisected
  skip    it cannot be judged: another failure, no compiler
  why     say why this revision is proposed
  undo    remove the last verdict
  quit    stop; --resume continues"""

# A sha or a release, and what a person said of it, or that it was compiled
Entry = tuple[str, Literal["good", "bad", "skip", "compiled"]]
_JOURNAL = TypeAdapter(list[Entry])


def read_journal(path: Path) -> list[Entry]:
    """Return the verdicts in a journal, in order; none from a file that is missing or
    damaged.
    """
    try:
        return _JOURNAL.validate_json(read_bytes(path, _LARGEST_JOURNAL))
    except (OSError, ValidationError):
        return []


def bisect_interactively(
    request: BisectRequest, before: str | None, after: str | None, *, resume: bool
) -> Bisection:
    """Run a bisect by what a person types until it is resolved or the person quits."""
    search = plan_search(request, before, after)
    if isinstance(search, Bisection):
        return search
    verified = search.verify_ends()
    if isinstance(verified, NoAnswer):
        return conclude(search, verified)
    session = Session(verified, request.engine.registry.home, console_for(sys.stderr))
    return session.run(sys.stdin, resume=resume)


class Session:
    """A search that has begun, and its verdicts so far.

    The journal is replaced as a whole after each verdict, so that an interruption loses
    at most the last.
    """

    def __init__(self, search: Search, home: Home, out: Console) -> None:
        assert search.failure is not None
        self.line = search.line
        self.out = out
        self.failure = search.failure
        self.begun = search.for_failure(self.failure)
        self.indices = self.line.indices
        self.entries: list[Entry] = []
        ends = self.line.name(search.first), self.line.name(search.last)
        key = json.dumps((self.line.request.case.name, *ends, search.kind))
        digest = blake2b(key.encode(), digest_size=10).hexdigest()
        self.journal = home.folder(KeptKind.JOURNALS) / f"{digest}.json"

    @property
    def search(self) -> Search:
        """The search with what the person said."""
        stated_verdicts = {
            self.indices[name]: Verdict(word)
            for name, word in self.entries
            if word != "compiled"
        }
        return replace(self.begun, stated_verdicts=stated_verdicts)

    def run(self, typed: TextIO, *, resume: bool = False) -> Bisection:
        """Read and obey commands until the search is resolved, `quit`, or the end of
        the input.
        """
        if resume:
            self._resume()
        self.out.print(HELP, style="dim")
        while not self.line.stopped:
            search = self.search
            belief = search.belief()
            chosen = list(belief.dividing_probes(1, search.seconds()))
            if belief.is_resolved or not chosen:
                break
            proposed = search.order[chosen[0]]
            self._show_suspects(belief, proposed)
            self.out.print("> ", end="")
            # `input` would drop a Ctrl-C that arrives while it flushes the output
            line = typed.readline()
            if line.strip() == "quit" or not line:
                pair = search.result(belief)
                stopped = conclude(search, pair.older, pair.change)
                return replace(stopped, command=continuing_command("--resume"))
            self._run_command(proposed, belief, line.strip())
        search = self.search
        pair = search.result(search.belief())
        # what a person said of the pair is not probed again
        if not search.stated_verdicts.keys() & {pair.good, pair.bad}:
            pair = search.run()
        return conclude(search, pair.older, pair.change)

    def _resume(self) -> None:
        """Repeat what the journal holds; compiles are cached."""
        self.entries = [
            entry for entry in read_journal(self.journal) if entry[0] in self.indices
        ]
        for name, word in self.entries:
            if word == "compiled":
                self.line.probe({self.indices[name]: 1})
        self.out.print(
            f"resumed: {plural(len(self.entries), 'verdict')} of the journal"
        )

    def _show_suspects(self, belief: Belief, proposed: int) -> None:
        """Show the likeliest suspects and the revision to test next."""
        chances = self.begun.by_candidate(belief.chances)
        suspects = [(chance, index) for index, chance in chances.items()]
        self.out.print(f"\n{plural(len(suspects), 'suspect')}")
        for chance, index in sorted(suspects, reverse=True)[:_SHOWN]:
            change = self.line.suspect_at(index)
            line = f"{chance:6.1%}  {change.name}  {change.subject or ''}"
            self.out.print(line.rstrip())
        self.out.print(f"next: {self.line.name(proposed)}", style="bold")

    def _run_command(self, proposed: int, belief: Belief, word: str) -> None:
        name = self.line.name(proposed)
        match word:
            case "":
                self.line.probe({proposed: 1})
                outcome = self.line.probed_outcome(proposed)
                text = outcome.reason or "it compiles"
                if outcome.failure:
                    text = f"it fails: {outcome.failure.headline}"
                self.out.print(f"  {text}")
                self._record([*self.entries, (name, "compiled")])
            case "good" | "bad" | "skip":
                self._record([*self.entries, (name, word)])
            case "undo" if self.entries:
                *others, (name, verdict) = self.entries
                if verdict == "compiled":
                    self.line.forget(self.indices[name])
                self._record(others)
                self.out.print(f"  removed: {name} {verdict}")
            case "undo":
                self.out.print("  there is no verdict to remove")
            case "why":
                chances = self.begun.by_candidate(belief.chances)
                chance = sum(chances[index] for index in chances if index <= proposed)
                self.out.print(f"  the culprit is this one or older with {chance:.0%}")
                [suspect] = self.line.suspects({proposed: 1.0}, self.failure)
                for reason in suspect.reasons:
                    self.out.print(f"  it {reason}")
            case _:
                self.out.print(f"  unknown answer: {word}")
                self.out.print(HELP, style="dim")

    def _record(self, entries: list[Entry]) -> None:
        """Replace the verdicts, and write them into the journal."""
        self.entries = entries
        content = _JOURNAL.dump_json(entries)
        save_file(self.journal, content, "write the journal of the bisect")
