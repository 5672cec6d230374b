"""Phrases of the reports of a night."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.model.outcome import Status
from triage.nightly.result import CaseChangeKind, CaseResult, CompileTimes, FailureCluster, Night, ProgramTimes, RunTimes
from triage.report.benchmark import size_text, time_text
from triage.report.elements import plural, revision_text

#: Titles of the sections with changed cases, in their order.
TITLES = {
    CaseChangeKind.REGRESSED: "Regressed",
    CaseChangeKind.CHANGED: "Different failure",
    CaseChangeKind.FIXED: "Fixed",
    CaseChangeKind.FLAKY: "Flaky",
    CaseChangeKind.KNOWN: "Known failures",
    CaseChangeKind.FAILING: "Failing as before",
}


def partial_text(night: Night) -> str:
    """Return why a nightly is partial and how many cases it did not compare; empty when it is complete."""
    if night.stopped is None:
        return ""
    total = len(night.cases) + len(night.not_compared)
    return f"{night.stopped[:1].upper()}{night.stopped[1:]}; {len(night.not_compared)} of {plural(total, 'case')} not compared."


def effort_text(night: Night) -> str:
    """Return what a nightly took: compiles, cache hits, seconds."""
    foreign = sum(result.foreign for case in night.cases for result in (case, case.baseline))
    others = f", {plural(foreign, 'result')} of other machines" if foreign else ""
    return f"{plural(night.compiles, 'compile')}, {plural(night.cached, 'cache hit')}{others}, {night.seconds:.1f} s"


def investigated_text(night: Night) -> str:
    """Return how long the investigation took, and its budget; empty without one."""
    investigation = night.investigation
    if investigation is None:
        return ""
    of = f" of a budget of {investigation.budget_seconds:.0f} s" if investigation.budget_seconds is not None else ""
    return f"The investigation took {investigation.seconds:.0f} s{of}."


def stage_rows(night: Night) -> list[tuple[str, int, int, str]]:
    """Return stage, passed, failed and rate."""
    return [(name, row["passed"], row["failed"], _rate(row)) for name, row in night.stages.items()]


def suite_rows(night: Night) -> list[tuple[str, int, int, int, str]]:
    """Return suite, passed, failed, untestable and rate."""
    rows = night.suites.items()
    return [(name, row["passed"], row["failed"], row["untestable"], _rate(row)) for name, row in rows]


def _rate(row: Mapping[str, int]) -> str:
    tested = row["passed"] + row["failed"]
    return f"{row['passed'] / tested:.1%}" if tested else "-"


def remedy_text(cluster: FailureCluster) -> str:
    """Return the cheapest remedy: its flags or its change of the input; empty where none is known."""
    return cluster.remedies[0].text if cluster.remedies else ""


def path_text(night: Night, path: str) -> str:
    """Return a path of a night as a user can open it: with the folder of the reports."""
    return str(Path(night.reports["json"]).parent / path) if "json" in night.reports else path


def cluster_lines(cluster: FailureCluster, night: Night) -> Iterator[str]:
    """Yield what an investigation found out beside the origin and the reproducer."""
    if cluster.attribution and cluster.attribution.pass_:
        phase = f" (phase {cluster.attribution.phase})" if cluster.attribution.phase else ""
        yield f"diverges after {cluster.attribution.pass_}{phase}"
    if remedy := remedy_text(cluster):
        yield f"works around it: {remedy}"
    if cluster.issue:
        yield f"issue draft: {path_text(night, cluster.issue)}"


def reason_text(case: CaseResult, night: Night) -> str | None:
    """Return on which of the two toolchains a case could not be tested, and why."""
    for result, revision in ((case, night.toolchain), (case.baseline, night.baseline)):
        if result.status == Status.UNTESTABLE or result.reason:
            return f"{revision.name}: {result.reason}"
    return None


def example_text(cluster: FailureCluster, name: str, night: Night) -> str | None:
    """Return how small the program that stands for a failure became and where it is, or why it was not reduced; None when
    nothing was tried.
    """
    shared = "" if cluster.representative == name else f" (of {cluster.representative}, which has the same failure)"
    if cluster.reproducer is not None:
        return f"reduced to {cluster.size}{shared}: {path_text(night, cluster.reproducer)}"
    step = next((step for step in cluster.steps if step.step == "reduce" and step.status == "failed"), None)
    return f"not reduced{shared}: {step.reason}" if step else None


def origin_text(bisection: Bisection) -> str:
    """Return a bisect's answer in one line."""
    verb = "introduced" if bisection.kind == BisectKind.REGRESSION else "fixed"
    before, after = bisection.before, bisection.after
    if before is None or after is None:
        return f"{verb}: not found: {bisection.reason}"
    certainty = _doubt(bisection) or " (confirmed)"
    if bisection.undone:
        return f"lacks the fix between {revision_text(before)} and {revision_text(after)}{certainty}"
    return f"{verb} between {revision_text(before)} and {revision_text(after)}{certainty}"


