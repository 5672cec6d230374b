"""The report of `triage nightly`: terminal, JSON, Markdown, JUnit, and the files that it leaves in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.execution.benchmark import Series
from triage.execution.statistics import CONFIDENCE, Comparison, Pace
from triage.model.outcome import Cause, Failed, Untestable
from triage.model.revision import Revision
from triage.nightly.compare import CaseChangeKind, CompileTimes, Example, Night, Pair, RunTimes
from triage.reduce.state import NotReproducible
from triage.report.benchmark import ratio_text, size_text, time_text
from triage.report.bisection import BisectShape, bisect_shape
from triage.report.elements import failure_text, headline_text, numbers_text, plural, revision_text
from triage.report.registry import MarkdownReport, SuiteCase, SuiteReport, format_for, format_names
from triage.report.shapes import ProbeShape, Shape, optional_failure, probe_shape, reason_in
from triage.toolchains.home import disk_errors, write_whole

if TYPE_CHECKING:  # templates are slow to import, and most commands write none
    from triage.report.markdown import Markdown

_FILES = {"markdown": "nightly.md", "junit": "nightly.xml", "json": "nightly.json"}
_STYLES = {Pace.SLOWER: "bold red", Pace.FASTER: "green", Pace.NOISY: "yellow", None: "yellow"}
_SECTIONS = {
    CaseChangeKind.REGRESSED: ("Regressed", "bold red"),
    CaseChangeKind.CHANGED: ("Different failure", "magenta"),
    CaseChangeKind.FIXED: ("Fixed", "green"),
    CaseChangeKind.KNOWN: ("Known failures", "cyan"),
}


@dataclass(frozen=True)
class PairShape(ProbeShape):
    """A case on the new toolchain, with its result on the baseline."""

    baseline: ProbeShape
    bisections: list[BisectShape]


@dataclass(frozen=True)
class ExampleShape(Shape):
    """The reduction that stands for a failure; `reason` says why there is none."""

    case: str
    reproducer: str | None
    operations: int | None
    reason: str | None


@dataclass(frozen=True)
class RegressedShape(PairShape):
    """A case that regressed."""

    example: ExampleShape | None


@dataclass(frozen=True)
class SlowerShape(Shape):
    """A case whose compile takes `times` as much CPU time as on the baseline, at least `low` and at most `high` times as much.
    Both are null when there were too few compiles for an interval. `compiles`: of each toolchain, measured in turn.
    """

    case: str
    times: float
    low: float | None
    high: float | None
    baseline_cpu_seconds: float
    cpu_seconds: float
    compiles: int


@dataclass(frozen=True)
class ProgramShape(Shape):
    """A compiled program and its runs: the median time in seconds, kernels that it starts, size and most memory used."""

    median: float | None
    dispatches: int | None
    bytes: int | None
    peak_mb: float | None


@dataclass(frozen=True)
class RunTimeShape(Shape):
    """The run time of one function, new to baseline: `ratio` with its interval, and a verdict. `reason`: why there is none."""

    case: str
    function: str | None
    baseline: ProgramShape
    new: ProgramShape
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str | None
    reason: str | None


@dataclass(frozen=True)
class NotTestedShape(Shape):
    """A case that could not be compared."""

    case: str
    reason: str | None


@dataclass(frozen=True)
class ClusterShape(Shape):
    """The cases that share a new failure."""

    signature: str
    cases: list[str]


@dataclass(frozen=True)
class NightShape(Shape):
    """JSON of `triage nightly`. `reports` maps a format to the file that was written.

    partial: The nightly was stopped before it was complete; `stopped` says why. not_compared: Cases without a result on both
    toolchains. slower: Compiles; maybe_slower: those whose times vary too much, or that take too long, for a verdict.
    run_times: With --bench.
    """

    toolchain: Revision
    baseline: Revision
    regressed: list[RegressedShape]
    fixed: list[PairShape]
    changed: list[PairShape]
    known: list[PairShape]
    unexpected_passes: list[str]
    slower: list[SlowerShape]
    maybe_slower: list[SlowerShape]
    run_times: list[RunTimeShape]
    unchanged: int
    untestable: int
    not_tested: list[NotTestedShape]
    clusters: list[ClusterShape]
    compiles: int
    cached: int
    seconds: float
    reports: dict[str, str]
    partial: bool
    stopped: str | None
    not_compared: list[str]


@dataclass(frozen=True, slots=True)
class NightReport(MarkdownReport, SuiteReport):
    """A nightly's result. `files` maps a format to the file that it was written to."""

    night: Night
    files: Mapping[str, str] = field(default_factory=dict)

    def shape(self) -> NightShape:
        night = self.night
        pairs = {change: [_pair_shape(pair) for pair in night.of(change)] for change in CaseChangeKind}
        return NightShape(
            toolchain=night.toolchain,
            baseline=night.baseline,
            regressed=[
                RegressedShape(**vars(_pair_shape(pair)), example=_example_shape(night.example_of(pair)))
                for pair in night.of(CaseChangeKind.REGRESSED)
            ],
            fixed=pairs[CaseChangeKind.FIXED],
            changed=pairs[CaseChangeKind.CHANGED],
            known=pairs[CaseChangeKind.KNOWN],
            unexpected_passes=list(night.unexpected_passes),
            slower=[_slower_shape(name, times) for name, times in night.compiled(Pace.SLOWER)],
            maybe_slower=[_slower_shape(name, times) for name, times in night.compiled(Pace.NOISY)],
            run_times=[_run_shape(row) for row in night.runs],
            unchanged=len(pairs[CaseChangeKind.UNCHANGED]),
            untestable=len(pairs[CaseChangeKind.UNTESTABLE]),
            not_tested=[
                NotTestedShape(pair.name, reason_in(pair.probe.outcome) or reason_in(pair.baseline.outcome))
                for pair in night.of(CaseChangeKind.UNTESTABLE)
            ],
            clusters=[ClusterShape(signature, list(cases)) for signature, cases in night.clusters],
            compiles=night.compiles,
            cached=night.cached,
            seconds=round(night.seconds, 2),
            reports=dict(self.files),
            partial=night.stopped is not None,
            stopped=night.stopped,
            not_compared=list(night.not_compared),
        )

    def blocks(self) -> Iterable[RenderableType]:
        """Show regressions with their failure and origin, other changes, then the counts."""
        night = self.night
        cases = plural(len(night.pairs), "case")
        yield Text.assemble((night.toolchain.name, "bold"), " against ", (night.baseline.name, "bold"), f": {cases}")
        if night.stopped:
            yield Text(partial_text(night), style="bold yellow")
        for change, (title, style) in _SECTIONS.items():
            if pairs := night.of(change):
                yield Text(f"\n{title} ({len(pairs)})", style=style)
                for pair in pairs:
                    yield from _pair_lines(pair)
                    if example := night.example_of(pair):
                        yield Text(f"      {example_text(example, pair.name)}")
        if passes := night.unexpected_passes:
            yield Text(
                f"\nUnexpected passes ({len(passes)}): `triage expect update` removes their known failures", style="magenta"
            )
            yield from (Text(f"  {name}") for name in passes)
        yield from _times_lines(night)
        for pair in night.of(CaseChangeKind.UNTESTABLE):
            if Cause.INTERNAL in _causes(pair):
                yield Text(f"  {pair.name}: {_reason(pair)}", style="bold red")
        counts = ", ".join(f"{len(night.of(change))} {change.value}" for change in CaseChangeKind)
        yield Text(f"\n{counts}; {effort_text(night)}")
        yield from (Text(f"written: {path}") for path in self.files.values())

    def markdown(self) -> Markdown:
        from triage.report.markdown import render_markdown

        night = self.night
        return render_markdown(
            "nightly.md.j2",
            trim=False,
            night=night,
            sections={change.value: title for change, (title, _) in _SECTIONS.items()},
            effort=effort_text(self.night),
            compiles=[*night.compiled(Pace.SLOWER), *night.compiled(Pace.NOISY)],
            confidence=f"{CONFIDENCE:.1%}",
            interval=interval_text,
            run_name=run_name,
            run_verdict=_run_verdict,
            time=time_text,
            old_new=_old_new,
            partial=partial_text(night),
            plural=plural,
            headline=headline_text,
            numbers=numbers_text,
            releases=_releases,
            origin=_origin,
            reason=_reason,
            example_link=_example_link,
        )

    def suite(self) -> tuple[str, Iterable[SuiteCase]]:
        night = self.night
        cases = [_suite_case(pair, night.example_of(pair)) for pair in night.pairs]
        cases += [_run_case(row, is_failure=night.fail_on_slower) for row in night.runs]
        cases += [_compile_case(*row, is_failure=night.fail_on_slower) for row in night.compiled(Pace.SLOWER)]
        cases += [SuiteCase(name, name.partition("[")[0], 0.0, skipped=night.stopped) for name in night.not_compared]
        return f"triage {night.toolchain.name} against {night.baseline.name}", cases

    def properties(self) -> Mapping[str, str]:
        return {"partial": self.night.stopped} if self.night.stopped else {}


