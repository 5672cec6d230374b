"""The text of an issue about one failure: the draft of a night's new failure, and the
README of a reproducer's folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from triage.bisect.result import Answer
from triage.compilers.parts import IssueForm
from triage.investigate.result import CaseChangeKind, CaseResult, FailureCluster
from triage.model.execution import Stage
from triage.model.json_form import as_json
from triage.model.revision import Revision
from triage.nightly.history import is_older
from triage.nightly.issues import ActionKind, IssueChange
from triage.nightly.result import Night
from triage.nightly.verdict import command_line
from triage.reduce.replay import ReplayState, replay_states
from triage.reduce.reproducer import Reproducer, draft_of
from triage.reduce.result import IssueDraft
from triage.report.document import (
    Block,
    Bullets,
    Code,
    Details,
    Document,
    Fact,
    Facts,
    Heading,
    Inline,
    Paragraph,
    Phrase,
    Span,
    Table,
    TableRows,
    with_code,
)
from triage.report.elements import (
    LANGUAGES,
    compare_spans,
    compiler_title,
    failure_text,
    headline_text,
    issue_form,
    plural,
    revision_text,
)
from triage.report.markdown import document_markdown
from triage.report.night_text import found_facts, untested_text

LONGEST = 64_000  # bytes; GitHub accepts texts of 65536 characters
TITLE = 200  # characters; GitHub takes 256
_CASES = 100  # that a draft names
_NAMES = 20  # that a comment names
_UNFOLDED = 100  # lines of a program
_REPLAYS = {"reproduces": "fails", "fixed": "passes", "changed": "fails in another way"}


@dataclass(frozen=True)
class ComparedPair:
    """The toolchains and cases in which a failure was seen."""

    new: Revision
    """The toolchain that fails."""
    old: Revision | None = None
    """The one that does not, where one was named."""
    cases: Sequence[CaseResult] = ()
    """The cases of a night that have the failure."""


def issue_markdown(
    cluster: FailureCluster, night: Night, *, with_title: bool = False
) -> str:
    """Return the draft, within the size that GitHub accepts. It follows no path of the
    night.
    """
    members = [case for case in night.cases if case.case in cluster.cases]
    pair = ComparedPair(night.toolchain, night.baseline, members)
    document = issue_document(cluster, pair)
    title = [Heading(document.title, 1)] if with_title else []
    return document_markdown([*title, *document.blocks], LONGEST)


def reproducer_issue(reproducer: Reproducer) -> Document:
    """Return the text of a reproducer's folder."""
    reduction, failure = reproducer.reduction, reproducer.failure
    case = reproducer.case
    cluster = FailureCluster(
        signature=failure.signature,
        cases=[case.name],
        compiler=case.compiler,
        backend=case.target.backend,
        failure=failure,
        representative=case.name,
        size=reduction.size,
        replays=replay_states(reduction.versions, failure.signature),
        draft=draft_of(reproducer),
    )
    return issue_document(
        cluster, ComparedPair(reproducer.bad.revision, reduction.good)
    )


def issue_body(change: IssueChange, night: Night) -> str:
    """Return the Markdown of a new issue or of a comment."""
    toolchain = revision_text(night.toolchain)
    match change.action:
        case ActionKind.OPEN:
            assert change.cluster
            draft = issue_markdown(change.cluster, night)
            return (
                f"{draft}\n<sub>triage updates this issue after each nightly run. "
                "Closed as not planned, it stays closed.</sub>"
            )
        case ActionKind.CLOSE:
            fixed = Paragraph(f"Fixed: {change.reason} with {toolchain}.")
            return document_markdown([fixed])
        case ActionKind.REOPEN:
            text = f"It fails again with {toolchain}:"
        case ActionKind.COMMENT:
            text = f"More cases fail in the same way with {toolchain}:"
    names: list[Inline] = [Span(case, "code") for case in change.cases[:_NAMES]]
    more = len(change.cases) - _NAMES
    if more > 0:
        names.append(f"and {more} more")
    return document_markdown([Paragraph(text), Bullets(names)])


def issue_document(cluster: FailureCluster, pair: ComparedPair) -> Document:
    """Return the text by the headings of the project's form.

    The error above is the original's. Where a reduced program fails with other numbers,
    its own error stands above it.
    """
    failure, draft = cluster.failure, cluster.draft
    form = issue_form(cluster.compiler)
    title = headline = cluster.signature
    if failure:
        title, headline = failure_text(failure, TITLE), headline_text(failure, 400)
    if draft and draft.error and draft_has_same_headline(cluster):
        headline = draft.error
    blocks: list[Block] = [Heading(form.happened, 3), *_happened(cluster, pair)]
    facts = list(found_facts(cluster))
    if facts:
        blocks.append(Facts(facts))
    blocks.append(Code(headline))
    if form.steps:
        blocks.append(Heading(form.steps, 3))
    if draft:
        blocks += draft_blocks(cluster, draft)
    else:
        blocks += [Code(line, "sh") for line in _commands(pair)]
    if form.component:
        title_of_component, component = form.component
        blocks += [Heading(title_of_component, 3), Paragraph(component)]
    blocks += [Heading(form.version, 3), Facts(_version_facts(cluster, pair))]
    return Document(title, [*blocks, *_context(cluster, form)])