def releases_text(case: CaseResult, kind: str) -> str:
    """Return the two revisions between which a change of this kind happened; empty when none was searched for."""
    for bisection in case.bisections:
        if (bisection.kind == kind) is not bisection.undone and bisection.before and bisection.after:
            return f"{span_text(bisection)}{_doubt(bisection)}"
    return "not found" if kind == BisectKind.REGRESSION else ""


def span_text(bisection: Bisection) -> str:
    """Return the two revisions between which a change happened. Precondition: they are known."""
    assert bisection.before
    assert bisection.after
    missing = " (a fix that is missing)" if bisection.undone else ""
    return f"{bisection.before.name} and {bisection.after.name}{missing}"


def slower_since(row: CompileTimes | RunTimes) -> str:
    """Return between which revisions a compile or a run became slower; empty when that was not searched for."""
    if row.bisection is None:
        return ""
    before, after = row.bisection.before, row.bisection.after
    if before is None or after is None:
        return f"not found: {row.bisection.reason}"
    return f"{span_text(row.bisection)}{_doubt(row.bisection)}"


def _doubt(bisection: Bisection) -> str:
    if bisection.status == Answer.CULPRIT:
        return ""
    names = ", ".join(revision.name for revision in bisection.suspects)
    return f" (one of {names})" if bisection.confirmed else f" (one of {names}, not confirmed)"


def interval_text(row: CompileTimes | RunTimes) -> str:
    """Return a ratio with its interval, or why there is none."""
    ratio = row.times if isinstance(row, CompileTimes) else row.ratio
    if ratio is None or row.low is None or row.high is None:
        return "too few samples"
    return f"{ratio:.2f} [{row.low:.2f}, {row.high:.2f}]"


def compile_text(row: CompileTimes) -> str:
    """Return the compile times on both toolchains: `2.0 s -> 9.0 s, 4.50 [4.41, 4.62] times`."""
    times = " times" if row.low is not None else f" ({row.compiles})"
    return f"{row.baseline_cpu_seconds:.1f} s -> {row.cpu_seconds:.1f} s, {interval_text(row)}{times}"


def run_name(row: RunTimes) -> str:
    """Return the case and its function."""
    return f"{row.case}, {row.function}" if row.function else row.case


def run_text(row: RunTimes) -> str:
    """Return both times, the ratio and the verdict on the run time of a function, or why there is none."""
    old, new = row.baseline.median, row.new.median
    if row.reason is not None or old is None or new is None:
        return run_verdict(row)
    return f"{time_text(old)} -> {time_text(new)}, {interval_text(row)} {run_verdict(row)}"


def run_verdict(row: RunTimes) -> str:
    """Return the verdict on a run time, or why there is none."""
    if row.reason is not None:
        return f"not measured, {row.reason}"
    return row.verdict.value if row.verdict else "no verdict"


def old_new(row: RunTimes, name: str) -> str:
    """Return a number of both programs: once where they are equal, empty where it is not known."""
    old, new = (_number(side, name) for side in (row.baseline, row.new))
    return old if old == new else f"{old} -> {new}"


def _number(side: ProgramTimes, name: str) -> str:
    value = getattr(side, name)
    form = {"bytes": size_text, "peak_mb": "{:.0f} MiB".format}.get(name, str)
    return "" if value is None else form(value)
