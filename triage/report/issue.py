"""The text of an issue about one failure: the draft of a night's new failure, the
failure's page, and the README of a reproducer's folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from triage.investigate.result import CaseResult, FailureCluster
from triage.model.fields import as_json
from triage.model.revision import Revision
from triage.nightly.result import Night
from triage.reduce.result import IssueDraft
from triage.report.document import (
    Block,
    Bullets,
    Code,
    Details,
    Document,
    Fact,
    Heading,
    Inline,
    Phrase,
    Span,
    facts,
)
from triage.report.elements import (
    compiler_title,
    failure_text,
    headline_text,
    issue_form,
    plural,
    revision_text,
)
from triage.report.facts import baseline_text, command_to_run, known_facts
from triage.report.markup import document_markdown

if TYPE_CHECKING:  # a night needs none of it
    from triage.nightly.issues import IssueChange
    from triage.reduce.reproducer import Reproducer

LONGEST = 64_000  # bytes; GitHub accepts texts of 65536 characters
TITLE = 200  # characters; GitHub takes 256
_CASES = 100  # that an issue names
_REPLAYS = {"reproduces": "fails", "fixed": "passes", "changed": "fails otherwise"}
_UNFOLDED = 100  # lines of a program


def issue_markdown(
    cluster: FailureCluster, night: Night, *, with_title: bool = False
) -> str:
    """Return the draft, within the size that GitHub accepts. It follows no path of the
    night.
    """
    document = night_issue(cluster, night)
    title = [Heading(document.title, 1)] if with_title else []
    return document_markdown([*title, *document.blocks], LONGEST)


def night_issue(cluster: FailureCluster, night: Night) -> Document:
    """Return the text of an issue about a failure of a night."""
    case = night.case_of(cluster)
    old = night.baseline if case and case.baseline.passed else None
    return issue_document(cluster, night.toolchain, old, case)


def reproducer_issue(reproducer: Reproducer) -> Document:
    """Return the text of a reproducer's folder."""
    from triage.reduce.reproducer import draft_of

    reduction = reproducer.reduction
    failure = reproducer.failure
    case = reproducer.case
    cluster = FailureCluster(
        signature=failure.signature,
        cases=[case.name],
        compiler=case.compiler,
        backend=case.target.backend,
        failure=failure,
        representative=case.name,
        replays=reduction.replays,
        draft=draft_of(reproducer),
    )
    return issue_document(cluster, reproducer.bad, reduction.good)


def issue_body(change: IssueChange, night: Night) -> str:
    """Return the Markdown of a new issue or of a comment."""
    from triage.nightly.issues import ActionKind

    toolchain = revision_text(night.toolchain)
    cluster = change.cluster
    if change.action is ActionKind.OPEN:
        assert cluster
        return (
            f"{issue_markdown(cluster, night)}\n<sub>triage updates this issue after "
            "each nightly run. Closed as not planned, it stays closed.</sub>"
        )
    if change.action is ActionKind.CLOSE:
        cases = plural(len(change.cases), "case passes", "cases pass")
        return document_markdown([f"Fixed: {cases} with {toolchain}."])
    again = ""
    if change.action is ActionKind.REOPEN:
        again = " again"
    blocks: list[Block] = [f"Fails{again} with {toolchain}:", _names(change.cases)]
    if cluster and cluster.steps:
        blocks += night_issue(cluster, night).blocks
    return document_markdown(blocks, LONGEST)


def _names(cases: Sequence[str]) -> Bullets:
    """Return the first names of cases."""
    names: list[Inline] = [Span(name, "code") for name in cases[:_CASES]]
    more = len(cases) - _CASES
    if more > 0:
        names.append(f"{more} more, which are left out here")
    return Bullets(names)


