"""Phrases of the reports of a night."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.timing import Pace
from triage.model.outcome import Status
from triage.nightly.result import CaseResult, FailureCluster, Night, TimeChange
from triage.report.document import Inline, Span
from triage.report.elements import compare_spans, compiler_title, duration_text, joined, plural, revision_text
from triage.report.runs import time_text


def night_title(night: Night) -> str:
    """Return `IREE 3.3.0 against 3.2.0`."""
    return f"{compiler_title(night.compiler)} {night.toolchain.name} against {night.baseline.name}".strip()


def partial_text(night: Night) -> str:
    """Return why a nightly is partial and how many cases it did not compare; empty when it is complete."""
    if night.stopped is None:
        return ""
    total = len(night.cases) + len(night.not_compared)
    return f"{night.stopped[:1].upper()}{night.stopped[1:]}; {len(night.not_compared)} of {plural(total, 'case')} not compared."


def verdict_text(night: Night) -> str:
    """Return the counts of a night, its pass rate and what it took."""
    counts = ", ".join(f"{count} {change}" for change, count in night.changes.items() if count) or "no case"
    passed, failed = (sum(row[state] for row in night.suites.values()) for state in ("passed", "failed"))
    rate = f"; {rate_text(passed, failed)} pass ({passed} of {passed + failed})" if passed + failed else ""
    foreign = sum(result.foreign for case in night.cases for result in (case, case.baseline))
    others = f", {plural(foreign, 'result')} of other machines" if foreign else ""
    seconds = f"{night.seconds:.1f} s" if night.seconds < 100 else duration_text(night.seconds)
    effort = f"{plural(night.compiles, 'compile')}, {plural(night.cached, 'cache hit')}{others}, {seconds}"
    return f"{counts}{rate}; {effort}"


def rate_text(passed: int, failed: int) -> str:
    """Return the share of the cases that pass."""
    return f"{passed / (passed + failed):.1%}" if passed + failed else "-"


def path_text(night: Night, path: str) -> str:
    """Return a path of a night as a user can open it: with the folder of the reports."""
    return str(Path(night.reports["json"]).parent / path) if "json" in night.reports else path


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
    verb = "introduced" if bisection.kind == BisectKind.REGRESSION else "fixed"
    before, after = bisection.before, bisection.after
    if before is None or after is None:
        return f"{verb}:", f"not found: {bisection.reason}"
    certainty = "confirmed"
    if bisection.status != Answer.CULPRIT:
        names = ", ".join(revision.name for revision in bisection.suspects)
        certainty = f"one of {names}" if bisection.confirmed else f"one of {names}, not confirmed"
    where = f"between {revision_text(before)} and {revision_text(after)} ({certainty})"
    return "lacks the fix" if bisection.undone else verb, where


def origin_facts(bisections: Iterable[Bisection | None], compiler: str | None = None) -> Iterator[tuple[str, Inline]]:
    """Yield what introduced and what fixed a failure. compiler: the family, to link the commits of the range."""
    for bisection in filter(None, bisections):
        name, where = _origin_parts(bisection)
        link = compare_spans(compiler, bisection.before, bisection.after) if bisection.before and bisection.after else []
        yield name, [where, *link]


def found_facts(cluster: FailureCluster) -> Iterator[tuple[str, Inline]]:
    """Yield what an investigation found out besides the origin: commits, the pass, workarounds, what was tried."""
    if cluster.culprit and cluster.culprit.status is not Answer.INCONCLUSIVE:
        for suspect in cluster.culprit.suspects[:3]:
            if suspect.url:
                link = Span(suspect.subject or suspect.name, url=suspect.url)
                yield "suspected commit", [link, f" {suspect.probability:.0%}"]
    found = cluster.attribution
    if found and found.pass_:
        phase = f" (phase {found.phase})" if found.phase else ""
        yield "pass", ", ".join([f"the IR first differs after {found.pass_}{phase}", *found.files[:3]])
    if cluster.remedies:
        yield "workaround", joined((Span(remedy.text, "code") for remedy in cluster.remedies[:3]), ", or ")
    for step in cluster.steps:
        if step.status == "failed":
            yield "tried", f"{step.reason} ({step.step})"
    if cluster.draft and cluster.draft.unneeded:
        yield "not needed to fail", Span(" ".join(cluster.draft.unneeded), "code")


def night_facts(
    cluster: FailureCluster | None, night: Night, bisections: Iterable[Bisection | None], compiler: str | None = None
) -> list[tuple[str, Inline]]:
    """Return everything that a night found out about a failure. compiler: the family, to link the commits of the range."""
    facts = list(origin_facts(bisections, compiler))
    if cluster is None:
        return facts
    if cluster.reproducer:
        whose = f" (of {cluster.representative})" if len(cluster.cases) > 1 else ""
        path = Span(path_text(night, cluster.reproducer), url=f"{cluster.reproducer}/README.md")
        facts.append(("reduced", [f"{cluster.size}{whose}: ", path]))
    facts += found_facts(cluster)
    if cluster.issue:
        facts.append(("issue draft", Span(path_text(night, cluster.issue), url=cluster.issue)))
    return facts


def time_name(row: TimeChange) -> str:
    """Return the case and its function, if one was run."""
    return f"{row.case}, {row.function}" if row.function else row.case


def times_text(row: TimeChange) -> str:
    """Return both times, `2 s -> 9 s`, with ratio, verdict and origin, or why there is none."""
    if row.baseline_seconds is None or row.seconds is None:
        return f"not measured, {row.reason}"
    since = f"; {origin_text(row.bisection)}" if row.bisection else ""
    return f"{time_text(row.baseline_seconds)} -> {time_text(row.seconds)}, {ratio_text(row)} {pace_text(row)}{since}"


def ratio_text(row: TimeChange) -> str:
    """Return a ratio with its interval: `4.50 [4.41, 4.62]`."""
    if row.ratio is None:
        return ""
    return f"{row.ratio:.2f}" if row.low is None or row.high is None else f"{row.ratio:.2f} [{row.low:.2f}, {row.high:.2f}]"


def pace_text(row: TimeChange) -> str:
    """Return the verdict on a time, or why there is none."""
    if row.verdict is Pace.NOISY and row.reason:
        return f"{row.verdict.value}, {row.reason}"
    return row.verdict.value if row.verdict else f"not measured, {row.reason}" if row.reason else "no verdict"
