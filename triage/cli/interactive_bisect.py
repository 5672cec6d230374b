"""`triage bisect --interactive`: show the suspects, propose the next revision to test, and obey."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from rich.console import Console
from rich.table import Table
from rich.text import Text

from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import answer, confirm
from triage.bisect.session import Session
from triage.model.errors import BadInput, Interrupted
from triage.model.outcome import Compiled, Failed, Outcome, Untestable, Verdict
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


def prompt(
    session: Session, out: Console | None = None, read: Callable[[str], str] | None = None, *, resume: bool = False
) -> Bisection:
    """Run a bisect by what a person types until it is resolved.

    Raises:
        Interrupted: The person quits.
    """
    out = out or console_for(sys.stderr)
    read = read or partial(_typed, out)
    if resume:
        out.print(f"resumed: {plural(session.resume(), 'verdict')} of the journal")
    elif known := len(session.journal.read()):
        out.print(f"an earlier bisect of this range left {plural(known, 'verdict')}; --resume continues it")
    change = "good to bad" if session.search.kind is BisectKind.REGRESSION else "bad to good"
    out.print(f"Find the first revision after the change from {change}.")
    out.print(HELP, style="dim")
    while (proposed := session.next()) is not None:
        _show(session, proposed, out)
        try:
            words = read("> ").split()
        except EOFError:
            words = ["quit"]
        try:
            _obey(session, proposed, words, out)
        except BadInput as error:
            out.print(f"  {error}", style="yellow")
    return _finish(session, out)


def _typed(out: Console, prompt: str) -> str:
    """Return the next line of standard input. `input` would drop a Ctrl-C that arrives while it flushes the output.

    Raises:
        EOFError: There is none.
    """
    out.print(prompt, end="")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def _obey(session: Session, proposed: int, words: list[str], out: Console) -> None:
    match words:
        case []:
            out.print(_outcome_text(session.probe(proposed)))
        case ["good" | "bad" | "skip" as word]:
            session.record(proposed, Verdict(word))
        case ["good" | "bad" | "skip" as word, name]:
            session.record(session.index_of(name), Verdict(word))
        case ["undo"]:
            entry = session.undo()
            out.print(f"  removed: {entry.name} {entry.verdict.value}" if entry else "  there is no verdict to remove")
        case ["log"]:
            for entry in session.entries:
                out.print(f"  {entry.verdict.value:<5} {entry.name}  {entry.by}: {entry.why}")
        case ["quit"]:
            raise Interrupted("stopped by the user")
        case ["help"]:
            out.print(HELP, style="dim")
        case _:
            out.print(f"  unknown: {' '.join(words)}", style="yellow")
            out.print(HELP, style="dim")


def _show(session: Session, proposed: int, out: Console) -> None:
    search = session.search
    assert search.belief is not None
    ranked = search.belief.suspects()
    seconds = duration_text(float(search.range.seconds()[proposed]) + search.compile_seconds)
    steps = plural(search.belief.steps, "step")
    out.print(Text(f"\n{plural(len(ranked), 'suspect')}, about {steps}, {seconds} each", style="bold"))
    table = Table.grid(padding=(0, 1))
    for index, chance in ranked[:_SHOWN]:
        revision = search.range.suspect(index)
        name = Text(revision.name, style="bold")
        table.add_row(_bar(chance), f"{chance:.1%}", name, revision.date or "", revision.subject or "")
    out.print(table)
    revision = search.range.revision(proposed)
    out.print(Text.assemble("next: ", (revision.name, "bold"), f" {revision.subject or ''}"))


def _outcome_text(outcome: Outcome) -> Text:
    match outcome:
        case Compiled():
            return Text("  good: it compiles", style="green")
        case Failed(failure=failure):
            return Text(f"  fails: {failure.failure_class}: {failure.headline}", style="red")
        case Untestable(reason=reason):
            return Text(f"  untestable: {reason}", style="yellow")


def _finish(session: Session, out: Console) -> Bisection:
    """Confirm a pair that was compiled; a person's verdict is not confirmed."""
    search = session.search
    if search.resolved:
        names = {search.range.revision(index).name for index, _ in search.pair}
        if not any(entry.by == "person" and entry.name in names for entry in session.entries):
            out.print("probing the pair again", style="dim")
            if not confirm(search):
                out.print("  the probes contradict earlier ones", style="yellow")
    return answer(search)


def _bar(share: float) -> Text:
    full = round(share * _BAR)
    return Text("█" * full, style="cyan").append("░" * (_BAR - full), style="dim")