def _happened(cluster: FailureCluster, pair: ComparedPair) -> list[Block]:
    """Return what fails and since when, and the draft's explanation."""
    draft, sentence = cluster.draft, Phrase()
    if draft and draft.compiler_command:
        verdict = f" {revision_text(pair.new)} {_verdict(cluster, draft)}. "
        sentence += [Span(draft.compiler_command, "code"), verdict]
    sentence += _since(cluster, pair)
    blocks: list[Block] = [Paragraph(sentence)] if sentence else []
    if draft and draft.explanation:
        blocks.append(Paragraph(with_code(draft.explanation)))
    return blocks


def _verdict(cluster: FailureCluster, draft: IssueDraft) -> str:
    if _is_number(cluster):
        return f"compiles the {draft.input_noun} below, with a number that is worse"
    stage = cluster.failure.stage if cluster.failure else Stage.COMPILE
    compiles = f"compiles the {draft.input_noun} below"
    if stage is Stage.RUN:
        what = f"{compiles}, which then fails when it runs"
    elif stage is Stage.COMPARE:
        what = f"{compiles}, which then computes a wrong result"
    else:
        what = f"fails to compile the {draft.input_noun} below"
    return f"{what} ({draft.ending})"


def _is_number(cluster: FailureCluster) -> bool:
    return cluster.failure is not None and cluster.failure.is_number


def _since(cluster: FailureCluster, pair: ComparedPair) -> Phrase:
    """Return the sentence on the revisions that brought and fixed the failure; nothing
    if they are not known.
    """
    title, culprit = compiler_title(cluster.compiler), cluster.culprit
    before, after = pair.old, pair.new
    old_is_newer = before is not None and is_older(after, before)
    untested = "".join(map(untested_text, pair.cases[:1]))
    if culprit and culprit.before and culprit.after:
        before, after, old_is_newer = culprit.before, culprit.after, False
    elif untested:
        return [f"Fails with {title} {revision_text(after)}; {untested}."]
    if before is None:
        return []
    old, new = revision_text(before), revision_text(after)
    fails = "worse" if _is_number(cluster) else "fails"
    verb = _verb(cluster, before, pair.cases)
    if old_is_newer:
        text = f"{fails.title()} with {title} {new}, {verb.lower()} with {old}"
        before, after = after, before
    else:
        text = f"{verb} up to {title} {old}, {fails} with {new}"
        if culprit and not culprit.confirmed:
            names = ", ".join(suspect.name for suspect in culprit.suspects)
            text += f" (one of {names or 'several'}, not confirmed)"
    sentence = [text, *compare_spans(cluster.compiler, before, after)]
    releases = cluster.release_culprit
    if releases and releases.before and releases.after:
        between = f"{releases.before.name} and {releases.after.name}"
        sentence.append(f", between {between}")
    fix = cluster.fix
    if fix and fix.before and fix.after:
        is_found = fix.status is Answer.CULPRIT
        verb = "fixed in" if is_found else "passes again with"
        sentence.append(f"; {verb} {revision_text(fix.after)}")
        sentence += compare_spans(cluster.compiler, fix.before, fix.after)
    return [*sentence, "."]


def _verb(
    cluster: FailureCluster, before: Revision, cases: Sequence[CaseResult]
) -> str:
    """Return what the cases do with the older toolchain."""
    if _is_number(cluster):
        return "Better"
    changed = cluster.replays.get(before.name) == ReplayState.CHANGED
    if cases:
        changed = all(case.change is CaseChangeKind.CHANGED for case in cases)
    if changed:
        return "Fails in another way"
    runs = any(case.stages and case.stages[-1] != "compile" for case in cases)
    fails_later = cluster.failure and cluster.failure.stage is not Stage.COMPILE
    return "Works" if runs or fails_later else "Compiles"


def input_blocks(cluster: FailureCluster, draft: IssueDraft) -> list[Block]:
    """Return the smallest program, its own error if that differs, its command, the
    whole output and the results of other versions.
    """
    title = f"Smallest input, {cluster.size}" if cluster.size else "Input"
    blocks: list[Block] = [Heading(title), *draft_blocks(cluster, draft)]
    if cluster.replays:
        versions = Table(("versions", "result"), _version_rows(cluster))
        blocks.append(Details("The program on other versions", [versions]))
    return blocks


