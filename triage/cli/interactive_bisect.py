"""`triage bisect --interactive`: show the suspects, propose the next revision to test, and obey."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from triage.bisect.plan import BisectRequest, plan
from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import answer, confirm
from triage.bisect.session import Session, read_journal
from triage.model.errors import BadInput, Interrupted
from triage.model.outcome import Outcome, Verdict
from triage.report.elements import duration_text, plural
from triage.report.terminal import console_for

_SHOWN = 6  # suspects in the table
_BAR = 16  # columns
HELP = """  Enter   compile the case at the proposed revision
  good    it compiles, or runs as it should
  bad     it has the failure that is bisected
  skip    it cannot be judged: another failure, or no compiler
          (good, bad and skip take another revision, too: good 3.1.0)
  undo    remove the last verdict
  log     all verdicts so far
  quit    stop; --resume continues"""


def prompt(request: BisectRequest, before: str | None, after: str | None, *, resume: bool) -> Bisection:
    """Run a bisect by what a person types until it is resolved. Raises Interrupted if the person quits."""
    search = plan(request, before, after)
    if isinstance(search, Bisection):
        return search
    return run_session(Session(search, request.runner.registry.home), resume) if search.begin() else answer(search)


def run_session(session: Session, resume: bool = False, out: Console | None = None, typed: TextIO | None = None) -> Bisection:
    """Run a session whose search has begun; see `prompt`."""
    out = out or console_for(sys.stderr)
    if resume:
        out.print(f"resumed: {plural(session.resume(), 'verdict')} of the journal")
    elif known := len(read_journal(session.journal)):
        out.print(f"an earlier bisect of this range left {plural(known, 'verdict')}; --resume continues it")
    change = "good to bad" if session.search.kind is BisectKind.REGRESSION else "bad to good"
    out.print(f"Find the first revision after the change from {change}.")
    out.print(HELP, style="dim")
    while (proposed := session.next()) is not None:
        _show(session, proposed, out)
        out.print("> ", end="")
        line = (typed or sys.stdin).readline()  # `input` would drop a Ctrl-C that arrives while it flushes the output
        try:
            _obey(session, proposed, line.split() if line else ["quit"], out)
        except BadInput as error:
            out.print(f"  {error}", style="yellow")
    search = session.search
    if search.resolved:  # a person's verdict is not confirmed
        names = {search.revision(index).name for index, _ in search.pair}
        if not any(entry.by == "person" and entry.name in names for entry in session.entries):
            out.print("probing the pair again", style="dim")
            if not confirm(search):
                out.print("  the probes contradict earlier ones", style="yellow")
    return answer(search)


def _obey(session: Session, proposed: int, words: list[str], out: Console) -> None:
    match words:
        case []:
            out.print(_outcome_text(session.probe(proposed)))
        case ["good" | "bad" | "skip" as word, *names] if len(names) < 2:
            session.record(session.index_of(names[0]) if names else proposed, Verdict(word))
        case ["undo"]:
            entry = session.undo()
            out.print(f"  removed: {entry.name} {entry.verdict.value}" if entry else "  there is no verdict to remove")
        case ["log"]:
            for entry in session.entries:
                out.print(f"  {entry.verdict.value:<5} {entry.name}  {entry.by}: {entry.why}")
        case ["quit"]:
            raise Interrupted("stopped by the user")
        case _:
            if words != ["help"]:
                out.print(f"  unknown: {' '.join(words)}", style="yellow")
            out.print(HELP, style="dim")


def _show(session: Session, proposed: int, out: Console) -> None:
    search = session.search
    assert search.belief is not None
    ranked = search.belief.suspects()
    seconds = duration_text(search.range.candidates[proposed].seconds + search.compile_seconds)
    steps = plural(search.belief.steps, "step")
    out.print(Text(f"\n{plural(len(ranked), 'suspect')}, about {steps}, {seconds} each", style="bold"))
    table = Table.grid(padding=(0, 1))
    for index, chance in ranked[:_SHOWN]:
        change, full = search.change(index), round(chance * _BAR)
        bar = Text("█" * full, style="cyan").append("░" * (_BAR - full), style="dim")
        table.add_row(bar, f"{chance:.1%}", Text(change.name, style="bold"), change.date or "", change.subject or "")
    out.print(table)
    revision = search.revision(proposed)
    out.print(Text.assemble("next: ", (revision.name, "bold"), f" {revision.subject or ''}"))


def _outcome_text(outcome: Outcome) -> Text:
    if outcome.reason is not None:
        return Text(f"  untestable: {outcome.reason}", style="yellow")
    if outcome.failure is not None:
        return Text(f"  fails: {outcome.failure.failure_class}: {outcome.failure.headline}", style="red")
    return Text("  good: it compiles", style="green")