def write_reports(night: Night, folder: Path) -> NightReport:
    """Write `nightly.md`, `nightly.xml` and `nightly.json` below `folder`, each atomically, and return the report."""
    report = NightReport(night, {name: str(folder / file) for name, file in _FILES.items()})
    with disk_errors(f"write the reports to {folder}"):
        for name, file in _FILES.items():
            write_whole(folder / file, format_for(NightReport, name).render(report))
    return report


def showable(night: Night, explain: Callable[[str, Exception], Untestable]) -> Night:
    """Return the night with each case that a format cannot show as an untestable one.

    explain: prints the exception that a case brings out and returns the outcome that stands for it.
    """

    def shown(pair: Pair) -> Pair:
        alone = NightReport(replace(night, pairs=(pair,), not_compared=()))
        try:
            for name in format_names(NightReport):
                format_for(NightReport, name).render(alone)
        except Exception as error:
            outcome = explain(f"the report of {pair.name}", error)
            baseline, probe = (replace(probe, outcome=outcome) for probe in (pair.baseline, pair.probe))
            return Pair(baseline, probe, CaseChangeKind.UNTESTABLE)
        return pair

    return replace(night, pairs=tuple(map(shown, night.pairs)))


def partial_text(night: Night) -> str:
    """Return why a nightly is partial and how many cases it did not compare; empty when it is complete."""
    if night.stopped is None:
        return ""
    total = len(night.pairs) + len(night.not_compared)
    return f"{night.stopped[:1].upper()}{night.stopped[1:]}; {len(night.not_compared)} of {plural(total, 'case')} not compared."


