"""`triage run`, `triage history` and `triage bench`: compile cases on toolchains, find
what changed across releases, and measure what they compile to.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from triage.cli.cases import (
    Compiling,
    SeveralCases,
    of_one_family,
    open_engine_for,
    resolve_all,
    revs_by_family,
)
from triage.cli.command import (
    JOBS,
    SECONDS,
    SUITE,
    TOOLCHAINS,
    Reply,
    command,
    duration_option,
    flag,
    junit_command,
    option,
    report,
)
from triage.execution.engine import Engine
from triage.execution.judge import RunResults
from triage.execution.task import ProbeJob, Task
from triage.model.errors import BadInput, Interrupted
from triage.processes.sealing import is_sealing
from triage.report.tables import benchmark_document, run_document, run_junit


@junit_command
def run_cases(
    chosen: SeveralCases,
    compiling: Compiling,
    suite_config: list[Path] | None = SUITE,
    toolchain: list[str] | None = TOOLCHAINS,
    fresh: bool = flag("--fresh", "Compile again instead of using cached results."),
    strict: bool = flag("--strict", "Exit 1 also when a known failure passes."),
) -> Reply:
    """Compile every case on every toolchain and report failures.

    Results are cached; a second run compiles nothing. Exit 1 when a case fails that its
    recipe does not expect to fail.

    - `triage run recipes/cuda-matmul-f32.yaml -t 3.3.0 -t latest`

    - `triage run recipes/ -t 3.3.0 -t triton:3.2.0` compiles recipes of several
      compilers, each with its own
    """
    cases = chosen.selected_cases(suite_config, toolchain or ())
    named = revs_by_family(cases, toolchain or ["installed"])
    with compiling.open(*cases) as engine:
        refs = {
            family: resolve_all(engine, family, revs) for family, revs in named.items()
        }
        jobs = [
            ProbeJob(case, ref, fresh=fresh)
            for case in cases
            for ref in refs.get(case.compiler, ())
        ]
        probes = engine.probe_in_order(jobs)
        if compiling.app.verbose:
            for job in jobs:
                engine.progress.note(_read_access_text(engine, job))
    results = RunResults.of(probes, strict=strict)
    return report(results, run_document, junit=run_junit)


def _read_access_text(engine: Engine, job: ProbeJob) -> str:
    """Return what the compile of a job may read."""
    task = engine.plan(job)
    paths = task.seal.reads if isinstance(task, Task) else ()
    text = "is not sealed: it may read all files"
    if is_sealing():
        text = "may read " + (", ".join(map(str, paths)) or "nothing: it is untestable")
    return f"{job.case.name} on {job.ref.revision.name} {text}"


@command
def bench(
    chosen: SeveralCases,
    toolchain: list[str] | None = TOOLCHAINS,
    dispatch: str | None = option(
        "NAME",
        "Measure each dispatch whose name contains NAME, or `all` (default: "
        "whole functions).",
    ),
    time: float | None = duration_option(
        "Measure for at most this long (default: 60s)."
    ),
) -> Reply:
    """Measure the run time of compiled programs side by side.

    Measure all configurations (cases on toolchains) in turn until every verdict is
    clear or the time is up; the first one is the baseline. Exit 1 when one is slower,
    3 when a verdict is unclear and none is slower.

    - `triage bench recipes/row-sum.yaml -t 3.10.0 -t 3.11.0`

    - `triage bench recipes/row-sum.yaml -t 3.10.0 -t 3.11.0 --dispatch all` compares
      their kernels one by one
    """
    from triage.execution.benchmark import Benchmark  # slow to import

    revs = toolchain or ["installed"]
    cases = of_one_family(chosen.selected_cases(), revs)
    family = cases[0].compiler
    with open_engine_for(chosen.app, cases, 1) as engine:
        runner = engine.compilers[family].run
        if runner is None or not runner.measures:
            raise BadInput(
                f"programs of {family} cannot be run here; `triage bisect --metric` "
                "finds where another number changed"
            )
        refs = resolve_all(engine, family, revs)
        benchmark = Benchmark([ProbeJob(case, ref) for case in cases for ref in refs])
        try:
            dispatch = "" if dispatch == "all" else dispatch
            benchmark.measure(engine, time or SECONDS, dispatch)
        except (KeyboardInterrupt, Interrupted) as stop:
            benchmark.stopped = True
            return replace(report(benchmark, benchmark_document), error=stop)
    return report(benchmark, benchmark_document)


@command
def history(
    chosen: SeveralCases,
    suite_config: list[Path] | None = SUITE,
    since: str | None = option("REV", "Begin with this release (default: the first)."),
    until: str | None = option("REV", "End with this release (default: the last)."),
    jobs: int | None = JOBS,
) -> Reply:
    """Find every change of each case's status across releases.

    Most releases between two with the same status are not compiled, so a short window
    of failures can be missed. Releases where other cases change and those that a
    recipe's `expect` names are compiled first.
    """
    from triage.bisect.history import Histories, History, histories  # slow to import
    from triage.report.searches import history_document

    cases = chosen.selected_cases(suite_config, (since, until))
    bounds = [rev for rev in (since, until) if rev]
    if bounds:
        cases = of_one_family(cases, bounds)
    rows: list[History] = []
    with open_engine_for(chosen.app, cases, jobs) as engine:
        for family in dict.fromkeys(case.compiler for case in cases):
            refs = engine.registry.between(family, since, until)
            members = [case for case in cases if case.compiler == family]
            rows += histories(engine, members, refs)
    return report(Histories(rows), history_document)
