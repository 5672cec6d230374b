"""The answer of a bisect as Markdown, ready to paste into an issue."""

from __future__ import annotations

from triage.bisect.ends import unexpected
from triage.bisect.result import Answer, Bisection, BisectKind, CommitNote
from triage.model.revision import Revision
from triage.report.words import numbers_text, revision_text


def certificate(found: Bisection) -> str:
    """What was found, how sure it is, and what was met on the way."""
    old, new = ("last good", "first bad") if found.kind is BisectKind.REGRESSION else ("last bad", "first good")
    lines = [f"### `{found.case.name}`: {_verdict(found)}", ""]
    if found.failure:
        lines += ["```", found.failure.headline.replace("```", "'''"), "```", ""]
    if found.before and found.after:
        lines += ["| | revision | subject |", "|---|---|---|"]
        lines += [
            f"| {name} | {revision_text(at)} | {_cell(at.subject or '')} |"
            for name, at in ((old, found.before), (new, found.after))
        ]
        lines.append("")
    if found.notes:
        lines += _suspects(found)
    sure = "Both were probed again, with nothing recalled, and agreed." if found.confirmed else "Not confirmed."
    lines.append(f"{sure} {found.probes} probes in {found.rounds} rounds, {found.cached} of them known before.")
    if found.failure:
        lines.append(f"Signature: `{found.failure.signature.replace('`', chr(39))}`.")
        if found.failure.details:
            lines.append(f"Numbers: {numbers_text(found.failure)}.")
        if hint := unexpected(found.case, found.failure):
            lines.append(hint)
    if found.evidence:
        lines.append(f"Before anything between them was probed, {found.evidence}.")
    if found.reason:
        lines.append(f"Why it is inconclusive: {found.reason}.")
    lines += [
        f"- {at.name} fails otherwise: {failure.failure_class}: {failure.headline}" for at, failure in found.other_failures
    ]
    lines += [f"- {at.name} could not be tested: {reason}" for at, reason in found.untestable[:10]]
    if len(found.untestable) > 10:
        lines.append(f"- and {len(found.untestable) - 10} more could not be tested")
    return "\n".join(lines) + "\n"


def _verdict(found: Bisection) -> str:
    verb = "came with" if found.kind is BisectKind.REGRESSION else "was fixed by"
    match found.answer:
        case Answer.CULPRIT:
            return f"{verb} {found.after.name if found.after else '?'}"
        case Answer.SUSPECTS:
            return f"{verb} one of {len(found.suspects)}"
        case Answer.INCONCLUSIVE:
            return "inconclusive"


def _suspects(found: Bisection) -> list[str]:
    lines = ["| probability | commit | why |", "|---|---|---|"]
    for revision, chance in found.suspects:
        note = found.notes.get(revision.commit or "")
        if note:
            lines.append(f"| {chance:.0%} | {_link(revision, note)} {_cell(note.subject)} | {_cell('; '.join(note.reasons))} |")
    told = next((note for note in found.notes.values() if note.pinned), None)
    if told and told.pinned:
        path, before, after = told.pinned
        lines += ["", f"It moves `{path}` from {before} to {after}: the next bisect goes between these two."]
    if len(found.suspects) == 1 and (note := next(iter(found.notes.values()), None)):
        lines += ["", *(f"- `{path}`" for path in note.files[:20])]
    return [*lines, ""]


def _link(revision: Revision, note: CommitNote) -> str:
    words = f"#{note.pull_request}" if note.pull_request else revision.name
    return f"[{words}]({note.url})" if note.url else words


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
