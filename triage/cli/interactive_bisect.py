"""`triage bisect --interactive`: show what is known, propose the next probe, do what the person says."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from triage.bisect.commits import answer, bisect_commits, confirm
from triage.bisect.result import Bisection
from triage.bisect.session import Session
from triage.model.errors import BadInput, Interrupted
from triage.model.outcome import Compiled, Failed, Outcome, Untestable, Verdict
from triage.report.bisection import progress_bar
from triage.report.formats import console_for

_SHOWN = 6
HELP = """  Enter            compile the proposed place
  good, bad, skip  your own verdict for it; or for another one: good COMMIT
  jump COMMIT      propose another place            show COMMIT   what it changed
  back             take the last verdict back       log           all verdicts so far
  other            chase the other failure instead  auto          go on alone to the end
  quit             stop here; --resume goes on"""


def lead(session: Session, out: Console | None = None, read: Callable[[str], str] | None = None) -> Bisection:
    """Lead a bisect by what a person types until it is resolved. Interrupted when they quit."""
    out = out or console_for(sys.stderr)
    read = read or (lambda prompt: out.input(prompt))
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
            done = _obey(session, proposed, words, out)
        except BadInput as error:
            out.print(f"  {error}", style="yellow", markup=False)
            continue
        if done is not None:
            return done


def _obey(session: Session, proposed: int, words: list[str], out: Console) -> Bisection | None:
    word, at = (words[0] if words else ""), (session.index_of(words[1]) if len(words) > 1 else proposed)
    match word:
        case "" | "p" | "probe":
            out.print(_said(session.probe(at)))
        case "good" | "bad" | "skip":
            session.say(at, Verdict(word))
        case "back" | "undo":
            gone = session.back()
            out.print(f"  taken back: {gone.name} {gone.verdict.value}" if gone else "  nothing to take back")
        case "log":
            for entry in session.entries:
                out.print(f"  {entry.verdict.value:<5} {entry.name}  {entry.by}: {entry.why}", markup=False)
        case "show":
            _describe(session, at, out)
        case "jump" if len(words) > 1:
            session.jump(words[1])
        case "other":
            out.print(f"  now chasing {session.chase_other().signature}", markup=False)
        case "auto":
            return bisect_commits(session.search)
        case "quit" | "q":
            raise Interrupted("stopped by the user")
        case _:
            out.print(HELP, style="dim")
    return None


def _show(session: Session, proposed: int, out: Console) -> None:
    search = session.search
    assert search.belief is not None
    ranked = search.belief.suspects()
    out.print(Text(f"\n{len(ranked)} suspects, {search.belief.entropy:.1f} bits to learn", style="bold"))
    table = Table.grid(padding=(0, 1))
    for index, chance in ranked[:_SHOWN]:
        at = search.line.revision(index)
        table.add_row(progress_bar(chance), f"{chance:.1%}", Text(at.name, style="bold"), at.date or "", at.subject or "")
    out.print(table)
    at = search.line.revision(proposed)
    price = search.line.prices()[proposed] + search.compile_seconds
    out.print(
        Text.assemble(
            "next: ", (at.name, "bold"), f" {at.subject or ''}  ({session.told_by(proposed):.2f} bits, about {price:.0f} s)"
        )
    )


def _said(outcome: Outcome) -> Text:
    match outcome:
        case Compiled():
            return Text("  good: it compiles", style="green")
        case Failed(failure=failure):
            return Text(f"  fails: {failure.failure_class}: {failure.headline}", style="red")
        case Untestable(reason=reason):
            return Text(f"  untestable: {reason}", style="yellow")


def _describe(session: Session, index: int, out: Console) -> None:
    notes = session.search.line.notes([index], session.search.clues)
    at = session.search.line.revision(index)
    out.print(f"  {at.name} {at.date or ''} {at.subject or ''}", markup=False)
    for note in notes.values():
        for line in (note.url or "", *note.files[:20], *(f"suspicious: {reason}" for reason in note.reasons)):
            if line:
                out.print(f"    {line}", markup=False)


def _finish(session: Session, out: Console) -> Bisection:
    """Confirm by compiling where compiles spoke; a person's word is not asked a second time."""
    search = session.search
    if search.resolved:
        pair = {search.line.revision(index).name for index in (search.leading.first - 1, search.leading.last)}
        if not any(entry.by == "person" and entry.name in pair for entry in session.entries):
            out.print("probing the pair again", style="dim")
            if not confirm(search):
                out.print("  they do not agree with what was said before", style="yellow")
    return answer(search)
