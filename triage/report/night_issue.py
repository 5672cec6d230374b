"""The draft of an issue about a failure of a night, and the phrases that all reports of
a night use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.in_turn import Pace
from triage.investigate.result import CaseChangeKind, CaseResult, FailureCluster
from triage.model.outcome import Status
from triage.nightly.issues import ActionCause, IssueChange
from triage.nightly.result import Night, TimeChange
from triage.nightly.verdict import Action, BackendVerdict
from triage.reduce.result import IssueDraft
from triage.report.document import (
    Block,
    Bullets,
    Code,
    Details,
    Document,
    Facts,
    Heading,
    Inline,
    Paragraph,
    Span,
    Table,
)
from triage.report.elements import (
    LANGUAGES,
    compare_spans,
    compiler_title,
    duration_text,
    failure_text,
    headline_text,
    joined,
    plural,
    revision_text,
)
from triage.report.markdown import document_markdown
from triage.report.runs import time_text

LONGEST = 64_000  # bytes; GitHub accepts texts of 65536 characters
TITLE = 200  # characters; GitHub takes 256
_CASES = 100  # that a draft names
_NAMES = 20  # that a comment names
_UNFOLDED = 100  # lines of a program
_TO_DO = {
    Action.FILE: ("file", ("issue",)),
    Action.WAIT: ("wait for", ("known issue",)),
    Action.INVESTIGATE: (
        "investigate",
        ("failure with --investigate", "failures with --investigate"),
    ),
    Action.CLOSE: (
        "remove",
        ("expected failure that passes", "expected failures that pass"),
    ),
    Action.LOOK: ("look at", ("flaky case",)),
}
_REPLAYS = {"reproduces": "fails", "fixed": "passes", "changed": "fails in another way"}


def draft_path(cluster: FailureCluster) -> str:
    """Return the path of a draft, relative to the reports."""
    return f"issues/{cluster.id}.md"


def issue_markdown(
    cluster: FailureCluster, night: Night, *, with_title: bool = False
) -> str:
    """Return the draft, within the size that GitHub accepts. It follows no path of the
    night.
    """
    document = issue_draft(cluster, night)
    if with_title:
        title = [Heading(document.title, 1)]
    else:
        title = []
    return document_markdown([*title, *document.blocks], LONGEST)


def issue_body(change: IssueChange, night: Night) -> str | None:
    """Return the Markdown of a new issue or of a comment, if the change needs one."""
    toolchain = revision_text(night.toolchain)
    match change.cause:
        case ActionCause.NEW:
            clusters = [
                *(each for each in night.clusters if each.key == change.key),
                change.key.cluster([*change.cases]),
            ]
            draft = issue_markdown(clusters[0], night)
            return (
                f"{draft}\n<sub>triage updates this issue after each nightly run. "
                "Closed as not planned, it stays closed.</sub>"
            )
        case ActionCause.DUPLICATE:
            return f"Duplicate of #{change.original}, which has the same signature."
        case ActionCause.FIXED:
            return document_markdown(
                [Paragraph(f"Fixed: {change.reason} with {toolchain}.")]
            )
    if not change.event:
        return None
    again = change.cause is ActionCause.AGAIN
    if again:
        text = f"It fails again with {toolchain}:"
    else:
        text = f"More cases fail in the same way with {toolchain}:"
    names: list[Inline] = [Span(case, "code") for case in change.cases[:_NAMES]]
    more = len(change.cases) - _NAMES
    return document_markdown(
        [
            Paragraph(text),
            Bullets([*names, *([f"and {more} more"] if more > 0 else [])]),
        ]
    )


def issue_draft(cluster: FailureCluster, night: Night) -> Document:
    """Return the draft as a document."""
    failure = cluster.failure
    blocks: list[Block] = [
        Paragraph(_since(cluster, night)),
        *cluster_blocks(cluster, list(found_facts(cluster))),
    ]
    if len(cluster.cases) > 1:
        rows: list[list[Inline]] = [
            [Span(name, "code"), _state(name, cluster)]
            for name in cluster.cases[:_CASES]
        ]
        table: list[Block] = [Table(("case", ""), rows)]
        if len(cluster.cases) > _CASES:
            table.append(
                Paragraph(
                    f"{len(cluster.cases) - _CASES} more, which are left out here"
                )
            )
        blocks.append(Details(f"{len(cluster.cases)} cases fail in this way", table))
    return Document(
        failure_text(failure, TITLE) if failure else cluster.signature, blocks
    )


def cluster_blocks(
    cluster: FailureCluster, facts: Sequence[tuple[str, Inline]]
) -> list[Block]:
    """Return facts, the error, the program, its command, the whole output and the
    results of other versions.

    The error is the original's. Where the program is smaller and fails with other
    numbers, its own error stands above it.
    """
    if cluster.failure:
        headline = headline_text(cluster.failure, 400)
    else:
        headline = cluster.signature
    draft = cluster.draft
    blocks: list[Block]
    if facts:
        blocks = [Facts(facts)]
    else:
        blocks = []
    if draft is None:
        return [*blocks, Code(headline)]
    is_same = cluster.failure is None or draft.headline in (
        "",
        cluster.failure.headline,
    )
    blocks += [Code(draft.error if is_same and draft.error else headline)]
    if draft.first_wrong:
        blocks.append(Paragraph(f"{draft.first_wrong}."))
    blocks.append(
        Heading(f"Smallest input, {cluster.size}" if cluster.size else "Input")
    )
    if is_same:
        blocks += []
    else:
        blocks += [Paragraph("This smaller program fails with:"), Code(draft.error)]
    blocks += draft_blocks(draft)
    if cluster.replays:
        blocks.append(
            Details(
                "The program on other versions",
                [Table(("versions", "result"), _versions(cluster))],
            )
        )
    return blocks


def draft_blocks(draft: IssueDraft) -> list[Block]:
    """Return the program, folded if it is long, and the command that shows the failure;
    folded the whole output.
    """
    blocks: list[Block] = []
    for name, text in draft.files.items():
        if text is None:
            blocks.append(
                Paragraph(
                    [
                        Span(name, "code"),
                        " is not pasted here: it is too long, or binary.",
                    ]
                )
            )
            continue
        code, lines = Code(text, LANGUAGES.get(Path(name).suffix, "")), text.count("\n")
        is_long = lines > _UNFOLDED
        if is_long:
            blocks += [Details(f"{name}, {lines} lines", [code])]
        else:
            blocks += [Paragraph(Span(name, "code")), code]
    blocks.append(Code(draft.command, "sh"))
    if draft.output.strip() not in ("", draft.error.strip()):
        blocks.append(Details("Full output", [Code(draft.output)]))
    return blocks


def _since(cluster: FailureCluster, night: Night) -> list[str | Span]:
    members = [case for case in night.cases if case.case in cluster.cases]
    verb = "Compiles"
    if members and all(case.change is CaseChangeKind.CHANGED for case in members):
        verb = "Fails in another way"
    elif (
        cluster.failure
        and members
        and members[0].stages
        and members[0].stages[-1] != "compile"
    ):
        verb = "Works"
    title = compiler_title(night.compiler)
    before, after = night.baseline, night.toolchain
    culprit = cluster.culprit
    if culprit and culprit.before and culprit.after:
        if culprit.undone:
            before, after = (culprit.after, culprit.before)
        else:
            before, after = (culprit.before, culprit.after)
    sentence: list[str | Span] = [
        (
            f"{verb} up to {title} {revision_text(before)}, fails with "
            f"{revision_text(after)}"
        )
    ]
    if culprit and culprit.undone:
        sentence = [
            (
                f"Fixed in {title} {revision_text(before)}, and "
                f"{revision_text(after)} lacks the fix"
            )
        ]
    elif culprit and not culprit.confirmed:
        names = ", ".join(suspect.name for suspect in culprit.suspects)
        sentence.append(f" (one of {names or 'several'}, not confirmed)")
    sentence += compare_spans(night.compiler, before, after)
    if (
        cluster.release_culprit
        and cluster.release_culprit.before
        and cluster.release_culprit.after
    ):
        sentence.append(
            f", between {cluster.release_culprit.before.name} and "
            f"{cluster.release_culprit.after.name}"
        )
    fix = cluster.fix
    if fix and fix.before and fix.after:
        if fix.status is Answer.CULPRIT:
            verb = "fixed in"
        else:
            verb = "passes again with"
        sentence += [
            f"; {verb} {revision_text(fix.after)}",
            *compare_spans(night.compiler, fix.before, fix.after),
        ]
    return [*sentence, "."]


def known_facts(
    cluster: FailureCluster, compiler: str | None
) -> Iterator[tuple[str, Inline]]:
    """Yield what brought and what fixed a failure, then what else was found out."""
    yield from origin_facts(
        (cluster.culprit, cluster.release_culprit, cluster.fix), compiler
    )
    yield from found_facts(cluster)


def _versions(cluster: FailureCluster) -> list[list[Inline]]:
    rows: list[list[Inline]] = []
    for state, group in groupby(cluster.replays.items(), key=lambda item: item[1]):
        names = [name for name, _ in group]
        rows.append(
            [
                names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}",
                _REPLAYS.get(state, state),
            ]
        )
    return rows


def _state(name: str, cluster: FailureCluster) -> str:
    if name in cluster.confirmed:
        return "fails since the same change"
    if name in cluster.different:
        return "fails since another change"
    return ""


def night_title(night: Night) -> str:
    """Return `IREE 3.3.0 against 3.2.0`."""
    return (
        f"{compiler_title(night.compiler)} {night.toolchain.name} against "
        f"{night.baseline.name}"
    ).strip()


def partial_text(night: Night) -> str:
    """Return why a nightly is partial and how many cases it did not compare; empty when
    it is complete.
    """
    if night.stopped is None:
        return ""
    total = len(night.cases) + len(night.not_compared)
    return (
        f"{night.stopped[:1].upper()}{night.stopped[1:]}; {len(night.not_compared)} "
        f"of {plural(total, 'case')} not compared."
    )


def night_verdict(night: Night) -> str:
    """Return the counts of a night, its pass rate and what it took."""
    counts = (
        ", ".join(
            f"{count} {change}" for change, count in night.changes.items() if count
        )
        or "no case"
    )
    passed, failed = (
        sum(row[state] for row in night.suites.values())
        for state in ("passed", "failed")
    )
    if passed + failed:
        rate = f"; {rate_text(passed, failed)} pass ({passed} of {passed + failed})"
    else:
        rate = ""
    foreign = sum(
        result.foreign for case in night.cases for result in (case, case.baseline)
    )
    if foreign:
        others = f", {plural(foreign, 'result')} of other machines"
    else:
        others = ""
    if night.seconds < 100:
        seconds = f"{night.seconds:.1f} s"
    else:
        seconds = duration_text(night.seconds)
    effort = (
        f"{plural(night.compiles, 'compile')}, "
        f"{plural(night.cached, 'cache hit')}{others}, {seconds}"
    )
    return f"{counts}{rate}; {effort}"


def backend_sentence(verdict: BackendVerdict, night: Night) -> str:
    """Return what a night says of one backend: `rocm: 3.3.0 breaks 3 of 41 cases with
    2 failures, 1 with a culprit. Do: file 1 issue, investigate 1 failure.`
    """
    where = f"{verdict.backend}: " if verdict.backend else ""
    if verdict.broken:
        failures = plural(verdict.failures, "failure")
        text = (
            f"{where}{night.toolchain.name} breaks {verdict.broken} of "
            f"{plural(verdict.cases, 'case')} with {failures}"
        )
        if verdict.with_culprit:
            text += f", {verdict.with_culprit} with a culprit"
        if verdict.not_investigated == verdict.failures:
            text += ", not investigated"
        elif verdict.not_investigated:
            text += f", {verdict.not_investigated} not investigated"
        if verdict.reason:
            text += f" ({verdict.reason})"
    else:
        text = f"{where}nothing new fails in {plural(verdict.cases, 'case')}"
    if verdict.fixed:
        text += f"; {verdict.fixed} fixed"
    actions = ", ".join(
        f"{_TO_DO[action][0]} {plural(count, *_TO_DO[action][1])}"
        for action, count in verdict.actions.items()
    )
    return f"{text}. Do: {actions}." if actions else f"{text}."


def rate_text(passed: int, failed: int) -> str:
    """Return the share of the cases that pass."""
    if passed + failed:
        return f"{passed / (passed + failed):.1%}"
    return "-"


def path_text(night: Night, path: str) -> str:
    """Return a path of a night as a user can open it: with the folder of the
    reports.
    """
    if "json" in night.reports:
        return str(Path(night.reports["json"]).parent / path)
    return path


def reason_text(case: CaseResult, night: Night) -> str:
    """Return on which of the two toolchains a case could not be tested, and why."""
    for result, revision in ((case, night.toolchain), (case.baseline, night.baseline)):
        if result.status == Status.UNTESTABLE or result.reason:
            return f"{revision.name}: {result.reason}"
    return ""


def origin_text(bisection: Bisection) -> str:
    """Return a bisect's answer in one line."""
    return " ".join(_origin_parts(bisection))