def _times_lines(night: Night) -> Iterable[RenderableType]:
    for word, pace in (("slower", Pace.SLOWER), ("maybe slower", Pace.NOISY)):
        for name, times in night.compiled(pace):
            yield Text(f"  {word}: {name}: {compile_text(times)} of CPU time", style="yellow")
    if night.runs:
        yield Text("\nRun times")
        for row in night.runs:
            yield Text(f"  {run_name(row)}: {run_text(row)}", style=_STYLES.get(row.pace, ""))


def interval_text(compared: Comparison | None, count: int = 0) -> str:
    """Return a ratio with its interval, or why there is none."""
    return ratio_text(compared) if compared else f"too few samples ({count})"


def compile_text(times: CompileTimes) -> str:
    """Return the compile times on both toolchains: `2.0 s -> 9.0 s, 4.50 [4.41, 4.62] times`."""
    ratio = interval_text(times.comparison, times.count)
    return f"{times.baseline:.1f} s -> {times.new:.1f} s, {ratio}{' times' if times.comparison else ''}"


def run_name(row: RunTimes) -> str:
    """Return the case and its function."""
    return f"{row.case}, {row.new.function}" if row.new.function else row.case


def run_text(row: RunTimes) -> str:
    """Return both times, the ratio and the verdict on the run time of a function, or why there is none."""
    old, new = row.baseline.median, row.new.median
    if row.reason is not None or old is None or new is None:
        return _run_verdict(row)
    return (
        f"{time_text(old)} -> {time_text(new)}, {interval_text(row.new.comparison, len(row.new.samples))} {_run_verdict(row)}"
    )


