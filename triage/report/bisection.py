"""A bisect's answer and ranked commits on a terminal. Renderables only; nothing is printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from triage.bisect.ends import unexpected
from triage.bisect.result import Answer, Bisection, BisectKind, CommitNote
from triage.model.outcome import Failure
from triage.report.words import headline_text, numbers_text, revision_text

if TYPE_CHECKING:  # brings numerics that no other report needs
    from triage.bisect.ranking import Suspect


def bisection_block(found: Bisection) -> RenderableType:
    """The answer of a bisect with its certificate: the pair, the failure, what was met on the way, what it cost."""
    lines: list[RenderableType] = [_headline(found)]
    old, new = ("last good", "first bad") if found.kind is BisectKind.REGRESSION else ("last bad", "first good")
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    if found.reason:
        table.add_row("why", Text(found.reason))
    if found.before and found.after:
        table.add_row(old, revision_text(found.before))
        table.add_row(new, revision_text(found.after))
    if found.failure:
        numbers = numbers_text(found.failure)
        table.add_row("failure", Text(f"{found.failure.failure_class}: {headline_text(found.failure, 400)}"))
        if numbers:
            table.add_row("numbers", Text(numbers))
        table.add_row("signature", Text(found.failure.signature))
    for revision, chance in found.suspects[:10]:
        if note := found.notes.get(revision.commit or ""):
            table.add_row("commit", _commit_text(note, chance))
    if found.evidence:
        table.add_row("evidence", Text(found.evidence))
    for revision, failure in found.other_failures:
        table.add_row("another", Text(f"{revision.name} fails otherwise: {failure.failure_class}: {headline_text(failure)}"))
    for revision, reason in found.untestable[:8]:
        table.add_row("untestable", Text(f"{revision.name}: {reason}"))
    if len(found.untestable) > 8:
        table.add_row("", Text(f"and {len(found.untestable) - 8} more"))
    checked = "both probed again, and agreed" if found.confirmed else "not confirmed"
    known = f", {found.cached} of them known before" if found.cached else ""
    table.add_row("certainty", f"{checked}; {found.probes} probes in {found.rounds} rounds{known}")
    lines.append(Padding(table, (0, 0, 0, 2)))
    lines.extend(Text(f"  {hint}", style="dim") for hint in hints(found))
    return Group(*lines)


def progress_bar(share: float, width: int = 16) -> Text:
    """A bar that is filled by `share`, 0 to 1."""
    full = round(share * width)
    return Text("█" * full, style="cyan").append("░" * (width - full), style="dim")


def _headline(found: Bisection) -> Text:
    name = f"[bold]{escape(found.case.name)}[/]"
    match found.answer:
        case Answer.CULPRIT:
            verb = "came with" if found.kind is BisectKind.REGRESSION else "was fixed in"
            return Text.from_markup(f"{name} {verb} [bold]{revision_text(found.after)}[/]")
        case Answer.SUSPECTS:
            names = [revision.name for revision, _ in found.suspects]
            more = f" and {len(names) - 12} more" if len(names) > 12 else ""
            return Text.from_markup(f"{name}: one of [bold]{', '.join(names[:12])}{more}[/]")
        case Answer.INCONCLUSIVE:
            return Text.from_markup(f"{name}: [yellow]inconclusive[/]")


def _commit_text(note: CommitNote, chance: float) -> Text:
    text = Text(f"{chance:.0%} " if chance < 1 else "").append(note.sha[:10], style="bold").append(f" {note.subject}")
    if note.url:
        text.append(f"\n{note.url}", style="dim")
    if note.pinned:
        path, before, after = note.pinned
        text.append(f"\nmoves {path} from {before} to {after}")
    if note.reasons:
        text.append(f"\nsuspicious: {'; '.join(note.reasons)}", style="dim")
    return text


def suspects_blocks(
    suspects: Sequence[Suspect], failure: Failure | None, total: int, evidence: str | None = None
) -> Iterable[RenderableType]:
    """Ranked commits, a line and the reasons of each. `evidence`: what they were ranked by beside the failure."""
    if failure:
        yield Text(f"{failure.failure_class}: {failure.headline}", style="bold")
    if evidence:
        yield Text(evidence)
    table = Table.grid(padding=(0, 2))
    for one in suspects:
        words = Text(one.commit.subject)
        if one.reasons:
            words.append(f"\n{'; '.join(reason.text for reason in one.reasons)}", style="dim")
        table.add_row(f"{one.probability:.1%}", Text(one.commit.sha[:10], style="bold"), one.commit.date[:10], words)
    yield table
    yield Text(f"\n{len(suspects)} of {total} commits; nothing was built. They are ranked by what they changed, not judged.")


def hints(found: Bisection) -> Iterable[str]:
    """What to do next where the answer is not one revision, or is about another failure than the recipe's."""
    if found.failure and (hint := unexpected(found.case, found.failure)):
        yield hint
    if found.answer is Answer.SUSPECTS and found.failure and found.other_failures:
        kin = {failure.family for _, failure in found.other_failures}
        if found.failure.family in kin:
            yield "The failure between has the same family: `--match family` follows it through its change of class."
        else:
            first = found.other_failures[0][0].name
            yield f"An older failure hides the change: `--bad {first}` bisects that one; `--match any` takes any for bad."
