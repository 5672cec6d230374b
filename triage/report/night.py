"""The report of `triage nightly`: terminal, JSON, Markdown, JUnit, and the files that it leaves in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from triage.execution.statistics import Pace
from triage.model.outcome import FAILING, Cause, Status
from triage.nightly.result import NIGHT_FILE, CaseChangeKind, CaseResult, CompileTimes, FailureCluster, Night, RunTimes
from triage.report.elements import failure_text, numbers_text, plural
from triage.report.night_issue import draft_path, issue_text
from triage.report.night_phrases import (
    TITLES,
    cluster_lines,
    compile_text,
    effort_text,
    example_text,
    investigated_text,
    origin_text,
    partial_text,
    reason_text,
    run_name,
    run_text,
    stage_rows,
    suite_rows,
)
from triage.report.registry import MarkdownReport, SuiteCase, SuiteReport, rendered
from triage.toolchains.home import disk_errors, write_whole

if TYPE_CHECKING:  # templates are slow to import, and most commands write none
    from triage.report.markdown import Markdown

FILES = {"markdown": "nightly.md", "junit": "nightly.xml", "json": NIGHT_FILE}
_STYLES: Mapping[str | None, str] = {Pace.SLOWER: "bold red", Pace.FASTER: "green", Pace.NOISY: "yellow", None: "yellow"}
_SECTIONS = {
    CaseChangeKind.REGRESSED: "bold red",
    CaseChangeKind.CHANGED: "magenta",
    CaseChangeKind.FIXED: "green",
    CaseChangeKind.FLAKY: "yellow",
}
_SHOWN = 10  # rows of a section on a terminal
_GROUPS = 8  # failures of a section on a terminal
_NAMES = 5  # cases of a failure on a terminal


@dataclass(frozen=True, slots=True)
class NightReport(MarkdownReport, SuiteReport):
    """A nightly's result."""

    night: Night

    def shape(self) -> Night:
        return self.night

    def blocks(self) -> Iterable[RenderableType]:
        """Show regressions with their failure and origin, other changes, then the counts."""
        night, clusters = self.night, self.night.clusters_by_case()
        cases = plural(len(night.cases), "case")
        yield Text.assemble((night.toolchain.name, "bold"), " against ", (night.baseline.name, "bold"), f": {cases}")
        if night.stopped:
            yield Text(partial_text(night), style="bold yellow")
        if night.scope:
            yield Text(f"{night.scope[:1].upper()}{night.scope[1:]}.", style="dim")
        for change, style in _SECTIONS.items():
            if shown := night.of(change):
                yield Text(f"\n{TITLES[change]} ({len(shown)})", style=style)
                groups = _groups(shown)
                for group in groups[:_GROUPS]:
                    yield from _group_lines(night, group, clusters.get(group[0].case))
                if hidden := sum(map(len, groups[_GROUPS:])):
                    yield Text(f"  and {plural(hidden, 'case')} more; nightly.json has them", style="dim")
        if passes := night.unexpected_passes:
            text = f"\nUnexpected passes ({len(passes)}): `triage expect update` removes their known failures"
            yield Text(text, style="magenta")
        yield from _times_lines(night)
        if untestable := night.of(CaseChangeKind.UNTESTABLE):
            yield Text(f"\nNot tested ({len(untestable)})", style="yellow")
            internal = [case for case in untestable if Cause.INTERNAL in (case.cause, case.baseline.cause)]
            for case in [*internal, *(case for case in untestable if case not in internal)][: max(_SHOWN, len(internal))]:
                yield Text(f"  {case.case}: {reason_text(case, night)}", style="bold red" if case in internal else "")
            yield from _more(untestable)
        yield from _left_lines(night)
        yield from _rate_lines(night)
        counts = ", ".join(f"{count} {change.value}" for change in CaseChangeKind if (count := len(night.of(change))))
        yield Text(f"\n{counts or 'no case'}; {effort_text(night)}")
        yield from (Text(f"written: {path}") for path in night.reports.values())

    def markdown(self) -> Markdown:
        from triage.report.night_markdown import night_markdown  # templates are slow to import

        return night_markdown(self.night)

    def suite(self) -> tuple[str, Iterable[SuiteCase]]:
        night = self.night
        clusters = night.clusters_by_case()
        cases = [_suite_case(night, case, clusters.get(case.case)) for case in night.cases]
        cases += [_run_case(row, is_failure=night.strict) for row in night.run_times]
        cases += [_compile_case(row, is_failure=night.strict) for row in night.slower]
        cases += [SuiteCase(name, name.partition("[")[0], 0.0, skipped=night.stopped) for name in night.not_compared]
        return f"triage {night.toolchain.name} against {night.baseline.name}", cases

    def properties(self) -> Mapping[str, str]:
        return {"partial": self.night.stopped} if self.night.stopped else {}


def write_reports(night: Night, folder: Path) -> NightReport:
    """Write the reports and the drafts of issues below `folder`, each file atomically, and return the report."""
    clusters = [replace(each, issue=draft_path(each) if each.steps else None) for each in night.clusters]
    paths = {name: str(folder / file) for name, file in FILES.items()}
    report = NightReport(replace(night, reports=paths, clusters=clusters))
    with disk_errors(f"write the reports to {folder}"):
        for cluster in clusters:
            if cluster.issue:
                write_whole(folder / cluster.issue, issue_text(cluster, report.night))
        for name, file in FILES.items():
            write_whole(folder / file, rendered(report, name))
    return report


