"""`triage bisect --interactive`: show the suspects, propose the next probe, obey the person."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from rich.console import Console
from rich.table import Table
from rich.text import Text

from triage.bisect.result import Bisection, BisectKind
from triage.bisect.search import answer, confirm, run_search
from triage.bisect.session import Session
from triage.model.errors import BadInput, Interrupted
from triage.model.outcome import Compiled, Failed, Outcome, Untestable, Verdict
from triage.report.elements import progress_bar
from triage.report.formats import console_for

_SHOWN = 6  # suspects in the table
HELP = """  Enter            compile the case at the proposed candidate
  good             it compiles, or runs as it should
  bad              it has the failure that is bisected
  skip             it cannot be judged: another failure, or no compiler
                   (good, bad and skip take a candidate, too: good CANDIDATE)
  jump CANDIDATE   propose another candidate        show CANDIDATE   its changes and why it is suspicious
  undo             remove the last verdict          log              all verdicts so far
  other            bisect the other failure that was found last
  auto             run the rest without questions
  quit             stop; --resume continues"""


def lead(session: Session, out: Console | None = None, read: Callable[[str], str] | None = None) -> Bisection:
    """Run a bisect by what a person types until it is resolved.

    Raises:
        Interrupted: The person quits.
    """
    out = out or console_for(sys.stderr)
    read = read or partial(_typed, out)
    change = "good to bad" if session.search.kind is BisectKind.REGRESSION else "bad to good"
    out.print(f"Find the first candidate after the change from {change}.")
    out.print(HELP, style="dim")
    while True:
        proposed = session.next()
        if proposed is None:
            return _finish(session, out)
        _show(session, proposed, out)
        try:
            words = read("> ").split()
        except EOFError:
            words = ["quit"]
        try:
            bisection = _obey(session, proposed, words, out)
        except BadInput as error:
            out.print(f"  {error}", style="yellow")
            continue
        if bisection is not None:
            return bisection


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


def _obey(session: Session, proposed: int, words: list[str], out: Console) -> Bisection | None:
    word, index = (words[0] if words else ""), (session.index_of(words[1]) if len(words) > 1 else proposed)
    match word:
        case "" | "p" | "probe":
            out.print(_outcome_text(session.probe(index)))
        case "good" | "bad" | "skip":
            session.record(index, Verdict(word))
        case "undo" | "back":
            entry = session.undo()
            out.print(f"  removed: {entry.name} {entry.verdict.value}" if entry else "  there is no verdict to remove")
        case "log":
            for entry in session.entries:
                out.print(f"  {entry.verdict.value:<5} {entry.name}  {entry.by}: {entry.why}")
        case "show":
            _describe(session, index, out)
        case "jump" if len(words) > 1:
            session.jump(words[1])
        case "other":
            out.print(f"  now bisecting {session.switch_failure().signature}")
        case "auto":
            return run_search(session.search)
        case "quit" | "q":
            raise Interrupted("stopped by the user")
        case _:
            out.print(HELP, style="dim")
    return None


def _show(session: Session, proposed: int, out: Console) -> None:
    search = session.search
    assert search.belief is not None
    ranked = search.belief.suspects()
    count = f"{len(ranked)} suspect{'s' if len(ranked) != 1 else ''}"
    out.print(Text(f"\n{count}, {search.belief.entropy:.1f} bits missing", style="bold"))
    table = Table.grid(padding=(0, 1))
    for index, chance in ranked[:_SHOWN]:
        revision = search.range.suspect(index)
        name = Text(revision.name, style="bold")
        table.add_row(progress_bar(chance), f"{chance:.1%}", name, revision.date or "", revision.subject or "")
    out.print(table)
    revision = search.range.revision(proposed)
    seconds = search.range.seconds()[proposed] + search.compile_seconds
    cost = f"({session.bits(proposed):.2f} bits, about {seconds:.0f} s)"
    out.print(Text.assemble("next: ", (revision.name, "bold"), f" {revision.subject or ''}  {cost}"))


def _outcome_text(outcome: Outcome) -> Text:
    match outcome:
        case Compiled():
            return Text("  good: it compiles", style="green")
        case Failed(failure=failure):
            return Text(f"  fails: {failure.failure_class}: {failure.headline}", style="red")
        case Untestable(reason=reason):
            return Text(f"  untestable: {reason}", style="yellow")


def _describe(session: Session, index: int, out: Console) -> None:
    notes = session.search.range.notes([index], session.search.clues)
    revision = session.search.range.revision(index)
    out.print(f"  {revision.name} {revision.date or ''} {revision.subject or ''}")
    for note in notes.values():
        for line in (note.url or "", *note.files[:20], *(f"suspicious: {reason}" for reason in note.reasons)):
            if line:
                out.print(f"    {line}")


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
