"""The phrases and blocks that all reports of a night use: what is known of a failure,
its program and its command, the verdict in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from triage.attribute.result import Attribution
from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.in_turn import Pace
from triage.investigate.result import CaseResult, FailureCluster
from triage.model.outcome import Status
from triage.nightly.result import Night, TimeChange
from triage.reduce.result import IssueDraft
from triage.report.document import (
    Block,
    Code,
    Details,
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
    joined,
    plural,
    revision_text,
)
from triage.report.runs import time_text

_UNFOLDED = 100  # lines of a program
_REPLAYS = {"reproduces": "fails", "fixed": "passes", "changed": "fails in another way"}


def draft_path(cluster: FailureCluster) -> str:
    """Return the path of a draft, relative to the reports."""
    return f"issues/{cluster.id}.md"


def input_blocks(cluster: FailureCluster, draft: IssueDraft) -> list[Block]:
    """Return the smallest program, its own error if that differs, its command, the
    whole output and the results of other versions.
    """
    title = f"Smallest input, {cluster.size}" if cluster.size else "Input"
    blocks: list[Block] = [Heading(title)]
    if not draft_has_same_headline(cluster):
        blocks += [Paragraph("This smaller program fails with:"), Code(draft.error)]
    blocks += draft_blocks(draft)
    if cluster.replays:
        blocks.append(
            Details(
                "The program on other versions",
                [Table(("versions", "result"), version_rows(cluster))],
            )
        )
    return blocks


def draft_has_same_headline(cluster: FailureCluster) -> bool:
    """Return whether the program of the draft fails with the headline of the original.
    That of a reduced program may have other numbers.
    """
    if cluster.failure is None or cluster.draft is None:
        return True
    return cluster.draft.headline in ("", cluster.failure.headline)


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


def version_rows(cluster: FailureCluster) -> list[list[Inline]]:
    """Return what versions do with the program, neighbours of one result together."""
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
    """Yield the owner, and what an investigation found out besides the origin: commits,
    the pass, workarounds, what was tried.
    """
    if cluster.owner:
        yield "owner", cluster.owner
    if cluster.culprit and cluster.culprit.status is not Answer.INCONCLUSIVE:
        for suspect in cluster.culprit.suspects[:3]:
            if suspect.url:
                link = Span(suspect.subject or suspect.name, url=suspect.url)
                yield "suspected commit", [link, f" {suspect.probability:.0%}"]
    found = cluster.attribution
    if found and found.suspects:
        yield "pass", pass_text(found)
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


def pass_text(found: Attribution) -> str:
    """Return the pass that differs, with its phase and its files."""
    phase = f" (phase {found.phase})" if found.phase else ""
    name = found.suspects[0].name
    parts = [f"the IR first differs after {name}{phase}", *found.files[:3]]
    return ", ".join(parts)


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
    since = ""
    if row.bisection:
        since = f"; {origin_text(row.bisection)}"
    if reduced_text(row):
        since = f"{since}; {reduced_text(row)}"
    verdict = pace_text(row)
    if row.ratio:
        verdict = f"{row.ratio} {verdict}"
    return (
        f"{time_text(row.baseline_seconds)} -> {time_text(row.seconds)}, "
        f"{verdict}{since}"
    )


def reduced_text(row: TimeChange) -> str:
    """Return where the smaller program is, or why there is none."""
    if row.reproducer:
        return f"reduced to {row.reproducer}"
    if row.not_reduced:
        return f"not reduced: {row.not_reduced}"
    return ""


def pace_text(row: TimeChange) -> str:
    """Return the verdict on a time, or why there is none."""
    if row.verdict is Pace.NOISY and row.reason:
        return f"{row.verdict.value}, {row.reason}"
    if row.verdict:
        return row.verdict.value
    if row.reason:
        return f"not measured, {row.reason}"
    return "no verdict"
