"""The draft of an issue about a failure of a night, on one screen, as a maintainer would write it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from triage.bisect.result import Answer
from triage.nightly.issues import ActionCause, IssueChange
from triage.nightly.result import CaseChangeKind, FailureCluster, Night
from triage.reduce.result import IssueDraft
from triage.report.document import Block, Bullets, Code, Details, Document, Facts, Heading, Inline, Paragraph, Span, Table
from triage.report.elements import LANGUAGES, compare_spans, compiler_title, failure_text, headline_text, revision_text
from triage.report.markdown import document_markdown
from triage.report.night_phrases import found_facts, origin_facts

LONGEST = 64_000  # bytes; GitHub accepts texts of 65536 characters
TITLE = 200  # characters; GitHub takes 256
_CASES = 100  # that a draft names
_NAMES = 20  # that a comment names
_REPLAYS = {"reproduces": "fails", "fixed": "passes", "changed": "fails in another way"}


def draft_path(cluster: FailureCluster) -> str:
    """Return the path of a draft, relative to the reports."""
    return f"issues/{cluster.id}.md"


def issue_markdown(cluster: FailureCluster, night: Night, *, with_title: bool = False) -> str:
    """Return the draft, within the size that GitHub accepts. It follows no path of the night."""
    document = issue_draft(cluster, night)
    title = [Heading(document.title, 1)] if with_title else []
    return document_markdown([*title, *document.blocks], LONGEST)


def issue_body(change: IssueChange, night: Night) -> str | None:
    """Return the Markdown of a new issue or of a comment, if the change needs one."""
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
    if not change.event:
        return None
    again = change.cause is ActionCause.AGAIN
    text = f"It fails again with {toolchain}:" if again else f"More cases fail in the same way with {toolchain}:"
    names: list[Inline] = [Span(case, "code") for case in change.cases[:_NAMES]]
    more = len(change.cases) - _NAMES
    return document_markdown([Paragraph(text), Bullets([*names, *([f"and {more} more"] if more > 0 else [])])])


def issue_draft(cluster: FailureCluster, night: Night) -> Document:
    """Return the draft as a document."""
    failure = cluster.failure
    blocks: list[Block] = [Paragraph(_since(cluster, night)), *cluster_blocks(cluster, list(found_facts(cluster)))]
    if len(cluster.cases) > 1:
        rows: list[list[Inline]] = [[Span(name, "code"), _state(name, cluster)] for name in cluster.cases[:_CASES]]
        table: list[Block] = [Table(("case", ""), rows)]
        if len(cluster.cases) > _CASES:
            table.append(Paragraph(f"{len(cluster.cases) - _CASES} more, which are left out here"))
        blocks.append(Details(f"{len(cluster.cases)} cases fail in this way", table))
    return Document(failure_text(failure, TITLE) if failure else cluster.signature, blocks)


def cluster_blocks(cluster: FailureCluster, facts: Sequence[tuple[str, Inline]]) -> list[Block]:
    """Return facts, the error, the reduced program, its command, the whole output and the results of other versions."""
    size = [Heading(f"Smallest input{f', {cluster.size}' if cluster.size else ''}")]
    headline = headline_text(cluster.failure, 400) if cluster.failure else cluster.signature
    draft = cluster.draft
    blocks: list[Block] = [Facts(facts)] if facts else []
    blocks += draft_blocks(replace(draft, error=draft.error or headline), size) if draft else [Code(headline)]
    if cluster.replays:
        blocks.append(Details("The program on other versions", [Table(("versions", "result"), _versions(cluster))]))
    return blocks


def draft_blocks(draft: IssueDraft, title: Sequence[Heading]) -> list[Block]:
    """Return the error; below a title the reduced program and the command that shows the failure; folded the whole output."""
    blocks: list[Block] = [Code(draft.error), *title]
    for name, text in draft.files.items():
        blocks.append(Paragraph([Span(name, "code"), "" if text is not None else " is too long to paste here."]))
        blocks += [Code(text, LANGUAGES.get(Path(name).suffix, ""))] if text is not None else []
    blocks.append(Code(draft.command, "sh"))
    if draft.output.strip() not in ("", draft.error.strip()):
        blocks.append(Details("Full output", [Code(draft.output)]))
    return blocks


def _since(cluster: FailureCluster, night: Night) -> list[str | Span]:
    members = [case for case in night.cases if case.case in cluster.cases]
    verb = "Compiles"
    if members and all(case.change is CaseChangeKind.CHANGED for case in members):
        verb = "Fails in another way"
    elif cluster.failure and members and members[0].stages and members[0].stages[-1] != "compile":
        verb = "Works"
    title = compiler_title(night.compiler)
    before, after = night.baseline, night.toolchain
    culprit = cluster.culprit
    if culprit and culprit.before and culprit.after:
        before, after = (culprit.after, culprit.before) if culprit.undone else (culprit.before, culprit.after)
    sentence: list[str | Span] = [f"{verb} up to {title} {revision_text(before)}, fails with {revision_text(after)}"]
    if culprit and culprit.undone:
        sentence = [f"Fixed in {title} {revision_text(before)}, and {revision_text(after)} lacks the fix"]
    elif culprit and not culprit.confirmed:
        sentence.append(f" (one of {', '.join(suspect.name for suspect in culprit.suspects) or 'several'}, not confirmed)")
    sentence += compare_spans(night.compiler, before, after)
    if cluster.release_culprit and cluster.release_culprit.before and cluster.release_culprit.after:
        sentence.append(f", between {cluster.release_culprit.before.name} and {cluster.release_culprit.after.name}")
    fix = cluster.fix
    if fix and fix.before and fix.after:
        verb = "fixed in" if fix.status is Answer.CULPRIT else "passes again with"
        sentence += [f"; {verb} {revision_text(fix.after)}", *compare_spans(night.compiler, fix.before, fix.after)]
    return [*sentence, "."]


def known_facts(cluster: FailureCluster, compiler: str | None) -> Iterator[tuple[str, Inline]]:
    """Yield what brought and what fixed a failure, then what else was found out."""
    yield from origin_facts((cluster.culprit, cluster.release_culprit, cluster.fix), compiler)
    yield from found_facts(cluster)


def _versions(cluster: FailureCluster) -> list[list[Inline]]:
    """Return a row for neighbouring versions with the same result."""
    rows: list[list[Inline]] = []
    for state, group in groupby(cluster.replays.items(), key=lambda item: item[1]):
        names = [name for name, _ in group]
        rows.append([names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", _REPLAYS.get(state, state)])
    return rows


def _state(name: str, cluster: FailureCluster) -> str:
    if name in cluster.confirmed:
        return "fails since the same change"
    return "fails since another change" if name in cluster.different else ""