def draft_has_same_headline(cluster: FailureCluster) -> bool:
    """Return whether the program of the draft fails with the headline of the original.
    That of a reduced program may have other numbers.
    """
    if cluster.failure is None or cluster.draft is None:
        return True
    return cluster.draft.headline in ("", cluster.failure.headline)


def draft_blocks(cluster: FailureCluster, draft: IssueDraft) -> list[Block]:
    """Return the program with its own error if that differs, folded if it is long, and
    the command that shows the failure; folded the whole output.
    """
    blocks: list[Block] = []
    if not draft_has_same_headline(cluster):
        blocks += [Paragraph("This smaller program fails with:"), Code(draft.error)]
    for name, text in draft.files.items():
        title = Span(name, "code")
        if text is None:
            note = " is not pasted here: it is too long, or binary."
            blocks.append(Paragraph([title, note]))
            continue
        code, lines = Code(text, LANGUAGES.get(Path(name).suffix, "")), text.count("\n")
        if lines > _UNFOLDED:
            blocks.append(Details(f"{name}, {lines} lines", [code]))
        else:
            blocks += [Paragraph(title), code]
    blocks.append(Code(draft.command, "sh"))
    if draft.output.strip() not in ("", draft.error.strip()):
        blocks.append(Details("Full output", [Code(draft.output)]))
    return blocks


def _version_rows(cluster: FailureCluster) -> TableRows:
    """Return what versions do with the program, neighbours of one result together."""
    rows: TableRows = []
    for state, group in groupby(cluster.replays, key=cluster.replays.__getitem__):
        names = list(group)
        versions = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        rows.append([versions, _REPLAYS.get(state, state)])
    return rows


def _commands(pair: ComparedPair) -> Iterator[str]:
    """Yield the command that runs the first case, if there is one."""
    for case in pair.cases[:1]:
        source, new = case.source or case.recipe, pair.new.name
        words = ["triage", "run", source, "--case", case.case, "-t", new]
        line = command_line(words, source, case.case, new)
        if line:
            yield line


def _version_facts(cluster: FailureCluster, pair: ComparedPair) -> list[Fact]:
    draft, failure, new = cluster.draft, cluster.failure, pair.new
    version = f"{compiler_title(cluster.compiler)} {new.name}".strip()
    if draft and draft.how_to_install:
        version = draft.how_to_install
    commit = f"commit {new.commit}" if new.commit else None
    facts: list[Fact] = [
        ("version", ", ".join(filter(None, (version, commit, new.date))))
    ]
    if draft and draft.target:
        target = as_json(draft.target).items()
        parts = [f"{name}: {value}" for name, value in target if value is not None]
        facts.append(("target", ", ".join(parts)))
    elif cluster.backend:
        facts.append(("target", f"backend: {cluster.backend}"))
    if failure:
        names = (("phase", failure.phase), ("pass", failure.failing_pass))
        facts += [(name, text) for name, text in names if text]
    return [*facts, ("signature", Span(cluster.signature, "code"))]


def _context(cluster: FailureCluster, form: IssueForm) -> list[Block]:
    """Return the results of other versions, what was reduced, and the cases."""
    draft, blocks = cluster.draft, list[Block]()
    if cluster.replays:
        blocks.append(Table(("versions", "result"), _version_rows(cluster)))
    if draft and draft.sizes:
        size = draft.sizes
        summary = f" ({draft.summary})" if draft.summary else ""
        before = plural(size.before or 0, draft.unit)
        name = Span(cluster.representative or "", "code")
        sizes = f"{summary}: {before} before, {size.after} after."
        blocks.append(Paragraph(["Reduced from ", name, sizes]))
    if len(cluster.cases) > 1:
        title = f"{len(cluster.cases)} cases fail in this way"
        blocks.append(Details(title, _cases(cluster)))
    if blocks and form.context:
        blocks.insert(0, Heading(form.context, 3))
    return blocks


def _cases(cluster: FailureCluster) -> list[Block]:
    rows: TableRows = [
        [Span(name, "code"), _state(name, cluster)] for name in cluster.cases[:_CASES]
    ]
    table: list[Block] = [Table(("case", ""), rows)]
    more = len(cluster.cases) - _CASES
    if more > 0:
        table.append(Paragraph(f"{more} more, which are left out here"))
    return table


def _state(name: str, cluster: FailureCluster) -> str:
    if name in cluster.confirmed:
        return "fails since the same change"
    if name in cluster.different:
        return "fails since another change"
    return ""
