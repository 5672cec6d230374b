"""Phrases of the reports of a night."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.timing import Pace
from triage.model.outcome import Status
from triage.nightly.result import CaseResult, FailureCluster, Night, TimeChange
from triage.report.benchmark import time_text
from triage.report.document import Span
from triage.report.elements import compare_url, compiler_title, plural, revision_text


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
    effort = f"{plural(night.compiles, 'compile')}, {plural(night.cached, 'cache hit')}{others}, {night.seconds:.1f} s"
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
    return " ".join(origin_parts(bisection))


def origin_parts(bisection: Bisection) -> tuple[str, str]:
    """Return what happened, in a word, and between which revisions."""
    verb = "introduced" if bisection.kind == BisectKind.REGRESSION else "fixed"
    before, after = bisection.before, bisection.after
    if before is None or after is None:
        return f"{verb}:", f"not found: {bisection.reason}"
    where = f"between {revision_text(before)} and {revision_text(after)}{_certainty(bisection)}"
    return "lacks the fix" if bisection.undone else verb, where


def _certainty(bisection: Bisection) -> str:
    if bisection.status == Answer.CULPRIT:
        return " (confirmed)"
    names = ", ".join(revision.name for revision in bisection.suspects)
    return f" (one of {names})" if bisection.confirmed else f" (one of {names}, not confirmed)"


def origin_spans(bisection: Bisection, compiler: str | None) -> list[str | Span]:
    """Return between which revisions a change lies, with links to the range and to the suspected commits."""
    spans: list[str | Span] = [origin_parts(bisection)[1]]
    if bisection.before and bisection.after and (url := compare_url(compiler, bisection.before, bisection.after)):
        spans += [" ", Span("compare", url=url)]
    for suspect in bisection.suspects[:3]:
        if suspect.url:
            spans += [", ", Span(suspect.subject or suspect.name, url=suspect.url)]
    return spans


def pass_text(cluster: FailureCluster) -> str:
    """Return the pass after which the IR of both toolchains diverges; empty where it is not known."""
    found = cluster.attribution
    if found is None or not found.pass_:
        return ""
    return f"{found.pass_} (phase {found.phase})" if found.phase else found.pass_


def reduced_text(cluster: FailureCluster) -> str:
    """Return how small the program became, or why it was not reduced; empty when that was not tried."""
    whose = f" (of {cluster.representative})" if len(cluster.cases) > 1 else ""
    if cluster.reproducer is not None:
        return f"{cluster.size}{whose}"
    return next((f"no{whose}: {step.reason}" for step in cluster.steps if (step.step, step.status) == ("reduce", "failed")), "")


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


def metric_text(case: CaseResult, name: str, form: Callable[[float], str]) -> str:
    """Return a metric on both toolchains: once where it is equal, empty where it is not known."""
    old, new = (form(values[name]) if name in values else "" for values in (case.baseline.metrics, case.metrics))
    return old if old == new else f"{old} -> {new}"
