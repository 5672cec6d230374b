"""The report of `triage nightly`: terminal, JSON, Markdown, JUnit, and the files that it leaves in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from triage.bisect.result import Answer, Bisection, BisectKind
from triage.model.outcome import Cause, Failed, Untestable
from triage.model.revision import Revision
from triage.nightly.compare import CaseChangeKind, Example, Night, Pair
from triage.reduce.state import NotReproducible
from triage.report.bisection import BisectShape, bisect_shape
from triage.report.elements import failure_text, headline_text, numbers_text, plural, revision_text
from triage.report.registry import MarkdownReport, SuiteCase, SuiteReport, format_for, format_names
from triage.report.shapes import ProbeShape, Shape, optional_failure, probe_shape, reason_in
from triage.toolchains.home import disk_errors, write_whole

if TYPE_CHECKING:  # templates are slow to import, and most commands write none
    from triage.report.markdown import Markdown

_FILES = {"markdown": "nightly.md", "junit": "nightly.xml", "json": "nightly.json"}
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
    """A case whose compile takes `times` as much CPU time as on the baseline."""

    case: str
    times: float


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
    toolchains.
    """

    toolchain: Revision
    baseline: Revision
    regressed: list[RegressedShape]
    fixed: list[PairShape]
    changed: list[PairShape]
    known: list[PairShape]
    unexpected_passes: list[str]
    slower: list[SlowerShape]
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
            slower=[SlowerShape(pair.name, round(pair.slower or 0, 2)) for pair in night.slower],
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
        for pair in night.slower:
            old, new = pair.baseline.measured.cpu_seconds, pair.probe.measured.cpu_seconds
            yield Text(f"  slower: {pair.name}: {old:.1f} s -> {new:.1f} s of CPU time", style="yellow")
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
    return f"Partial: {night.stopped}; {len(night.not_compared)} of {plural(total, 'case')} not compared."


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
