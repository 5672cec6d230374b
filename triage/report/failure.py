"""A failure as all nights know it, in the order in which one reads: since when, what
brought it, the pass, what works around it, what to do, the smallest input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.bisect.result import Answer, Bisection, Suspect
from triage.investigate.result import FailureCluster
from triage.model.revision import Revision
from triage.nightly.failure_life import FailureLife, SeenAt
from triage.recipes.values import parse_version, share_text
from triage.report.document import (
    Block,
    Fact,
    Facts,
    Inline,
    Paragraph,
    Phrase,
    Span,
    with_code,
)
from triage.report.elements import compare_url, listed_facts
from triage.report.issue import input_blocks
from triage.report.night_text import (
    origin_facts,
    pass_text,
    to_do_spans,
    workaround_spans,
)

_SUSPECTS = 5  # that are named
_NO_OWNER = with_code("unknown: no rule in `owners` of `triage.yaml` fits")
_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


def report_blocks(report: FailureLife) -> list[Block]:
    """Return what is known of a failure, and why the rest is not."""
    cluster = report.cluster
    facts = [*_dates(report), *_found(report)]
    facts.append(("owner", cluster.owner or _NO_OWNER))
    if report.issue and not (report.to_do and report.to_do.issue):
        facts.append(("issue", issue_span(report.issue)))
    facts.append(("to do", what_to_do(report)))
    blocks: list[Block] = [Facts(facts)]
    if cluster.draft:
        return [*blocks, *input_blocks(cluster, cluster.draft)]
    if cluster.steps:
        reason = why_unknown(cluster, "reduce")
        blocks.append(Paragraph(f"The smallest input is unknown: {reason}."))
    return blocks


def what_to_do(report: FailureLife) -> Inline:
    """Return what to do about a failure, or why nothing is to do."""
    if report.to_do:
        issue = issue_span(report.issue) if report.issue else None
        return to_do_spans(report.to_do, issue)
    if report.state == "known":
        return "nothing: its recipe expects it"
    return "nothing: it is gone"


def why_unknown(cluster: FailureCluster, step: str) -> str:
    """Return why a step of an investigation has no answer."""
    found = next((each for each in cluster.steps if each.step == step), None)
    if found and found.reason:
        return found.reason
    if found and found.status == "done":
        return "the search found nothing"
    return "the investigation had no such step"


def _dates(report: FailureLife) -> Iterator[Fact]:
    """Yield when a failure came, and when it went or was seen last."""
    compiler, came = report.compiler, report.came
    yield "since", _dated(came_spans(compiler, report.before, came), came)
    if report.gone is None:
        yield "last seen", _seen(report.last)
    else:
        gone = came_spans(compiler, report.last.toolchain, report.gone)
        yield "gone", _dated(gone, report.gone)


def _found(report: FailureLife) -> Iterator[Fact]:
    cluster, compiler = report.cluster, report.compiler
    culprit, found = cluster.culprit, cluster.attribution
    if not (cluster.steps or culprit):
        if cluster.failure and cluster.failure.failing_pass:
            yield "pass", f"{cluster.failure.failing_pass}, which fails"
        yield "found out", "nothing else: no night investigated it"
        return
    if culprit is None:
        yield "culprit", f"unknown: {why_unknown(cluster, 'bisect')}"
    elif culprit.status is Answer.INCONCLUSIVE or not culprit.suspects:
        yield "culprit", f"unknown: {culprit.reason or 'the bisect names no suspect'}"
    else:
        name = "culprit" if culprit.status is Answer.CULPRIT else "suspects"
        shown = culprit.suspects[:_SUSPECTS]
        yield from listed_facts(name, (_suspect(culprit, each) for each in shown))
        if len(culprit.suspects) > _SUSPECTS:
            yield "", f"and {len(culprit.suspects) - _SUSPECTS} more"
    # the pair of a culprit is often that of the nights
    pair = (report.before, report.came.toolchain)
    is_unknown = culprit and culprit.status is Answer.INCONCLUSIVE
    if culprit and (is_unknown or (culprit.before, culprit.after) == pair):
        culprit = None
    origins = (culprit, cluster.release_culprit, cluster.fix)
    yield from origin_facts(origins, compiler)
    if found and found.suspects:
        yield "pass", pass_text(found)
    elif cluster.failure and cluster.failure.failing_pass:
        yield "pass", f"{cluster.failure.failing_pass}, which fails"
    else:
        yield "pass", f"unknown: {why_unknown(cluster, 'attribute')}"
    if cluster.remedies:
        yield "workaround", workaround_spans(cluster)
    else:
        yield "workaround", f"unknown: {why_unknown(cluster, 'remedy')}"


def culprit_spans(cluster: FailureCluster) -> Phrase:
    """Return the culprit or the likeliest suspect in short, if one is known."""
    culprit = cluster.culprit
    if culprit is None or culprit.status is Answer.INCONCLUSIVE or not culprit.suspects:
        return []
    spans = _suspect(culprit, culprit.suspects[0])
    more = len(culprit.suspects) - 1
    return [*spans, f" or {more} more"] if more else spans


def _suspect(culprit: Bisection, suspect: Suspect) -> Phrase:
    is_culprit = culprit.status is Answer.CULPRIT
    sure = "confirmed" if is_culprit else share_text(suspect.probability, 0)
    text = suspect.subject or revision_name(suspect)
    return [Span(text, url=suspect.url), f", {sure}"]


def _dated(spans: Phrase, at: SeenAt) -> Inline:
    """Return a range with the day of its night before the link to its commits."""
    return [spans[0], f", {at.day}", *spans[1:]]


def _seen(at: SeenAt) -> str:
    return f"{at.day} with {revision_name(at.toolchain)}"


def issue_span(issue: str) -> Span:
    """Return a link to an issue that is named `owner/repository#number` or by its
    address.
    """
    match = _ISSUE.fullmatch(issue)
    if match:
        return Span(issue, url=f"https://github.com/{match[1]}/issues/{match[2]}")
    if "://" in issue:
        return Span(issue, url=issue)
    return Span(issue)


def revision_name(revision: Revision | None) -> str:
    """Return the name of a revision, with its commit where the name lacks it."""
    if revision is None:
        return "unknown"
    commit = (revision.commit or "")[:10]
    if not commit or revision.name.endswith(commit):
        return revision.name
    return f"{revision.name} ({commit})"


def came_spans(compiler: str, old: Revision | None, at: SeenAt) -> Phrase:
    """Return between which toolchains something came or went."""
    if at.is_edited:
        return [f"the input changed, {at.toolchain.name}"]
    return range_spans(compiler, old, at.toolchain)


def range_spans(compiler: str, old: Revision | None, new: Revision) -> Phrase:
    """Return the range between two toolchains with a link to its commits. It never runs
    backwards.
    """
    if old is None:
        return [f"{new.name} or before"]
    if old == new or (old.commit and old.commit == new.commit):
        return [f"{new.name}, the same compiler"]
    old_version, new_version = parse_version(old.name), parse_version(new.name)
    if old_version and new_version and old_version > new_version:
        return [f"{new.name}, compared with the newer {old.name}"]
    url = compare_url(compiler, old, new)
    text = f"{old.name} .. {new.name}"
    return [text, " ", Span("compare", url=url)] if url else [text]