def _run_verdict(row: RunTimes) -> str:
    if row.reason is not None:
        return f"not measured, {row.reason}"
    return str(row.pace) if row.pace else "no verdict"


def _old_new(row: RunTimes, name: str) -> str:
    """Return a number of both programs: once where they are equal, empty where it is not known."""
    texts = []
    for side in (row.baseline, row.new):
        value = side.peak_mb if name == "peak_mb" else getattr(side.program, name, None)
        form = {"bytes": size_text, "peak_mb": "{:.0f} MiB".format}.get(name, str)
        texts.append("" if value is None else form(value))
    return texts[0] if texts[0] == texts[1] else " -> ".join(texts)


def _slower_shape(name: str, times: CompileTimes) -> SlowerShape:
    compared = times.comparison
    return SlowerShape(
        case=name,
        times=round(compared.ratio if compared else times.new / times.baseline, 2),
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        baseline_cpu_seconds=times.baseline,
        cpu_seconds=times.new,
        compiles=times.count,
    )


def _run_shape(row: RunTimes) -> RunTimeShape:
    compared = row.new.comparison
    return RunTimeShape(
        case=row.case,
        function=row.new.function or None,
        baseline=_program_shape(row.baseline),
        new=_program_shape(row.new),
        ratio=compared.ratio if compared else None,
        low=compared.low if compared else None,
        high=compared.high if compared else None,
        verdict=row.pace.value if row.pace else None,
        reason=row.reason,
    )


def _program_shape(series: Series) -> ProgramShape:
    program = series.program
    return ProgramShape(
        series.median, program.dispatches if program else None, program.bytes if program else None, series.peak_mb
    )


def _run_case(row: RunTimes, *, is_failure: bool) -> SuiteCase:
    """Report a run time as a test case, which fails when it is slower and that counts as a failure."""
    name, group, text = f"run time of {run_name(row)}", row.case.partition("[")[0], run_text(row)
    if row.reason is not None:
        return SuiteCase(name, group, 0.0, skipped=row.reason)
    failed = ("the run is slower", "slower", text) if is_failure and row.pace is Pace.SLOWER else None
    return SuiteCase(name, group, row.new.median or 0.0, failed=failed, output=text)


def _compile_case(name: str, times: CompileTimes, *, is_failure: bool) -> SuiteCase:
    text = compile_text(times)
    failed = ("the compile is slower", "slower", text) if is_failure else None
    return SuiteCase(f"compile time of {name}", name.partition("[")[0], times.new, failed=failed, output=text)


def effort_text(night: Night) -> str:
    """Return what a nightly took: compiles, cache hits, seconds."""
    return f"{plural(night.compiles, 'compile')}, {plural(night.cached, 'cache hit')}, {night.seconds:.1f} s"


def example_text(example: Example, name: str) -> str:
    """Return how small the program that stands for a case became and where it is, or why it was not reduced."""
    case = example.result.case.name
    shared = "" if case == name else f" (of {case}, which has the same failure)"
    if isinstance(example.result, NotReproducible):
        return f"not reduced{shared}: {example.result.reason}"
    return f"reduced to {example.result.after}{shared}: {example.folder}"