def issue_document(
    cluster: FailureCluster,
    new: Revision,
    old: Revision | None,
    case: CaseResult | None = None,
) -> Document:
    """Return the text by the headings of the project's form.

    new: the toolchain that fails; old: the one that does not, where one was named;
    case: the one of a night that stands for the failure.

    The error above is the original's. Where a reduced program fails with other numbers,
    its own error stands below it.
    """
    failure = cluster.failure
    draft = cluster.draft
    form = issue_form(cluster.compiler)
    title = headline = cluster.signature
    if failure:
        title = failure_text(failure, TITLE)
        headline = headline_text(failure)
    happened = _what_happened(cluster, revision_text(new))
    if old:
        happened.append(f" It passes with {revision_text(old)}.")
    elif case:
        happened.append(f" {baseline_text(case)}.")
    blocks: list[Block] = [Heading(form.happened, 3), happened]
    if draft and draft.explanation:
        blocks.append(draft.explanation)
    # how the search went is not news to the project
    history = facts(known_facts(replace(cluster, steps=[])))
    if history.rows:
        blocks.append(history)
    blocks.append(Code(headline))
    steps: list[Block] = []
    if draft:
        steps = _program(draft, headline)
    elif case:
        line = command_to_run(case.source or case.recipe, case.case, new.name)
        steps = [Code(line, "sh")] if line else []
    if steps and form.steps:
        steps.insert(0, Heading(form.steps, 3))
    version = facts(_version_facts(cluster, new))
    blocks += [*steps, Heading(form.version, 3), version, *_origin(cluster)]
    return Document(title, blocks)


def _origin(cluster: FailureCluster) -> Iterator[Block]:
    """Yield what was reduced, and the cases that fail alike."""
    draft = cluster.draft
    if draft and draft.sizes.after:
        original = Span(cluster.representative or "", "code")
        before = plural(draft.sizes.before or 0, draft.unit)
        sizes = f": {before} before, {draft.sizes.after} after."
        yield ["Reduced from ", original, sizes]
    if len(cluster.cases) > 1:
        summary = f"{len(cluster.cases)} cases fail in this way"
        yield Details(summary, [_names(cluster.cases)])


def _what_happened(cluster: FailureCluster, name: str) -> Phrase:
    """Return what fails. name: of the toolchain."""
    draft = cluster.draft
    if not (draft and draft.compiler_command):
        return [f"Fails with {compiler_title(cluster.compiler)} {name}."]
    verdict = f" {name} fails with the {draft.input_noun} below ({draft.ending})."
    if cluster.failure and cluster.failure.is_of_metric:
        verdict = f" {name} compiles the {draft.input_noun} below to a worse number."
    return [Span(draft.compiler_command, "code"), verdict]


def _program(draft: IssueDraft, headline: str) -> list[Block]:
    """Return the program, folded if it is long, the command that shows the failure, and
    the error if it has other numbers than the original's; folded the whole output.
    """
    blocks: list[Block] = []
    if draft.headline not in ("", headline):
        blocks += ["This smaller program fails with:", Code(draft.error)]
    for name, text in draft.files.items():
        title = Span(name, "code")
        if text is None:
            note = " is not pasted here: it is too long, or binary."
            blocks.append([title, note])
            continue
        lines = text.count("\n")
        code = Code(text, Path(name).suffix[1:])
        if lines > _UNFOLDED:
            blocks.append(Details(f"{name}, {lines} lines", [code]))
        else:
            blocks += [title, code]
    blocks.append(Code(draft.command, "sh"))
    if draft.output.strip() not in ("", draft.error.strip()):
        blocks.append(Details("Full output", [Code(draft.output)]))
    return blocks


def replays_text(replays: Mapping[str, str]) -> str:
    """Return what the program does on each version."""
    states = replays.items()
    return ", ".join(f"{name} {_REPLAYS.get(state, state)}" for name, state in states)


def _version_facts(cluster: FailureCluster, new: Revision) -> Iterator[Fact]:
    draft = cluster.draft
    version = f"{compiler_title(cluster.compiler)} {new.name}".strip()
    target = f"backend: {cluster.backend}" if cluster.backend else ""
    if draft and draft.how_to_install:
        version = draft.how_to_install
    if draft and draft.target:
        parts = as_json(draft.target).items()
        target = ", ".join(f"{name}: {value}" for name, value in parts if value)
    commit = f"commit {new.commit}" if new.commit else None
    yield "version", ", ".join(filter(None, (version, commit, new.date)))
    yield "target", target
    yield "other versions", replays_text(cluster.replays)
    yield "signature", Span(cluster.signature, "code")
