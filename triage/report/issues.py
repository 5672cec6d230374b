"""The report of `triage issues sync`, and what it writes into issues and comments."""

from __future__ import annotations

from triage.nightly.issues import ActionCause, IssueChange, IssueChanges
from triage.nightly.result import Night
from triage.report.document import Block, Bullets, Document, Inline, Paragraph, Span, Table
from triage.report.elements import plural, revision_text

_CASES = 20  # that a comment names


def issues_document(result: IssueChanges) -> Document:
    """Show the changes of a repository's issues."""
    rows: list[list[Inline]] = [
        [one.action, f"#{one.issue}" if one.issue else "new", one.title, Span(one.reason, "dim")] for one in result.changes
    ]
    left = f", {len(result.left)} left for the next run" if result.left else ""
    hint = "" if result.applied or not result.changes else "; nothing was changed, pass --apply"
    total = Paragraph(f"{result.repository}: {plural(len(result.changes), 'change')}{left}{hint}")
    tables: list[Block] = [Table(("change", "issue", "title", "why"), rows)] if rows else []
    return Document("Issues", [*tables, *(Paragraph(Span(note, "warning")) for note in result.notes), total])


def issue_body(change: IssueChange, night: Night) -> str | None:
    """Return the Markdown of a new issue or of a comment; None where a change needs none."""
    from triage.report.markdown import document_markdown
    from triage.report.night_issue import issue_markdown

    toolchain = revision_text(night.toolchain)
    match change.cause:
        case ActionCause.NEW:
            draft = issue_markdown(next(each for each in night.clusters if each.signature == change.signature), night)
            return (
                f"{draft}\n<sub>triage updates this issue after each nightly run. Closed as not planned, it stays closed.</sub>"
            )
        case ActionCause.DUPLICATE:
            return f"Duplicate of #{change.original}, which has the same signature."
        case ActionCause.FIXED:
            return document_markdown([Paragraph(f"Fixed: {change.reason} with {toolchain}.")])
    again = change.cause is ActionCause.AGAIN
    names: list[Inline] = [Span(case, "code") for case in change.cases[:_CASES]]
    if len(change.cases) > _CASES:
        names.append(f"and {len(change.cases) - _CASES} more")
    text = f"It fails again with {toolchain}:" if again else f"More cases fail in the same way with {toolchain}:"
    return document_markdown([Paragraph(text), Bullets(names)]) if change.event else None