def _example_link(example: Example, name: str) -> Markdown:
    """Return the example as Markdown; the link is relative to the report, which is beside the reproducers' folder."""
    from triage.report.markdown import Markdown, link, plain

    text = example_text(example, name)
    if example.folder is None:
        return plain(text)
    target = f"{example.folder.parent.name}/{example.folder.name}"
    return Markdown(f"{plain(text.removesuffix(str(example.folder)))}{link(target, f'{target}/README.md')}")


def _pair_shape(pair: Pair) -> PairShape:
    probe = replace(probe_shape(pair.probe), failure=optional_failure(pair.failure))
    return PairShape(**vars(probe), baseline=probe_shape(pair.baseline), bisections=list(map(bisect_shape, pair.bisections)))


def _example_shape(example: Example | None) -> ExampleShape | None:
    if example is None:
        return None
    if isinstance(example.result, NotReproducible):
        return ExampleShape(example.result.case.name, None, None, example.result.reason)
    return ExampleShape(example.result.case.name, str(example.folder), example.result.after.operations, None)


def _reason(pair: Pair) -> str | None:
    """Return which of the two probes could not be tested, and why."""
    for probe in (pair.probe, pair.baseline):
        if isinstance(probe.outcome, Untestable):
            return f"{probe.revision.name}: {probe.outcome.reason}"
    return None


def _causes(pair: Pair) -> set[Cause]:
    return {probe.outcome.cause for probe in (pair.probe, pair.baseline) if isinstance(probe.outcome, Untestable)}


def _pair_lines(pair: Pair) -> Iterable[RenderableType]:
    failure = pair.failure
    yield Text.assemble("  ", (pair.name, "bold"), f"  {failure_text(failure)}" if failure else "")
    if failure and failure.details:
        yield Text(f"      {numbers_text(failure)}", style="dim")
    yield from (Text(f"      {_origin(bisection)}") for bisection in pair.bisections)


def _origin(bisection: Bisection) -> str:
    """Return a bisect's answer in one line."""
    verb = "introduced" if bisection.kind is BisectKind.REGRESSION else "fixed"
    before, after = bisection.before, bisection.after
    if before is None or after is None:
        return f"{verb}: not found: {bisection.reason}"
    certainty = _doubt(bisection) or " (confirmed)"
    return f"{verb} between {revision_text(before)} and {revision_text(after)}{certainty}"


def _releases(pair: Pair, kind: str) -> str:
    """Return the two releases between which a change of this kind happened; empty when none was searched for."""
    for bisection in pair.bisections:
        if bisection.kind == kind and bisection.before and bisection.after:
            doubt = _doubt(bisection)
            return f"{bisection.before.name} and {bisection.after.name}{doubt}"
    return "not found" if kind == "regression" else ""


def _doubt(bisection: Bisection) -> str:
    if bisection.answer is Answer.CULPRIT:
        return ""
    names = ", ".join(revision.name for revision, _ in bisection.suspects)
    return f" (one of {names})" if bisection.confirmed else f" (one of {names}, not confirmed)"


def _suite_case(pair: Pair, example: Example | None) -> SuiteCase:
    """Report regressions and different failures as failures; known failures and untestable cases as skipped."""
    outcome = pair.probe.outcome
    name, group, seconds = pair.name, pair.probe.case.recipe, pair.probe.measured.seconds
    match pair.change:
        case CaseChangeKind.REGRESSED | CaseChangeKind.CHANGED if isinstance(outcome, Failed):
            failure = outcome.failure
            lines = [failure.signature, *map(_origin, pair.bisections)]
            lines += [example_text(example, pair.name)] if example else []
            return SuiteCase(name, group, seconds, failed=(failure.headline, failure.failure_class, "\n".join(lines)))
        case CaseChangeKind.UNTESTABLE:
            return SuiteCase(name, group, seconds, skipped=_reason(pair))
        case CaseChangeKind.KNOWN | CaseChangeKind.UNCHANGED if isinstance(outcome, Failed):
            return SuiteCase(name, group, seconds, skipped=f"known failure: {failure_text(outcome.failure)}")
    return SuiteCase(name, group, seconds)
