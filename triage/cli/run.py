"""`triage run`, `triage history` and `triage bench`: compile cases on toolchains, find
what changed across releases, and measure what they compile to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from packaging.version import Version

from triage.cli.context import (
    open_engine_for,
    select_families,
    select_one_family,
)
from triage.cli.exit_codes import Exit, command, exit_for_results
from triage.cli.options import (
    SECONDS,
    Compiling,
    FormatOption,
    FreshOption,
    JUnitFormatOption,
    SeveralCases,
    ToolchainsOption,
    duration_option,
    flag,
    option,
    rev_option,
)
from triage.cli.screen import AppContext
from triage.execution.engine import Engine
from triage.execution.results import RunResults
from triage.execution.task import ProbeJob, Task
from triage.model.case import Case
from triage.model.errors import BadInput, Interrupted
from triage.model.outcome import Probe
from triage.processes.sealing import is_sealing
from triage.report.formats import write_report
from triage.report.runs import benchmark_document, run_document, run_junit
from triage.toolchains.registry import ToolchainRef

if TYPE_CHECKING:
    from triage.bisect.history import History
    from triage.cli.program import StartedRecipe
    from triage.execution.benchmark import Configuration


@command
def run_cases(
    chosen: SeveralCases,
    compiling: Compiling,
    toolchain: ToolchainsOption = None,
    fresh: FreshOption = False,
    strict: Annotated[
        bool, flag("Exit 1 also when a known failure passes.", "--strict")
    ] = False,
    output: JUnitFormatOption = "text",
) -> Exit:
    """Compile every case on every toolchain and report failures.

    Results are cached; a second run compiles nothing. A text that names releases is
    compiled on these and their neighbours. Exit 1 when a case fails that its
    recipe does not expect to fail.

    - `triage run recipes/cuda-matmul-f32.yaml -t 3.3.0 -t latest`

    - `triage run recipes/ -t 3.3.0 -t triton:3.2.0` compiles recipes of several
      compilers, each with its own
    """
    cases, started = chosen.load_started()
    ordered: list[Probe] = []
    with compiling.open(*cases, fresh=fresh) as engine:
        revs = toolchain or _default_revs(engine, [*started.values()])
        selections = [
            (one.cases, one.refs(engine)) for one in select_families(cases, revs)
        ]
        planned = [
            ProbeJob(case, ref)
            for cases, refs in selections
            for ref in refs
            for case in cases
        ]
        probes = {
            (probe.case.name, probe.revision.name): probe
            for probe in engine.probe_all(planned)
        }
        if compiling.app.verbose:
            for job in planned:
                engine.progress.note(_readable_text(engine, job))
        for case, refs in [
            (case, refs) for cases, refs in selections for case in cases
        ]:
            ordered += [probes[case.name, ref.revision.name] for ref in refs]
    result = replace(RunResults.of(ordered), strict=strict)
    write_report(output, result, run_document, junit=run_junit)
    return exit_for_results(result.results, strict=strict)


def _readable_text(engine: Engine, job: ProbeJob) -> str:
    """Return what the compile of a job may read."""
    task = engine.plan(job)
    paths = task.seal.reads if isinstance(task, Task) else ()
    text = "is not sealed: it may read all files"
    if is_sealing():
        text = "may read " + (", ".join(map(str, paths)) or "nothing: it is untestable")
    return f"{job.case.name} on {job.ref.revision.name} {text}"


def _default_revs(engine: Engine, started: Sequence[StartedRecipe]) -> list[str]:
    """Return the releases that texts name and their neighbours, oldest first; the
    newest installed toolchain if they name none.
    """
    revs: list[str] = []
    for recipe in started:
        family = recipe.start.family
        refs = engine.registry.reported(family, recipe.reported)
        names = sorted((ref.revision.name for ref in refs), key=Version)
        revs += [f"{family}:{name}" for name in names]
    return revs or ["installed"]


@command
def bench(
    app: AppContext,
    chosen: SeveralCases,
    toolchain: ToolchainsOption = None,
    baseline: Annotated[
        str | None,
        option(
            "Compare with this row: a case, a release or `CASE on RELEASE` "
            "(default: the first).",
            metavar="TEXT",
        ),
    ] = None,
    dispatch: Annotated[
        str | None,
        option(
            "Measure each dispatch whose name contains NAME, or `all` (default: "
            "whole functions).",
            metavar="NAME",
        ),
    ] = None,
    time: Annotated[
        float | None, duration_option("Measure for at most this long (default: 60s).")
    ] = None,
    output: FormatOption = "text",
) -> Exit:
    """Measure the run time of compiled programs side by side.

    Measure all configurations (cases on toolchains) in turn until every verdict is
    clear or the time is up. Exit 1 when one is slower, 3 when a verdict is unclear and
    none is slower.

    - `triage bench recipes/row-sum.yaml -t 3.10.0 -t 3.11.0`

    - `triage bench recipes/row-sum.yaml -t 3.10.0 -t 3.11.0 --dispatch all` compares
      their kernels one by one
    """
    # slow to import, and `triage run` needs neither
    from triage.execution.benchmark import Benchmark, Configuration
    from triage.execution.in_turn import Pace

    selection = select_one_family(chosen.load(), toolchain or ["installed"], "bench")
    with open_engine_for(app, selection.cases, 1) as engine:
        family = engine.compilers[selection.cases[0].compiler]
        if family.measures is None:
            advice = (
                "`triage run` reports its sizes, and `triage bisect --metric` finds "
                "where one of them changed"
            )
            raise BadInput(
                f"what {family.title or family.name} compiles cannot be run here, so "
                f"it has no run time; {advice}"
            )
        refs = selection.refs(engine)
        rows = [Configuration(case, ref) for case in selection.cases for ref in refs]
        result = Benchmark(rows, _baseline_row(rows, baseline))
        try:
            result.measure(
                engine, time or SECONDS, "" if dispatch == "all" else dispatch
            )
        except (KeyboardInterrupt, Interrupted):
            result.stopped = True
            write_report(output, result, benchmark_document)
            raise
    write_report(output, result, benchmark_document)
    paces = {series.verdict for series in result.series}
    if Pace.SLOWER in paces:
        return Exit.FOUND
    has_problem = any(series.reason is not None for series in result.series)
    if Pace.NOISY in paces or has_problem:
        return Exit.INCONCLUSIVE
    return Exit.OK


def _baseline_row(rows: Sequence[Configuration], baseline: str | None) -> Configuration:
    """Return the only row that --baseline names (default: the first)."""
    if baseline is None:
        return rows[0]
    fitting = [
        row
        for row in rows
        if baseline in (row.name, row.case.name, row.ref.revision.name)
    ]
    if len(fitting) != 1:
        names = ", ".join(repr(row.name) for row in fitting or rows)
        raise BadInput(
            f"--baseline {baseline!r} names {len(fitting) or 'no'} rows; choose from "
            f"{names}"
        )
    return fitting[0]


@command
def history(
    chosen: SeveralCases,
    compiling: Compiling,
    since: Annotated[
        str | None, rev_option("Begin with this release (default: the first).")
    ] = None,
    until: Annotated[
        str | None, rev_option("End with this release (default: the last).")
    ] = None,
    every: Annotated[
        bool, flag("Compile on every release, so that no change is missed.", "--every")
    ] = False,
    fresh: FreshOption = False,
    output: FormatOption = "text",
) -> Exit:
    """Find every change of each case's status across releases.

    Without --every, most releases between two with the same status are not compiled, so
    a short window of failures can be missed. Releases where other cases change and
    those that a recipe's `expect` names are compiled first.
    """
    from triage.bisect.history import Histories  # slow to import, and `run` needs none
    from triage.report.bisection import history_document

    cases = chosen.load()
    families = list(dict.fromkeys(case.compiler for case in cases))
    bounds = [rev for rev in (since, until) if rev]
    found: list[History] = []
    with compiling.open(*cases, fresh=fresh) as engine:
        if bounds:
            families = [select_one_family(cases, bounds, "history").family]
        for family in families:
            refs = engine.registry.between(family, since, until)
            family_cases = [case for case in cases if case.compiler == family]
            found += _family_histories(engine, family_cases, refs, every)
    write_report(output, Histories(found), history_document)
    code = exit_for_results(one for history in found for one in history.results)
    if code in (Exit.FOUND, Exit.INCONCLUSIVE):
        return Exit.OK
    return code


def _family_histories(
    engine: Engine, cases: Sequence[Case], refs: Sequence[ToolchainRef], every: bool
) -> list[History]:
    """Find the history of each case of one family."""
    from triage.bisect.history import histories

    return [*histories(engine, cases, refs, every=every)]