def _origin_parts(bisection: Bisection) -> tuple[str, str]:
    if bisection.kind == BisectKind.REGRESSION:
        verb = "introduced"
    else:
        verb = "fixed"
    before, after = bisection.before, bisection.after
    if before is None or after is None:
        return f"{verb}:", f"not found: {bisection.reason}"
    certainty = "confirmed"
    if bisection.status != Answer.CULPRIT:
        names = ", ".join(revision.name for revision in bisection.suspects)
        if bisection.confirmed:
            certainty = f"one of {names}"
        else:
            certainty = f"one of {names}, not confirmed"
    where = f"between {revision_text(before)} and {revision_text(after)} ({certainty})"
    return "lacks the fix" if bisection.undone else verb, where


def origin_facts(
    bisections: Iterable[Bisection | None], compiler: str | None = None
) -> Iterator[tuple[str, Inline]]:
    """Yield what introduced and what fixed a failure. compiler: the family, to link the
    commits of the range.
    """
    for bisection in filter(None, bisections):
        name, where = _origin_parts(bisection)
        if bisection.before and bisection.after:
            link = compare_spans(compiler, bisection.before, bisection.after)
        else:
            link = []
        yield name, [where, *link]


def found_facts(cluster: FailureCluster) -> Iterator[tuple[str, Inline]]:
    """Yield what an investigation found out besides the origin: commits, the pass,
    workarounds, what was tried.
    """
    if cluster.culprit and cluster.culprit.status is not Answer.INCONCLUSIVE:
        for suspect in cluster.culprit.suspects[:3]:
            if suspect.url:
                link = Span(suspect.subject or suspect.name, url=suspect.url)
                yield "suspected commit", [link, f" {suspect.probability:.0%}"]
    found = cluster.attribution
    if found and found.suspects:
        if found.phase:
            phase = f" (phase {found.phase})"
        else:
            phase = ""
        yield (
            "pass",
            ", ".join(
                [
                    f"the IR first differs after {found.suspects[0].name}{phase}",
                    *found.files[:3],
                ]
            ),
        )
    if cluster.remedies:
        yield (
            "workaround",
            joined(
                (Span(remedy.text, "code") for remedy in cluster.remedies[:3]), ", or "
            ),
        )
    for step in cluster.steps:
        if step.status == "failed":
            yield "tried", f"{step.reason} ({step.step})"
    if cluster.draft and cluster.draft.first_wrong:
        yield "value", cluster.draft.first_wrong
    if cluster.draft and cluster.draft.unneeded:
        yield "not needed to fail", Span(" ".join(cluster.draft.unneeded), "code")