def _groups(cases: Sequence[CaseResult]) -> list[list[CaseResult]]:
    """Return the cases with the same failure that came and went with the same revisions."""
    groups: dict[tuple[str, ...], list[CaseResult]] = {}
    for case in cases:
        signature = case.either_failure.signature if case.either_failure else ""
        groups.setdefault((signature, *map(origin_text, case.bisections)), []).append(case)
    return list(groups.values())


def _group_lines(night: Night, group: Sequence[CaseResult], cluster: FailureCluster | None) -> Iterable[RenderableType]:
    failure, names = group[0].either_failure, [case.case for case in group]
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    yield Text.assemble("  ", (", ".join(names[:_NAMES]) + more, "bold"), f"  {failure_text(failure)}" if failure else "")
    if failure and failure.details and group[0].counts:
        yield Text(f"      {numbers_text(failure)}", style="dim")
    yield from (Text(f"      {origin_text(bisection)}") for bisection in group[0].bisections)
    if cluster and (example := example_text(cluster, names[0], night)):
        yield Text(f"      {example}")
    if cluster and cluster.representative in names:
        yield from (Text(f"      {line}") for line in cluster_lines(cluster, night))


def _more(rows: Sequence[object]) -> Iterable[RenderableType]:
    if len(rows) > _SHOWN:
        yield Text(f"  and {len(rows) - _SHOWN} more; nightly.json has them", style="dim")


def _left_lines(night: Night) -> Iterable[RenderableType]:
    """Show the steps that an investigation left over, each with the command that does it."""
    left = night.investigation.left if night.investigation else []
    if left:
        yield Text(f"\nLeft over ({plural(len(left), 'step')}). {investigated_text(night)}", style="yellow")
    for entry in left[:_SHOWN]:
        yield Text(f"  {entry.step} of {entry.case}, {entry.reason}: {entry.command}")
    yield from _more(left)


def _rate_lines(night: Night) -> Iterable[RenderableType]:
    """Show the pass rate by stage, and by suite where there are several."""
    stages = [f"{name} {rate} ({passed} of {passed + failed})" for name, passed, failed, rate in stage_rows(night)]
    if stages:
        yield Text(f"\nPass rate: {', '.join(stages)}")
    suites = suite_rows(night)
    for name, passed, failed, untested, rate in suites if len(suites) > 1 else ():
        more = f", {untested} not tested" if untested else ""
        yield Text(f"  {name}: {rate} ({passed} of {passed + failed}{more})")


def _times_lines(night: Night) -> Iterable[RenderableType]:
    for word, rows in (("slower", night.slower), ("maybe slower", night.maybe_slower)):
        for row in rows:
            yield Text(f"  {word}: {row.case}: {compile_text(row)} of CPU time", style="yellow")
            yield from _origin_lines(row)
    if night.run_times:
        yield Text("\nRun times")
        for run in night.run_times:
            yield Text(f"  {run_name(run)}: {run_text(run)}", style=_STYLES.get(run.verdict, ""))
            yield from _origin_lines(run)


def _origin_lines(row: CompileTimes | RunTimes) -> Iterable[RenderableType]:
    if row.bisection:
        yield Text(f"      {origin_text(row.bisection)}")


def _run_case(row: RunTimes, *, is_failure: bool) -> SuiteCase:
    """Report a run time as a test case, which fails when it is slower and that counts as a failure."""
    name, group, text = f"run time of {run_name(row)}", row.case.partition("[")[0], _with_origin(row, run_text(row))
    if row.reason is not None:
        return SuiteCase(name, group, 0.0, skipped=row.reason)
    failed = ("the run is slower", "slower", text) if is_failure and row.verdict == Pace.SLOWER else None
    return SuiteCase(name, group, row.new.median or 0.0, failed=failed, output=text)


def _compile_case(row: CompileTimes, *, is_failure: bool) -> SuiteCase:
    text = _with_origin(row, compile_text(row))
    failed = ("the compile is slower", "slower", text) if is_failure else None
    return SuiteCase(f"compile time of {row.case}", row.case.partition("[")[0], row.cpu_seconds, failed=failed, output=text)


def _with_origin(row: CompileTimes | RunTimes, text: str) -> str:
    return f"{text}\n{origin_text(row.bisection)}" if row.bisection else text


def _suite_case(night: Night, case: CaseResult, cluster: FailureCluster | None) -> SuiteCase:
    """Report regressions and different failures as failures, and other failures and untestable cases as skipped."""
    name, group, seconds = case.case, case.recipe, case.metrics.get("compile_seconds", 0.0)
    failure = case.either_failure
    if case.counts and failure:
        example = example_text(cluster, name, night) if cluster else None
        known = [*([example] if example else []), *(cluster_lines(cluster, night) if cluster else ())]
        lines = [f"signature: {failure.signature}", *map(origin_text, case.bisections), *known]
        return SuiteCase(name, group, seconds, failed=(failure.headline, failure.failure_class, "\n".join(lines)))
    if case.status == Status.XPASS:
        text = "it passes although its recipe expects a failure"
        failed = (text, "unexpected-pass", "`triage expect update` removes the known failure") if night.strict else None
        return SuiteCase(name, group, seconds, failed=failed, output=None if failed else text)
    if case.change == CaseChangeKind.UNTESTABLE:
        return SuiteCase(name, group, seconds, skipped=reason_text(case, night))
    if case.status in FAILING and failure:
        words = {CaseChangeKind.KNOWN: "known failure", CaseChangeKind.FLAKY: "flaky"}
        word = words.get(case.change, f"fails as with {night.baseline.name}")
        return SuiteCase(name, group, seconds, skipped=f"{word}: {failure_text(failure)}")
    return SuiteCase(name, group, seconds)