def night_facts(
    cluster: FailureCluster | None,
    night: Night,
    bisections: Iterable[Bisection | None],
    compiler: str | None = None,
) -> list[tuple[str, Inline]]:
    """Return everything that a night found out about a failure. compiler: the family,
    to link the commits of the range.
    """
    facts = list(origin_facts(bisections, compiler))
    if cluster is None:
        return facts
    if cluster.reproducer:
        if len(cluster.cases) > 1:
            whose = f" (of {cluster.representative})"
        else:
            whose = ""
        path = Span(
            path_text(night, cluster.reproducer), url=f"{cluster.reproducer}/README.md"
        )
        facts.append(("reduced", [f"{cluster.size}{whose}: ", path]))
    facts += found_facts(cluster)
    if cluster.issue:
        facts.append(
            ("issue draft", Span(path_text(night, cluster.issue), url=cluster.issue))
        )
    return facts


def time_name(row: TimeChange) -> str:
    """Return the case and its function, if one was run."""
    if row.function:
        return f"{row.case}, {row.function}"
    return row.case


def times_text(row: TimeChange) -> str:
    """Return both times, `2 s -> 9 s`, with ratio, verdict and origin, or why there is
    none.
    """
    if row.baseline_seconds is None or row.seconds is None:
        return f"not measured, {row.reason}"
    if row.bisection:
        since = f"; {origin_text(row.bisection)}"
    else:
        since = ""
    verdict = pace_text(row)
    if row.ratio:
        verdict = f"{row.ratio} {verdict}"
    return (
        f"{time_text(row.baseline_seconds)} -> {time_text(row.seconds)}, "
        f"{verdict}{since}"
    )


def pace_text(row: TimeChange) -> str:
    """Return the verdict on a time, or why there is none."""
    if row.verdict is Pace.NOISY and row.reason:
        return f"{row.verdict.value}, {row.reason}"
    if row.verdict:
        return row.verdict.value
    if row.reason:
        return f"not measured, {row.reason}"
    return "no verdict"
